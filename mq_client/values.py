"""
What the client hands out: queues, routes, what a pull brought, who reads and how far behind.

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
MOST_PERM = 7
"""Both, and the bit of inherited settings."""


class MessageQueue(NamedTuple):
    """One queue of a topic. Queues sort as RocketMQ sorts them, but for odd letters in names."""

    topic: str
    broker: str
    id: int

    def __str__(self) -> str:
        """Show it as `orders@broker-a 3`."""
        return f"{self.topic}@{self.broker} {self.id}"


def checked_queue(value: object) -> MessageQueue:
    """Take a queue as callers give it, or raise a `UsageError`."""
    if (
        isinstance(value, MessageQueue)
        and isinstance(value.topic, str)
        and isinstance(value.broker, str)
        and is_whole(value.id, 0, INT32_MAX)
    ):
        return value
    raise errors.UsageError(f"{value!r} is no queue, as Queue('orders', 'broker-a', 0)")


@dataclass(frozen=True, slots=True)
class BrokerRoute:
    """What a topic has on one broker, and where that broker answers, by broker id (0: master)."""

    broker: str
    cluster: str
    addresses: Mapping[int, str]
    read_queues: int
    write_queues: int
    perm: int
    zone: str | None = None
    """The zone that the broker registers."""

    @property
    def master(self) -> str | None:
        """Where to write; None while there is no master."""
        return self.addresses.get(MASTER_ID)

    @property
    def is_readable(self) -> bool:
        """
        Whether consumers may read here.

        A master is not needed, as a slave answers pulls too. An address is not needed either: a
        queue exists whether or not its broker is up, so a broker that is away moves no queue.
        """
        return bool(self.perm & READ)

    @property
    def is_writable(self) -> bool:
        """Whether producers may write here: slaves take no messages."""
        return bool(self.perm & WRITE) and self.master is not None

    def address(self, broker_id: int = MASTER_ID) -> str | None:
        """Where to read: at this one of the group, else at the master, else at any slave."""
        found = self.addresses.get(broker_id) or self.master
        return found or next(iter(self.addresses.values()), None)


@dataclass(frozen=True, slots=True)
class Route:
    """Where a topic's queues are, by broker name in RocketMQ's order."""

    topic: str
    brokers: tuple[BrokerRoute, ...]
    is_static: bool = False
    """Whether it is a static topic, whose queues move between brokers. They are not supported."""

    def broker(self, name: str) -> BrokerRoute | None:
        """Find a broker by name."""
        return next((broker for broker in self.brokers if broker.broker == name), None)

    @property
    def readable(self) -> list[MessageQueue]:
        """The queues that consumers see, RocketMQ's subscribe view."""
        return [
            MessageQueue(self.topic, broker.broker, number)
            for broker in self.brokers
            if broker.is_readable
            for number in range(broker.read_queues)
        ]

    @property
    def writable(self) -> list[MessageQueue]:
        """The queues that producers see, RocketMQ's publish view."""
        return [
            MessageQueue(self.topic, broker.broker, number)
            for broker in self.brokers
            if broker.is_writable
            for number in range(broker.write_queues)
        ]


class BrokerMap(NamedTuple):
    """Who serves: broker groups by cluster, and addresses by broker group and id."""

    clusters: Mapping[str, tuple[str, ...]]
    brokers: Mapping[str, Mapping[int, str]]


class PullStatus(Enum):
    """How a pull ended. The value is the answer's code."""

    FOUND = 0
    NOTHING_NEW = 19
    NOTHING_MATCHED = 20
    """Nothing in this stretch passes the filter: go on at `next_offset` at once."""
    OFFSET_MOVED = 21
    """There is no such offset: `next_offset` is the nearest one there is."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """The answer to one pull. `body` holds the messages as they were stored."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    body: bytes | memoryview
    remark: str | None = None


class Offsets(NamedTuple):
    """What a queue holds: offsets from `min` up to, and without, `max`."""

    min: int
    max: int
    last_store_ms: int


class Lag(NamedTuple):
    """How far a group is behind on one queue."""

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    last_timestamp_ms: int

    @property
    def messages(self) -> int:
        """How many messages wait."""
        return max(0, self.broker_offset - self.consumer_offset)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A client that heartbeats for a group, as one broker sees it."""

    client_id: str
    address: str
    language: str
    version: int


@dataclass(frozen=True, slots=True)
class Members:
    """Who is connected for a group, and what they asked for. A filter text by topic."""

    group: str
    members: tuple[GroupMember, ...]
    consume_type: str | None
    message_model: str | None
    subscriptions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic on one broker. Writing it creates the topic or changes its counts."""

    topic: str
    read_queues: int = 8
    write_queues: int = 8
    perm: int = READ | WRITE
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what no broker should be told."""
        if not isinstance(self.topic, str) or not self.topic:
            raise errors.UsageError(f"topic {self.topic!r}: its name is a text, and not empty")
        for name, most in (
            ("read_queues", INT32_MAX), ("write_queues", INT32_MAX), ("perm", MOST_PERM)
        ):  # fmt: skip
            value = getattr(self, name)
            if not is_whole(value, 0, most):
                raise errors.UsageError(
                    f"topic {self.topic!r}: {name} is {value!r}, not a whole number "
                    f"from 0 to {most}"
                )


class Stored(NamedTuple):
    """Where a message, or the first of a batch, was stored."""

    queue: MessageQueue
    offset: int


class Sent(NamedTuple):
    """
    Where messages were stored, the first of them at `offset`, and the ids that people see.

    The offset of a message with a delay is one in the broker's own schedule, not in the queue.
    """

    queue: MessageQueue
    offset: int
    message_ids: tuple[str, ...]
