"""What differs between two answers of a name server about one topic, in values and in words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter

from lb_core import errors
from lb_core.model import shorten, sorted_texts
from lb_core.routes import INHERIT, READ, WRITE, BrokerQueues, Route


class What(Enum):
    """What a change is about; the value is how it is said."""

    CAME = "came"
    LEFT = "left"
    READ_QUEUES = "read queues"
    WRITE_QUEUES = "write queues"
    PERM = "perm"
    MASTER = "master"
    SLAVES = "slaves"
    ZONE = "zone"
    CLUSTER = "cluster"
    SYSTEM_FLAG = "system flag"


_ASPECTS: Mapping[What, Callable[[BrokerQueues], object]] = {
    What.READ_QUEUES: attrgetter("read_queues"),
    What.WRITE_QUEUES: attrgetter("write_queues"),
    What.PERM: attrgetter("perm"),
    What.MASTER: attrgetter("master"),
    What.SLAVES: attrgetter("slaves"),
    What.ZONE: attrgetter("zone"),
    What.CLUSTER: attrgetter("cluster"),
    What.SYSTEM_FLAG: attrgetter("system_flag"),
}


@dataclass(frozen=True, slots=True)
class Change:
    """
    One difference between two routes, on one broker.

    `before` and `after` are values of the aspect; of a broker that came or left, its
    `BrokerQueues` on one side and None on the other.
    """

    broker: str
    what: What
    before: object
    after: object

    def __str__(self) -> str:
        """Say it in one line."""
        return f"{shorten(self.broker)} {self._words()}"

    def _words(self) -> str:
        if self.what in (What.CAME, What.LEFT):
            queues = self.after or self.before
            return f"{self.what.value}, {_say(queues)}"
        if self.what is What.MASTER and self.after is None:
            return f"lost its master {_say(self.before)}"
        if self.what is What.MASTER and self.before is None:
            return f"found a master, {_say(self.after)}"
        say = _say_perm if self.what is What.PERM else _say
        return f"{self.what.value}: {say(self.before)}, now {say(self.after)}"


def changes(old: Route, new: Route) -> tuple[Change, ...]:
    """Say what changed, by broker name. It is empty if, and only if, the routes are equal."""
    if old.topic != new.topic:
        raise errors.BadRequestError(
            f"routes of two topics, {shorten(old.topic)} and {shorten(new.topic)}, have no changes"
        )
    before = {each.broker: each for each in old.brokers}
    after = {each.broker: each for each in new.brokers}
    found: list[Change] = []
    for name in sorted_texts(before.keys() | after.keys()):
        found += _changes_of(name, before.get(name), after.get(name))
    return tuple(found)


def _changes_of(name: str, old: BrokerQueues | None, new: BrokerQueues | None) -> Sequence[Change]:
    if old is None or new is None:
        return [Change(name, What.CAME if old is None else What.LEFT, old, new)]
    return [
        Change(name, what, look(old), look(new))
        for what, look in _ASPECTS.items()
        if look(old) != look(new)
    ]


def _say_perm(perm: object) -> str:
    bits = {READ: "read", WRITE: "write", INHERIT: "inherit"}
    named = [word for bit, word in bits.items() if isinstance(perm, int) and perm & bit]
    return " and ".join(named) or "nothing"


def _say(value: object) -> str:
    if isinstance(value, BrokerQueues):
        return f"{value.read_queues} read and {value.write_queues} write queues"
    if isinstance(value, tuple):
        return ", ".join(f"{number} at {shorten(address)}" for number, address in value) or "none"
    return "none" if value is None else shorten(value)
