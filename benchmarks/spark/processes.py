"""Measures CPU time and memory of the Python and Java processes of a Spark application."""

import contextlib
import enum
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGES_A_MIB = 2**20 / os.sysconf("SC_PAGE_SIZE")
_PAUSE_SECONDS = 1.0


class Kind(enum.StrEnum):
    """The role of a process."""

    DRIVER = "driver, Python"
    DRIVER_JVM = "driver, JVM"
    PLANNER = "source in the driver, Python"
    EXECUTOR_JVM = "executors, JVM"
    WORKER = "workers, Python"

    @property
    def is_jvm(self) -> bool:
        """Whether the process grows up to its configured limit."""
        return self in (Kind.DRIVER_JVM, Kind.EXECUTOR_JVM)


_CHILDREN = {Kind.DRIVER_JVM: Kind.PLANNER, Kind.EXECUTOR_JVM: Kind.WORKER}


@dataclass(frozen=True, slots=True)
class Process:
    """A process, as it is now."""

    pid: int
    kind: Kind
    cpu_seconds: float
    rss_mib: float
    heap: str
    """The heap limit of a JVM."""


@dataclass(frozen=True, slots=True)
class _Seen:
    pid: int
    parent: int
    ticks: int
    pages: int
    command: str


def list_below(root: int) -> list[Process]:
    """List the driver with this id, and its descendants."""
    children = defaultdict(list)
    driver = None
    for seen in _list_all():
        children[seen.parent].append(seen)
        if seen.pid == root:
            driver = seen
    found: list[Process] = []
    waiting = [] if driver is None else [(driver, Kind.DRIVER)]
    while waiting:
        seen, kind = waiting.pop()
        found.append(_process(seen, kind))
        waiting += [(child, _kind(child, kind)) for child in children[seen.pid]]
    return found


def cpu_used(root: int, seconds: float) -> float:
    """
    Measure how many processor seconds a driver and its descendants use in some time.

    Spark ends idle workers. Their time counts up to the last moment at which they were seen.
    """
    before = _cpu_seconds(root)
    after = dict(before)
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _PAUSE_SECONDS))
        after |= _cpu_seconds(root)
    return sum(after.values()) - sum(before.values())


def _cpu_seconds(root: int) -> dict[int, float]:
    return {process.pid: process.cpu_seconds for process in list_below(root)}


def _kind(seen: _Seen, parent: Kind) -> Kind:
    if "org.apache.spark.deploy.SparkSubmit" in seen.command:
        return Kind.DRIVER_JVM
    if "CoarseGrainedExecutorBackend" in seen.command:
        return Kind.EXECUTOR_JVM
    return _CHILDREN.get(parent, parent)


def _process(seen: _Seen, kind: Kind) -> Process:
    heap = re.search(r"-Xmx(\S+)", seen.command)
    seconds, mib = seen.ticks / _TICKS, seen.pages / _PAGES_A_MIB
    return Process(seen.pid, kind, seconds, mib, heap[1] if heap else "")


def _list_all() -> Iterator[_Seen]:
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()
            command = (place / "cmdline").read_text(errors="replace").replace("\0", " ")
            ticks = sum(int(each) for each in fields[11:13])
            yield _Seen(int(place.name), int(fields[1]), ticks, int(fields[21]), command)
