"""
Makes random histories of one queue: what is sent, what happens to brokers, and what is read when.

The functions are pure: the same seed makes the same history. At the end of each history all faults
are over, and reads must return everything that is still stored.
"""

import random
from dataclasses import dataclass
from enum import Enum

TAGS = ("red", "green", "blue")


class Kind(Enum):
    """How a message is stored."""

    PLAIN = "plain"
    COMPRESSED = "compressed"
    BROKEN = "broken"
    """The flag says that the body is compressed, but the body is not."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send messages of about this size, all of the same kind."""

    count: int
    size: int
    kind: Kind = Kind.PLAIN


@dataclass(frozen=True, slots=True)
class Read:
    """Read up to the known end, from where the last read ended or from the beginning."""

    allow_gaps: bool
    tags: str | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Let the broker delete its oldest messages, and read repeatedly meanwhile."""

    allow_gaps: bool
    tags: str | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    """Reset the group's offset on the broker to this fraction of the queue."""

    part: float


class Event(Enum):
    """Other events."""

    HOLD_SLAVE = "the slave gets nothing more"
    FREE_SLAVE = "the slave gets everything"
    LOSE_MASTER = "the master leaves the route"
    FIND_MASTER = "the master is back"
    TAKE_PERMISSION = "the topic may not be read"
    GIVE_PERMISSION = "the topic may be read"
    MAKE_ANEW = "the topic is deleted, and made anew"


Step = Send | Read | Delete | Reset | Event


def make(seed: int) -> list[Step]:
    """Make the history of this seed."""
    return _Maker(random.Random(seed)).make()


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._is_held = self._is_lost = self._is_forbidden = False

    def make(self) -> list[Step]:
        steps: list[Step] = [self._send()]
        for _ in range(self._rng.randint(4, 12)):
            steps += self._next()
        return [*steps, *self._mended(), Read(True, again=True), Read(False, again=True)]

    def _next(self) -> list[Step]:
        choices = [self._read] * 6
        if not self._is_lost:
            choices += [self._more] * 4
            choices += [self._hold, self._reset, self._permit]
            if not self._is_held:  # a slave never gets messages that its master has already deleted
                choices += [self._delete, self._delete, self._anew]
        choices.append(self._lose)
        return self._rng.choice(choices)()

    def _send(self) -> Send:
        kind = self._rng.choices(list(Kind), (6, 2, 1))[0]
        return Send(self._rng.randint(1, 120), self._rng.choice((20, 300, 1200, 4000)), kind)

    def _more(self) -> list[Step]:
        return [self._send()]

    def _read(self) -> list[Step]:
        again = self._rng.random() < 0.3
        return [Read(self._rng.random() < 0.5, self._tags(), again)]

    def _delete(self) -> list[Step]:
        return [self._send(), Delete(self._rng.random() < 0.7, self._tags())]

    def _reset(self) -> list[Step]:
        read = Read(self._rng.random() < 0.5, self._tags(), self._rng.random() < 0.5)
        return [Reset(self._rng.random()), read]

    def _hold(self) -> list[Step]:
        self._is_held = not self._is_held
        return [Event.HOLD_SLAVE, self._send()] if self._is_held else [Event.FREE_SLAVE]

    def _permit(self) -> list[Step]:
        self._is_forbidden = not self._is_forbidden
        return [Event.TAKE_PERMISSION if self._is_forbidden else Event.GIVE_PERMISSION]

    def _lose(self) -> list[Step]:
        self._is_lost = not self._is_lost
        return [Event.LOSE_MASTER if self._is_lost else Event.FIND_MASTER]

    def _anew(self) -> list[Step]:
        self._is_forbidden = False
        return [Event.MAKE_ANEW]

    def _mended(self) -> list[Step]:
        found = [
            (self._is_lost, Event.FIND_MASTER),
            (self._is_held, Event.FREE_SLAVE),
            (self._is_forbidden, Event.GIVE_PERMISSION),
        ]
        return [event for is_needed, event in found if is_needed]

    def _tags(self) -> str | None:
        if self._rng.random() < 0.6:
            return None
        return "||".join(self._rng.sample(TAGS, self._rng.randint(1, 2)))
