"""
Choose where a producer sends its next message, as RocketMQ's producer does.

The functions are pure. They take a publish view (the queues that a producer may send to) and a
`ProducerState`, and return a `QueueChoice` (a queue and the next state). The caller passes the
time, in milliseconds of any clock that never goes back. There are two ways to choose:

- `choose` takes queues in turn and avoids the broker that failed last. If the caller passes the
  time, `choose` also avoids brokers that were slow or failed earlier. For this, the caller records
  the outcome of each send with `note`.
- `choose_by_key` lets the message's key decide, so all messages with one key go to one queue.

The module follows these rules of RocketMQ 5.4.0 (see its classes `MQFaultStrategy`,
`LatencyFaultToleranceImpl` and `DefaultMQProducerImpl`):

- Back-off by latency is off by default. Without it, a retry only avoids the last broker.
- A latency of 550 ms or more makes a broker unavailable, for the time in the table `PAUSES`. A
  failed send counts as a latency of 10,000 ms, however long it took. (RocketMQ before 5.0 counts
  30,000 ms.)
- A pause can become longer, but not shorter: a quick send does not end the pause that an earlier
  slow send caused.
- A broker that answered with an error is unreachable until a send succeeds. A broker that did not
  answer still counts as reachable, as in RocketMQ when its background probe is off.
- The broker that failed last is avoided. Of the other brokers, available ones are preferred, then
  reachable ones. If there are neither, plain round robin takes the next queue.

One rule differs: RocketMQ starts at a random queue. With back-off, it also takes a random queue at
each retry. Here the caller sets the start (`ProducerState(indexes={topic: n})`), and a retry takes
the next queue.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from struct import unpack

from lb_core import errors
from lb_core.model import LARGEST_AMOUNT, Queue, QueueRange, is_amount, shorten

PAUSES = (
    (15_000, 30_000),
    (5_000, 10_000),
    (3_000, 6_000),
    (1_800, 5_000),
    (550, 2_000),
    (100, 0),
    (50, 0),
)
"""Pairs in milliseconds: a latency, and how long a broker with at least this latency is avoided."""
FAILED_COUNTS_AS_MS = 10_000


class SendOutcome(Enum):
    """The outcome of a send."""

    SENT = "sent"
    NO_ANSWER = "no answer"
    """The connection failed, or there was no answer in time."""
    REFUSED = "refused"
    """The broker answered with an error."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a broker. It is available from `available_at_ms` on, by the caller's clock."""

    latency_ms: float
    available_at_ms: float | None = None
    is_reachable: bool = True


@dataclass(frozen=True, slots=True)
class ProducerState:
    """The state of one producer: the index of the next queue in each topic, and brokers' health."""

    indexes: Mapping[str, int] = field(default_factory=dict)
    brokers: Mapping[str, Health] = field(default_factory=dict)

    def is_available(self, broker: str, now_ms: float) -> bool:
        """Return whether the broker's pause is over. An unknown broker has no pause."""
        health = self.brokers.get(broker)
        return health is None or health.available_at_ms is None or now_ms >= health.available_at_ms

    def is_reachable(self, broker: str) -> bool:
        """Return False if the broker answered the last send with an error, otherwise True."""
        health = self.brokers.get(broker)
        return health is None or health.is_reachable


@dataclass(frozen=True, slots=True)
class QueueChoice:
    """The queue to send to, and the next state."""

    queue: Queue
    state: ProducerState


def choose(
    topic: str,
    view: Sequence[QueueRange],
    state: ProducerState,
    failed_broker: str | None = None,
    now_ms: float | None = None,
) -> QueueChoice:
    """
    Choose the topic's next queue.

    On a retry `failed_broker` is the broker that failed last. With `now_ms`, back-off by latency
    is on. Unless the view is empty, a queue is always found, even if no broker meets a condition.
    """
    index = state.indexes.get(topic, 0) % _count_queues(topic, view)
    place = None
    for is_good in _make_filters(state, failed_broker, now_ms):
        place = _find(view, index, is_good)
        if place is not None:
            break
    place = index if place is None else place
    indexes = {**state.indexes, topic: place + 1}
    return QueueChoice(_find_queue(view, place), replace(state, indexes=indexes))


