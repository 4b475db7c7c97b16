"""
The values that the client returns: queues, routes, answers to pulls, members, offsets, lag.

All are frozen. Times are milliseconds since 1970, as in RocketMQ.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from mq_client import errors
from mq_client.checks import INT32_MAX, is_whole

MASTER_ID = 0
READ, WRITE = 4, 2
"""The bits of `perm`."""
DLQ_PREFIX = "%DLQ%"
"""With the name of a group, this makes the name of RocketMQ's topic for its dead letters."""
MOST_PERM = 7
"""READ, WRITE, and the bit for inherited settings."""


class MessageQueue(NamedTuple):
    """One queue of a topic. Queues sort as in RocketMQ, if their names are ASCII."""

    topic: str
    broker: str
    id: int

    def __str__(self) -> str:
        """Show the queue as `orders@broker-a 3`."""
        return f"{self.topic}@{self.broker} {self.id}"


def check_queue(value: object) -> MessageQueue:
    """Return a caller's queue if it is valid, or raise a `UsageError`."""
    if (
        isinstance(value, MessageQueue)
        and isinstance(value.topic, str)
        and isinstance(value.broker, str)
        and is_whole(value.id, 0, INT32_MAX)
    ):
        return value
    raise errors.UsageError(
        f"{value!r} is not a queue; MessageQueue('orders', 'broker-a', 0) would be one"
    )


@dataclass(frozen=True, slots=True)
class BrokerRoute:
    """The queues of a topic on one broker, and the broker's addresses by id (0: master)."""

    broker: str
    cluster: str
    addresses: Mapping[int, str]
    read_queues: int
    write_queues: int
    perm: int
    zone: str | None = None
    """The zone that the broker has registered."""

    @property
    def master(self) -> str | None:
        """The address of the master; None while there is none."""
        return self.addresses.get(MASTER_ID)

    @property
    def is_readable(self) -> bool:
        """
        Whether consumers may read from this broker.

        No master is needed, because slaves answer pulls too. No address is needed either: a queue
        exists even if its broker is down, so no queue moves when a broker fails.
        """
        return bool(self.perm & READ)

    @property
    def is_writable(self) -> bool:
        """Whether producers may write to this broker. Slaves accept no messages."""
        return bool(self.perm & WRITE) and self.master is not None

    def find_address(self, broker_id: int = MASTER_ID) -> str | None:
        """Find an address to read from: this broker id's, otherwise the master's or a slave's."""
        found = self.addresses.get(broker_id) or self.master
        return found or next(iter(self.addresses.values()), None)


@dataclass(frozen=True, slots=True)
class Route:
    """The brokers of a topic's queues, in RocketMQ's order of broker names."""

    topic: str
    brokers: tuple[BrokerRoute, ...]
    is_static: bool = False
    """Whether this is a static topic, whose queues move between brokers. It is not supported."""

    def find_broker(self, name: str) -> BrokerRoute | None:
        """Find a broker by name."""
        return next((broker for broker in self.brokers if broker.broker == name), None)

    @property
    def readable(self) -> list[MessageQueue]:
        """The queues that consumers see, which RocketMQ calls the subscribe view."""
        return [
            MessageQueue(self.topic, broker.broker, number)
            for broker in self.brokers
            if broker.is_readable
            for number in range(broker.read_queues)
        ]

    @property
    def writable(self) -> list[MessageQueue]:
        """The queues that producers see, which RocketMQ calls the publish view."""
        return [
            MessageQueue(self.topic, broker.broker, number)
            for broker in self.brokers
            if broker.is_writable
            for number in range(broker.write_queues)
        ]


class BrokerMap(NamedTuple):
    """The brokers of a cluster: names by cluster, and addresses by name and id."""

    clusters: Mapping[str, tuple[str, ...]]
    brokers: Mapping[str, Mapping[int, str]]


class PullStatus(Enum):
    """The outcome of a pull. The value is the answer's code."""

    FOUND = 0
    NOTHING_NEW = 19
    NOTHING_MATCHED = 20
    """No message up to `next_offset` passes the filter: continue there immediately."""
    OFFSET_MOVED = 21
    """The requested offset does not exist. `next_offset` is the nearest existing offset."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """The answer to one pull. `body` contains the messages as they are stored."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    body: bytes | memoryview
    remark: str | None = None


class Offsets(NamedTuple):
    """The offsets of a queue: from `min` up to `max`, exclusive."""

    min: int
    max: int
    last_store_ms: int


class Lag(NamedTuple):
    """The lag of a group on one queue."""

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    last_timestamp_ms: int
    pull_offset: int = -1
    """The offset that the group gets next; -1 if the broker does not report it."""

    @property
    def messages(self) -> int:
        """The number of messages that the group has not consumed yet."""
        return max(0, self.broker_offset - self.consumer_offset)

    @property
    def next_offset(self) -> int:
        """The offset of the first message that no consumer of the group has got yet."""
        return max(self.consumer_offset, self.pull_offset)

    @property
    def ready(self) -> int:
        """The number of messages that no consumer of the group has got yet."""
        return max(0, self.broker_offset - self.next_offset)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A client that sends heartbeats for a group, as known to one broker."""

    client_id: str
    address: str
    language: str
    version: int


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a group, and their subscriptions: a filter by topic."""

    group: str
    members: tuple[GroupMember, ...]
    consume_type: str | None
    message_model: str | None
    subscriptions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings of a topic on one broker, with which the topic is created or changed."""

    topic: str
    read_queues: int = 8
    write_queues: int = 8
    perm: int = READ | WRITE
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        if not isinstance(self.topic, str) or not self.topic:
            raise errors.UsageError(
                f"topic {self.topic!r}: the name must be a string, and not empty"
            )
        for name, most in (
            ("read_queues", INT32_MAX), ("write_queues", INT32_MAX), ("perm", MOST_PERM)
        ):  # fmt: skip
            value = getattr(self, name)
            if not is_whole(value, 0, most):
                raise errors.UsageError(
                    f"topic {self.topic!r}: {name} is {value!r}, not a whole number "
                    f"from 0 to {most}"
                )


MOST_RETRIES = 16
"""RocketMQ's default."""


class RequestMode(Enum):
    """How RocketMQ's own consumers of a group get the messages of a topic."""

    PULL = "PULL"
    POP = "POP"


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The settings of a group on one broker, with which the group is created or changed."""

    group: str
    is_enabled: bool = True
    """Whether the broker gives messages to the group. Pops that already wait fail when they end."""
    is_ordered: bool = False
    most_retries: int = MOST_RETRIES

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        if not isinstance(self.group, str) or not self.group:
            raise errors.UsageError(
                f"group {self.group!r}: the name must be a string, and not empty"
            )
        if not is_whole(self.most_retries, -INT32_MAX - 1, INT32_MAX):
            raise errors.UsageError(
                f"group {self.group!r}: most_retries is {self.most_retries!r}, not a whole number"
            )


class Stored(NamedTuple):
    """The queue and offset of a stored message, or of the first message of a batch."""

    queue: MessageQueue
    offset: int


class Sent(NamedTuple):
    """
    The queue of the stored messages, the offset of the first one, and their ids.

    The offset of a message with a delay is its place in the broker's schedule, not in the queue.
    """

    queue: MessageQueue
    offset: int
    message_ids: tuple[str, ...]
