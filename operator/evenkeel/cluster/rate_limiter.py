"""
Limits how often the same message is repeated. Pure: the caller passes the time.

A message is let through a few times in a row. After that it is let through once a minute, with the
number of times that it was suppressed in between.
"""

from collections.abc import Hashable
from dataclasses import dataclass

AT_ONCE = 10
REFILL_SECONDS = 60.0
"""Time until a message may be let through once more."""
MOST_KEPT = 10_000
"""Maximum number of remembered messages. The message that was idle longest is dropped first."""


@dataclass(slots=True)
class _Told:
    """How often one message may still be let through, and how often it was suppressed."""

    room: float
    at: float
    held: int = 0


class RateLimiter:
    """Remembers which messages were let through."""

    def __init__(self) -> None:
        """Begin without any messages."""
        self._told: dict[Hashable, _Told] = {}

    def let_through(self, what: Hashable, now: float) -> int | None:
        """
        Return how often the message was suppressed since it was last let through.

        None means that the message must be suppressed now.
        """
        found = self._told.pop(what, None) or _Told(AT_ONCE, now)
        self._told[what] = found  # this moves it to the end of the dictionary
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
