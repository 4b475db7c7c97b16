"""Finds the processes of a job, which are in the Unix session that the driver has started."""

import contextlib
import re
from pathlib import Path


def list_session(session: int) -> list[int]:
    """List the processes of a session that a driver started."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if int((place / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                found.append(int(place.name))
    return found


def find(session: int, executor: str) -> int | None:
    """Find the process of an executor by its id in Spark."""
    for pid in list_session(session):
        if re.search(
            rf"CoarseGrainedExecutorBackend .*--executor-id {executor} ", read_command(pid)
        ):
            return pid
    return None


def read_command(pid: int) -> str:
    """Read the command line of a process; empty if the process has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""
