"""
How often one thing is told of one object. Pure: the time comes from the caller.

What happens a few times is told each time; what happens on and on is told once a minute, with how
often it was held back meanwhile.
"""

from collections.abc import Hashable
from dataclasses import dataclass

AT_ONCE = 10
REFILL_SECONDS = 60.0
"""Until one more may be told."""
MOST_KEPT = 10_000
"""Things that are remembered; those that have been quiet for long go first."""


@dataclass(slots=True)
class _Told:
    """What is left for one thing."""

    room: float
    at: float
    held: int = 0


class Brake:
    """Remembers what was told."""

    def __init__(self) -> None:
        """Nothing was told yet."""
        self._told: dict[Hashable, _Told] = {}

    def let_through(self, what: Hashable, now: float) -> int | None:
        """Say how often the same was held back since it was told last; None: hold this back too."""
        found = self._told.pop(what, None) or _Told(AT_ONCE, now)
        self._told[what] = found  # the last one now
        if len(self._told) > MOST_KEPT:
            del self._told[next(iter(self._told))]
        found.room = min(AT_ONCE, found.room + (now - found.at) / REFILL_SECONDS)
        found.at = now
        if found.room < 1:
            found.held += 1
            return None
        held, found.held = found.held, 0
        found.room -= 1
        return held