def choose_by_key(topic: str, view: Sequence[QueueRange], key: str) -> Queue:
    """
    Choose the queue of a key, as RocketMQ's `SelectMessageQueueByHash` does.

    The queue's index in the view is `abs(hash_as_java(key) % size)` with Java's remainder. So this
    client and RocketMQ's Java client choose the same queue for a key if they have the same view. If
    a broker is added or removed, the size changes, and most keys get another queue. If a Java
    program passes the key as a number, Java hashes the number, not its text, and gets another hash.
    """
    # Java's remainder has the sign of the hash. So the absolute value of the remainder is the
    # remainder of abs(hash).
    return _find_queue(view, abs(hash_as_java(key)) % _count_queues(topic, view))


def hash_as_java(text: str) -> int:
    """
    Compute Java's `String.hashCode`: `31 * h + unit` over the UTF-16 units, as a signed int32.

    Unlike Python's `hash`, the result is the same in every process and every Python version.
    """
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in unpack(f">{len(data) // 2}H", data):
        value = (31 * value + unit) & 0xFFFF_FFFF
    return value - 2**32 if value >= 2**31 else value


def note(
    state: ProducerState,
    broker: str,
    outcome: SendOutcome,
    latency_ms: float,
    now_ms: float,
) -> ProducerState:
    """Return the next state, after a send to this broker had this outcome."""
    if not is_amount(latency_ms) or not is_amount(now_ms):
        raise errors.BadRequestError(
            f"broker {shorten(broker)}: the latency ({shorten(latency_ms)} ms) or the time "
            f"({shorten(now_ms)} ms) is not a number from 0 to {LARGEST_AMOUNT:.0e}"
        )
    has_failed = outcome is not SendOutcome.SENT
    pause = choose_pause(FAILED_COUNTS_AS_MS if has_failed else latency_ms)
    old = state.brokers.get(broker)
    until = old.available_at_ms if old else None
    if pause and (until is None or now_ms + pause > until):
        until = now_ms + pause
    health = Health(latency_ms, until, outcome is not SendOutcome.REFUSED)
    return replace(state, brokers={**state.brokers, broker: health})


def choose_pause(latency_ms: float) -> int:
    """Find how long a broker with this latency is avoided."""
    return next((pause for least, pause in PAUSES if latency_ms >= least), 0)


def _make_filters(
    state: ProducerState, failed_broker: str | None, now_ms: float | None
) -> list[Callable[[str], bool]]:
    """Make the conditions that a broker must meet, the strictest first."""
    if now_ms is None:
        return [lambda broker: broker != failed_broker]
    return [
        lambda broker: broker != failed_broker and state.is_available(broker, now_ms),
        lambda broker: broker != failed_broker and state.is_reachable(broker),
    ]


def _find(view: Sequence[QueueRange], index: int, is_good: Callable[[str], bool]) -> int | None:
    """
    Return the index of the first queue on a good broker, or None if there is none.

    The search begins at `index` and goes around the view once.
    """
    start = 0
    before = None
    for queues in view:
        stop = start + len(queues)
        if is_good(queues.broker):
            if stop > index:
                return max(start, index)
            before = start if before is None else before
        start = stop
    return before


def _find_queue(view: Sequence[QueueRange], place: int) -> Queue:
    for queues in view:
        if place < len(queues):
            return Queue(queues.topic, queues.broker, queues.start + place, queues.zone)
        place -= len(queues)
    raise AssertionError("the index of the queue is beyond the end of the view")


def _count_queues(topic: str, view: Sequence[QueueRange]) -> int:
    count = sum(map(len, view))
    if not count:
        raise errors.NoWritableQueueError(
            f"topic {shorten(topic)} has no writable queue on a broker with a master"
        )
    return count
