"""When a driver that has ended starts again, by its exit code. Pure."""

from dataclasses import dataclass

DONE, PERMANENT = 0, 78
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
STEADY_SECONDS = 600.0
"""A driver that ran for so long has not failed at once: the pauses begin anew."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a driver ended."""

    code: int
    ran_seconds: float


def pause(ending: Ending, failures: int) -> float | None:
    """Tell how long to wait before the next driver; None: until somebody changes something."""
    if ending.code == PERMANENT:
        return None
    if ending.code == DONE:
        return 0.0
    return min(FIRST_PAUSE * 2.0 ** min(failures, 30), LONGEST_PAUSE)
