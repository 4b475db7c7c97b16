"""
Limits until when a leader may start a write.

A Lease prevents two leaders, but not a former leader that was paused in the middle of its work. So
each write checks the fence first, and gets the time that is left until another replica may lead.
The clock also advances while the machine sleeps.
"""

import math
import time
from collections.abc import Callable

from evenkeel.errors import EvenkeelError

Clock = Callable[[], float]


class LostLeadError(EvenkeelError):
    """Another replica may lead by now."""


def read_clock() -> float:
    """Read a clock that cannot be set and also advances while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Fence:
    """Open until it is closed; a Lease opens it for a limited time."""

    def __init__(self, clock: Clock = read_clock) -> None:
        """Start open: without a Lease it stays open."""
        self._clock = clock
        self._last_begin = math.inf
        self._end = math.inf

    def open(self, last_begin: float, end: float) -> None:
        """Allow work that starts before `last_begin` and ends before `end`."""
        self._last_begin, self._end = last_begin, end

    def close(self) -> None:
        """Allow no more work."""
        self._last_begin = self._end = -math.inf

    def is_open(self) -> bool:
        """Whether work may start now."""
        return self._clock() < self._last_begin

    def count_seconds_left(self) -> float:
        """Return how long work that starts now may take; raise if none may start."""
        found = self._clock()
        if found >= self._last_begin:
            raise LostLeadError("the write is not made because this process no longer leads")
        return self._end - found
