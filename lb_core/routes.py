"""
What a name server says about a topic, and which queues follow from it.

`read` makes a `Route` of a parsed answer. `publish_view` and `subscribe_view` name the queues that
producers and consumers see, as RocketMQ's clients do; `route_changes` says what differs between two
answers. Two parts of an answer are not for us: `orderTopicConf`, which old tools store to fix the
write queues of a topic by hand, is not looked at, and a static topic, whose queues wander between
brokers, is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn, TypeGuard

from lb_core import errors
from lb_core.model import MAX_QUEUE_ID, QueueRange, shorten, text_order

READ, WRITE, INHERIT = 4, 2, 1
"""The bits of `perm`. With the last one, topics made on first use may take it as their pattern."""
MASTER_ID = 0
LARGEST_BROKER_ID = 2**63 - 1
NO_ZONES: Mapping[str, str] = {}

Addresses = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class BrokerQueues:
    """
    What a topic has on one broker, and where that broker answers.

    `addresses` are (broker id, address) pairs, the master's first. Without any the broker is
    unknown: the name server lists its queues, but nobody can say where they are.
    """

    broker: str
    read_queues: int
    write_queues: int
    perm: int = READ | WRITE
    addresses: Addresses = ()
    zone: str | None = None
    cluster: str | None = None
    system_flag: int = 0

    def __post_init__(self) -> None:
        """Refuse counts and addresses that cannot be; sort the addresses."""
        if not isinstance(self.broker, str) or not self.broker:
            raise errors.BadRequestError("a broker's name must be a text that is not empty")
        self._refuse_unless_count("read queues", self.read_queues)
        self._refuse_unless_count("write queues", self.write_queues)
        self._refuse_unless_count("perm", self.perm)
        if len({number for number, _ in self.addresses}) < len(self.addresses):
            self._refuse("two addresses for one broker id")
        object.__setattr__(self, "addresses", tuple(sorted(self.addresses)))

    def _refuse_unless_count(self, what: str, value: object) -> None:
        if not _is_whole(value) or not 0 <= value <= MAX_QUEUE_ID:
            self._refuse(f"{what} {shorten(value)} is no whole number from 0 to {MAX_QUEUE_ID}")

    def _refuse(self, complaint: str) -> NoReturn:
        raise errors.BadRequestError(f"broker {shorten(self.broker)}: {complaint}")

    @property
    def is_readable(self) -> bool:
        """Whether consumers may read here."""
        return bool(self.perm & READ)

    @property
    def is_writable(self) -> bool:
        """Whether producers may write here."""
        return bool(self.perm & WRITE)

    @property
    def master(self) -> str | None:
        """Where to write, and where to read first; None while there is no master."""
        return dict(self.addresses).get(MASTER_ID)

    @property
    def slaves(self) -> Addresses:
        """Where to read when the master is gone or asks for it, by ascending broker id."""
        return tuple(pair for pair in self.addresses if pair[0] != MASTER_ID)

    @property
    def read_addresses(self) -> tuple[str, ...]:
        """Where a pull may be sent, the best first; none where the broker is unknown."""
        return tuple(address for _, address in self.addresses)


@dataclass(frozen=True, slots=True)
class Route:
    """Where a topic's queues are. Its brokers are sorted as RocketMQ sorts, whoever made it."""

    topic: str
    brokers: tuple[BrokerQueues, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a broker that is listed twice; sort."""
        if not isinstance(self.topic, str) or not self.topic:
            raise errors.BadRequestError("a topic's name must be a text that is not empty")
        ordered = sorted(self.brokers, key=lambda each: text_order(each.broker))
        for one, other in pairwise(ordered):
            if one.broker == other.broker:
                raise errors.BadRequestError(
                    f"route of {shorten(self.topic)}: broker {shorten(one.broker)} is listed twice"
                )
        object.__setattr__(self, "brokers", tuple(ordered))


def publish_view(route: Route) -> tuple[QueueRange, ...]:
    """
    The queues to send to, by broker name.

    A broker counts if it is writable, known and has a master: slaves take no messages.
    """
    return tuple(
        QueueRange(route.topic, each.broker, 0, each.write_queues, each.zone)
        for each in route.brokers
        if each.is_writable and each.master is not None and each.write_queues
    )


def subscribe_view(route: Route) -> tuple[QueueRange, ...]:
    """
    The queues to consume, by broker name: those of every readable broker.

    A master is not needed, since a slave answers pulls as well. An address is not needed either:
    a queue is there and has its owner whether or not its broker is up, so a broker that goes away
    for a while moves nothing. RocketMQ's clients count in the same way.
    """
    return tuple(
        QueueRange(route.topic, each.broker, 0, each.read_queues, each.zone)
        for each in route.brokers
        if each.is_readable and each.read_queues
    )


# --- reading an answer


def read(topic: str, answer: object, zones: Mapping[str, str] = NO_ZONES) -> Route:
    """
    Make a route of a name server's answer, as parsed from JSON.

    `zones` names the zone of brokers; where it has none, the answer's `zoneName` counts. Broker
    ids may be numbers or their text, for the name server writes either. A broker of which the
    topic has no queues is left out. Missing lists are refused: they are not empty ones.
    """
    at = _At(f"route of {shorten(topic)}", answer)
    if at.get("topicQueueMappingByBroker").value:
        at.get("topicQueueMappingByBroker").refuse("static topics are not supported")
    known: dict[str, _At] = {}
    for data in at.need("brokerDatas").items():
        name = data.need("brokerName")
        if known.setdefault(name.text(), data) is not data:
            name.refuse(f"broker {shorten(name.value)} is listed twice")
    brokers = [_read_broker(queues, known, zones) for queues in at.need("queueDatas").items()]
    return Route(topic, tuple(brokers))


@dataclass(frozen=True, slots=True)
class _At:
    """A value of the answer together with the path that leads to it."""

    path: str
    value: object

    def get(self, key: str) -> "_At":
        if not isinstance(self.value, Mapping):
            self.refuse("is no object")
        return _At(f"{self.path}, {key}", self.value.get(key))

    def need(self, key: str) -> "_At":
        found = self.get(key)
        return found if found.value is not None else found.refuse("is missing")

    def items(self) -> list["_At"]:
        if not isinstance(self.value, Sequence) or isinstance(self.value, str | bytes):
            self.refuse("is no list")
        return [_At(f"{self.path}[{place}]", each) for place, each in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value:
            self.refuse(f"{shorten(self.value)} is no text, or an empty one")
        return self.value

    def optional_text(self) -> str | None:
        return self.text() if self.value else None

    def whole(self) -> int:
        if not _is_whole(self.value):
            self.refuse(f"{shorten(self.value)} is no whole number")
        return self.value

    def refuse(self, complaint: str) -> NoReturn:
        raise errors.BadRequestError(f"{self.path}: {complaint}")


def _read_broker(queues: _At, known: Mapping[str, _At], zones: Mapping[str, str]) -> BrokerQueues:
    name = queues.need("brokerName").text()
    data = known.get(name, _At(queues.path, {}))
    flag = queues.get("topicSysFlag")
    return BrokerQueues(
        name,
        _read_count(queues, name, "readQueueNums"),
        _read_count(queues, name, "writeQueueNums"),
        _read_count(queues, name, "perm"),
        _read_addresses(data.need("brokerAddrs")) if name in known else (),
        zones.get(name) or data.get("zoneName").optional_text(),
        data.get("cluster").optional_text(),
        0 if flag.value is None else flag.whole(),
    )


def _read_count(queues: _At, broker: str, key: str) -> int:
    count = queues.need(key)
    return _At(f"{count.path} of broker {shorten(broker)}", count.value).whole()


def _read_addresses(addresses: _At) -> Addresses:
    if not isinstance(addresses.value, Mapping):
        addresses.refuse("is no object")
    found = []
    for key, value in addresses.value.items():
        at = _At(f"{addresses.path}[{shorten(key)}]", value)
        found.append((_read_broker_id(at, key), at.text()))
    return tuple(found)


def _read_broker_id(at: _At, key: object) -> int:
    if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) <= 19:
        key = int(key)
    if not _is_whole(key) or not 0 <= key <= LARGEST_BROKER_ID:
        at.refuse("is no broker id")
    return key


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
