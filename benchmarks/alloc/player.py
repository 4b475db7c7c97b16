"""
Play a script on a planner written in Python, and print one JSON line per measurement.

`scenarios` explains the commands. Each timed run is a plain call, with the garbage collector on, as
in production.
"""

import bisect
import contextlib
import json
import resource
import signal
import statistics
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Generic, TypeVar

from benchmarks.alloc.scenarios import Limits

Result = TypeVar("Result")


@dataclass(slots=True)
class Group:
    """The group to be planned: how many queues each topic has, and the members in order."""

    queues: list[int] = field(default_factory=list)
    members: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a result: queues that lost their owner, and the lowest and highest load."""

    moved: int
    low: int
    high: int


class TooSlowError(Exception):
    """One run exceeded the time limit."""


class Planner(ABC, Generic[Result]):
    """One way to plan a group."""

    @abstractmethod
    def prepare(self, group: Group, previous: Result | None) -> Callable[[], Result]:
        """Build the planner's ordinary input, which is not timed, and return the call to time."""

    def settle(self, group: Group, result: Result) -> Result:
        """Run the further rounds of a protocol until the result is final. Not timed."""
        return result

    @abstractmethod
    def count_facts(self, group: Group, previous: Result | None, result: Result) -> Facts:
        """Count what changed. Not timed."""


class Player(Generic[Result]):
    """Executes one command after another."""

    def __init__(self, planner: Planner[Result]) -> None:
        """Begin without members, queues or a previous plan."""
        self._planner = planner
        self._group = Group()
        self._limits = Limits()
        self._previous: Result | None = None
        self._measured: Result | None = None

    def play(self, script: Iterable[str]) -> None:
        """Play until the script ends, or until a plan takes too long."""
        for line in script:
            command, _, rest = line.rstrip("\n").partition(" ")
            try:
                self._obey(command, rest)
            except TooSlowError:
                _tell(stopped=True)
                return

    def _obey(self, command: str, rest: str) -> None:
        match command:
            case "limits":
                warm_up, runs, deadline = rest.split()
                self._limits = Limits(float(warm_up), int(runs), float(deadline))
            case "topics":
                self._group.queues = [int(count) for count in rest.split(",")]
            case "members":
                self._group.members = sorted(rest.split(","))
            case "join":
                bisect.insort(self._group.members, rest)
            case "leave":
                self._group.members.remove(rest)
            case "forget":
                self._previous = None
            case "plan":
                with _stop_after(self._limits.deadline_seconds):
                    result = self._planner.prepare(self._group, self._previous)()
                self._previous = self._settle(result)
            case "time":
                self._measure(rest)
            case "keep":
                self._previous = self._measured
            case "memory":
                _tell(memory_mib=_peak_memory_mib())
            case _:
                raise ValueError(f"unknown command {command!r}")

    def _measure(self, label: str) -> None:
        plan = self._planner.prepare(self._group, self._previous)
        try:
            result, millis = self._repeat(plan)
        except TooSlowError:
            _tell(event=label, over=self._limits.deadline_seconds * 1e3)
            raise
        self._measured = self._settle(result)
        facts = self._planner.count_facts(self._group, self._previous, self._measured)
        _tell(
            event=label,
            ms=statistics.median(millis),
            runs=len(millis),
            moved=facts.moved,
            low=facts.low,
            high=facts.high,
        )

    def _repeat(self, plan: Callable[[], Result]) -> tuple[Result, list[float]]:
        """Warm up, then time as many of the requested runs as fit into the deadline."""
        limits = self._limits
        begun = time.perf_counter()
        with _stop_after(limits.deadline_seconds):
            result, first = _time(plan)
        millis = [first]
        if first < limits.warm_up_seconds * 1e3:
            while time.perf_counter() - begun < limits.warm_up_seconds:
                result = plan()
            millis = []
            begun = time.perf_counter()
        deadline = begun + limits.deadline_seconds
        last = millis[0] if millis else 0.0
        while len(millis) < limits.runs and time.perf_counter() + last / 1e3 < deadline:
            result, last = _time(plan)
            millis.append(last)
        return result, millis

    def _settle(self, result: Result) -> Result:
        """Return the final result. Without previous owners, the result is already final."""
        return result if self._previous is None else self._planner.settle(self._group, result)


def main(planner: Planner[Result]) -> None:
    """Play standard input."""
    Player(planner).play(sys.stdin)


def find_loads(members: Iterable[str], loads: dict[str, int]) -> tuple[int, int]:
    """Find the lowest and highest load, counting members that own nothing."""
    counts = [loads.get(member, 0) for member in members]
    return min(counts), max(counts)


def _time(plan: Callable[[], Result]) -> tuple[Result, float]:
    started = time.perf_counter()
    result = plan()
    return result, (time.perf_counter() - started) * 1e3


@contextlib.contextmanager
def _stop_after(seconds: float) -> Iterator[None]:
    """Interrupt the block after `seconds`."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlowError

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _peak_memory_mib() -> float:
    """Return the peak memory; Linux counts it in KiB, macOS in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _tell(**facts: object) -> None:
    print(json.dumps(facts), flush=True)
