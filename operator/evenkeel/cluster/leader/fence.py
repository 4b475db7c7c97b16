"""
Limits the time in which a leader may write.

A Lease ensures that there is one leader, but a process that was paused in the middle of its work
may not know that it no longer leads. So each write first checks the fence. The fence also tells how
much time is left before another replica can lead. This time is the time limit of the write. The
clock advances even while the machine sleeps.
"""

import math
import time
from collections.abc import Callable

from evenkeel.errors import EvenkeelError

Clock = Callable[[], float]


class LostLeadError(EvenkeelError):
    """Another replica may already be the leader."""


def read_clock() -> float:
    """Read a clock that cannot be set, and that advances even while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Fence:
    """Allows writes while it is open. A Lease opens it for a limited time."""

    def __init__(self, clock: Clock = read_clock) -> None:
        """Begin open. Without a Lease the fence stays open."""
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
        """Return how long work that starts now may take. Raise if no work may start."""
        found = self._clock()
        if found >= self._last_begin:
            raise LostLeadError("the write was not made because this process no longer leads")
        return self._end - found
