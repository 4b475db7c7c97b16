"""The clock of a member."""

import time


def clock() -> float:
    """Read a clock that also runs while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
