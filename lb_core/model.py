"""
The basic values: queues, ranges of queues, members.

All are frozen. Ranges and members are validated when they are made, so functions that take them do
not check them again. A `Queue` may have any values, as in RocketMQ's lists; `inventory` knows which
queues exist.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from lb_core import errors

MAX_QUEUE_ID = 2**31 - 1
"""RocketMQ keeps queue ids in a signed 32-bit integer."""
LARGEST_AMOUNT = 1e200
"""A weight or a time above this is a mistake, and sums of such values would not be finite."""
SMALLEST_CAPACITY, LARGEST_CAPACITY = 1e-6, 1e6
"""Capacities are relative, and no real consumer has a million times the capacity of another."""


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue. It has the zone of its broker. Queues that differ only in zone are equal."""

    topic: str
    broker: str
    id: int
    zone: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class QueueRange:
    """The queues `start` to `stop - 1` of one topic on one broker."""

    topic: str
    broker: str
    start: int
    stop: int
    zone: str | None = None

    def __post_init__(self) -> None:
        """Refuse an invalid range of queue ids."""
        names = (self.topic, self.broker, self.zone or "")
        if not all(isinstance(name, str) for name in names):
            raise errors.BadRequestError(
                f"queues of {shorten(self.topic)} on {shorten(self.broker)} in zone "
                f"{shorten(self.zone)}: names must be strings"
            )
        ends = (self.start, self.stop)
        if not all(map(_is_id, ends)) or self.start >= self.stop:
            raise errors.BadRequestError(
                f"queues from {quote(self.start)} up to, not including, {quote(self.stop)} of "
                f"{shorten(self.topic)} on {shorten(self.broker)}: ids are whole numbers from 0 to "
                f"{MAX_QUEUE_ID}, and the end must be above the start"
            )

    def __len__(self) -> int:
        """Return the number of queues."""
        return self.stop - self.start

    def __iter__(self) -> Iterator[Queue]:
        """Iterate over the queues."""
        return (
            Queue(self.topic, self.broker, number, self.zone)
            for number in range(self.start, self.stop)
        )


@dataclass(frozen=True, slots=True)
class Member:
    """
    The current state of a consumer.

    `lost_for_seconds` is None while the consumer is present. A draining member must lose its
    queues. A capacity is relative to the capacities of the other members; a member with capacity 0
    gets no queues.
    """

    id: str
    zone: str | None = None
    capacity: float = 1
    draining: bool = False
    lost_for_seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse an invalid id, capacity or time."""
        if not isinstance(self.id, str) or not self.id:
            raise errors.BadRequestError("a consumer's id must be a non-empty string")
        if not isinstance(self.zone, str | None):
            raise errors.BadRequestError(
                f"consumer {shorten(self.id)}: zone {quote(self.zone)} is not a string"
            )
        if not is_amount(self.capacity) or not (
            self.capacity == 0 or SMALLEST_CAPACITY <= self.capacity <= LARGEST_CAPACITY
        ):
            raise errors.BadCapacityError(
                f"consumer {shorten(self.id)}: capacity {quote(self.capacity)} is not a number "
                f"from {SMALLEST_CAPACITY} to {LARGEST_CAPACITY:.0f}, or 0"
            )
        if not isinstance(self.draining, bool):
            raise errors.BadRequestError(
                f"consumer {shorten(self.id)}: draining must be True or False, "
                f"not {quote(self.draining)}"
            )
        if self.lost_for_seconds is not None and not is_amount(self.lost_for_seconds):
            raise errors.BadRequestError(
                f"consumer {shorten(self.id)}: {quote(self.lost_for_seconds)} is not a valid time "
                "in seconds since the consumer was lost"
            )


class Named(Protocol):
    """Anything that identifies a queue: a `Queue`, or a row of a request."""

    @property
    def topic(self) -> str:
        """The topic."""

    @property
    def broker(self) -> str:
        """The broker."""

    @property
    def id(self) -> int:
        """The id on that broker."""

    @property
    def zone(self) -> str | None:
        """The zone, if it is known."""


def make_ranges(queues: Iterable[Named]) -> list[QueueRange]:
    """Join queues into ranges. A repeated queue makes two ranges, which a plan refuses."""
    by_source: dict[tuple[str, str, str | None], list[int]] = {}
    for queue in queues:
        by_source.setdefault((queue.topic, queue.broker, queue.zone), []).append(queue.id)
    found = []
    for (topic, broker, zone), ids in by_source.items():
        ids.sort()
        cuts = [0, *(at for at, (a, b) in enumerate(pairwise(ids), 1) if b != a + 1), len(ids)]
        found += [
            QueueRange(topic, broker, ids[start], ids[stop - 1] + 1, zone)
            for start, stop in pairwise(cuts)
        ]
    return found


def order_text(text: str) -> bytes:
    """Make a key that sorts like Java's `String.compareTo`: U+1F600 comes before U+FF5E."""
    return text.encode("utf-16-be", "surrogatepass")


def order_queue(queue: Queue) -> tuple[bytes, bytes, int]:
    """Make a key that sorts like RocketMQ's `MessageQueue.compareTo`: topic, broker, id."""
    return order_text(queue.topic), order_text(queue.broker), queue.id


def sort_texts(texts: Iterable[str]) -> list[str]:
    """Sort as Java does. For ASCII, Python's own sort gives the same order and is much faster."""
    texts = list(texts)
    return sorted(texts) if "".join(texts).isascii() else sorted(texts, key=order_text)


def describe(queue: Queue) -> str:
    """Describe a queue for a message."""
    return f"queue {queue.id} of {shorten(queue.topic)} on {shorten(queue.broker)}"


def shorten(text: object, limit: int = 80) -> str:
    """Prepare an untrusted name of any length for a message, without quotes."""
    shown = quote(text, limit)
    return shown[1:-1] if shown.startswith("'") and shown.endswith("'") else shown


def quote(value: object, limit: int = 80) -> str:
    """Prepare an untrusted value of any size for a message, as Python writes it."""
    if isinstance(value, int) and value.bit_length() > 4 * limit:
        return f"a number of {value.bit_length()} bits"
    shown = repr(value)
    return shown if len(shown) <= limit + 2 else shown[:limit] + "..."


def is_amount(value: object) -> bool:
    """Return whether this is a number from 0 to `LARGEST_AMOUNT`. NaN, True and False are not."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value <= LARGEST_AMOUNT
    )


def _is_id(value: object) -> bool:
    """Whether the value is valid as an id, or as the end of a range of ids."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_QUEUE_ID + 1
