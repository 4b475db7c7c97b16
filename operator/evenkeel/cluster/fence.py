"""
Until when a leader may begin what it cannot take back.

A Lease keeps two from leading, not two from working: who was held up for long, and leads no more,
may be in the middle of something. So whatever changes something asks here right before it, and gets
the time that is left until somebody else may lead. The clock goes on while a machine sleeps.
"""

import math
import time
from collections.abc import Callable

from evenkeel.errors import EvenkeelError

Clock = Callable[[], float]


class LostLeadError(EvenkeelError):
    """Somebody else may lead by now."""


def now() -> float:
    """Tell the time, by a clock that nobody sets and that does not stand still."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Fence:
    """Open until it is closed; a Lease opens it for a while only."""

    def __init__(self, clock: Clock = now) -> None:
        """Where there is no Lease, it stays open."""
        self._clock = clock
        self._last_begin = math.inf
        self._end = math.inf

    def open(self, last_begin: float, end: float) -> None:
        """Let work begin until then, which has to be over by its end."""
        self._last_begin, self._end = last_begin, end

    def close(self) -> None:
        """Let nothing begin any more."""
        self._last_begin = self._end = -math.inf

    def seconds_left(self) -> float:
        """Tell how long something that begins now may take; raise if nothing may."""
        found = self._clock()
        if found >= self._last_begin:
            raise LostLeadError("it is not done, for this process leads no more")
        return self._end - found
