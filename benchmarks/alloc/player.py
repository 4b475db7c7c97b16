"""
Plays a script on a planner written in Python and prints one JSON line a measurement.

The commands are explained in `scenarios`. Timed is a plain call, the garbage collector on, as in
production.
"""

import bisect
import contextlib
import json
import resource
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Protocol


@dataclass(slots=True)
class Group:
    """The group to be planned: how many queues each topic has, and the members in order."""

    queues: list[int] = field(default_factory=list)
    members: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a result did: queues that lost their owner, and the lowest and highest load."""

    moved: int
    low: int
    high: int


class TooSlowError(Exception):
    """One run took longer than it may."""


class Planner[Result](Protocol):
    """One way to plan a group."""

    def prepare(self, group: Group, previous: Result | None) -> Callable[[], Result]:
        """Build the planner's ordinary input, not timed; what is returned is timed."""

    def settled(self, group: Group, result: Result) -> Result:
        """Run whatever further rounds the protocol needs until the result stands. Not timed."""

    def facts(self, previous: Result | None, result: Result) -> Facts:
        """Say what changed. Not timed."""
