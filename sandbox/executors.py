"""Finds the processes of a job: a driver starts a session, and its executors are in it."""

import contextlib
import re
from pathlib import Path


def of_session(session: int) -> list[int]:
    """List the processes of a session, which the driver began."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if int((place / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                found.append(int(place.name))
    return found


def find(session: int, executor: str) -> int | None:
    """Find the process of an executor by Spark's id of it."""
    for pid in of_session(session):
        if re.search(rf"CoarseGrainedExecutorBackend .*--executor-id {executor} ", command(pid)):
            return pid
    return None


def command(pid: int) -> str:
    """Read what a process was started as; empty once it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""
