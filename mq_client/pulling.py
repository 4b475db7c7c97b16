"""
A `Position` is the place in one queue up to which a reader has pulled.

It advances only when an answer is accepted, and never goes back. So retries after a failure return
no message twice and skip no message. The answer decides what happens:

- if it has messages, they are returned as long as their offsets are consecutive, up to `stop`;
- if no message matches the filter, the position advances past the offsets that the broker has
  searched;
- if the offset is gone because the broker has deleted it, this is an error, or a recorded gap if
  gaps are allowed;
- if the queue ends before the offset, and there is a `stop`, this is an error;
- any other answer does not change the position.

So without a filter, the returned messages and the recorded gaps cover all offsets that the position
has passed. `mq_client.answers` finds out what an answer means.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mq_client import answers, errors, filters
from mq_client.answers import Answer, Meaning
from mq_client.checks import INT64_MAX, is_whole
from mq_client.commands.pulling import Pull
from mq_client.filters import Filter
from mq_client.values import MASTER_ID, MessageQueue, Pulled, check_queue

if TYPE_CHECKING:
    import pyarrow as pa

    from mq_client.messages import StoredMessage, Unreadable

MOST_MESSAGES = 4096
MOST_BYTES = 8 * 1024 * 1024
"""Limits of one pull. Brokers may have lower limits."""
ENOUGH_BYTES = 4 * 1024 * 1024
"""Answers are joined up to this size or `MOST_MESSAGES`. By default an answer has 32 messages."""
READER_BYTES = 64 * 1024 * 1024
"""Approximate maximum, in bytes, of all batches of a reader that wait for the caller."""
LEAST_BYTES = 64 * 1024
"""The minimum size of a batch, however many queues there are."""
MOST_AT_ONCE = 8
"""Maximum number of pulls of one queue in flight at once, when small answers are joined."""
POLL_MS = 15_000
"""How long a broker waits before it answers without messages, as with RocketMQ's own clients."""


def share(budget: int, queues: int) -> int:
    """
    Compute the maximum size of a batch if this number of queues is pulled concurrently.

    A batch needs twice its size in memory while its answers are joined.
    """
    return min(ENOUGH_BYTES, max(LEAST_BYTES, budget // (2 * max(1, queues))))


class OffsetGoneError(errors.MqError):
    """The broker no longer has these messages."""

    def __init__(self, queue: MessageQueue, asked: int, first: int) -> None:
        """Name the missing offsets."""
        super().__init__(
            f"{queue}: offsets {asked} to {first - 1} are deleted on the broker; "
            f"continue at {first}, or allow gaps"
        )
        self.queue = queue
        self.asked = asked
        self.first = first


class BeyondEndError(errors.MqError):
    """The queue ends before the first requested offset, according to its master."""

    def __init__(self, position: "Position", end: int) -> None:
        """Name the offsets and the end."""
        lost = "either the topic was created again or the broker lost messages"
        if position.stop is None:
            text = f"{position.queue} was read up to {position.next}, but ends at {end}: {lost}"
        else:
            text = (
                f"{position.queue}: offsets {position.next} to {position.stop}, exclusive, were "
                f"requested, but the queue ends at {end}: begin there or before, or omit the stop "
                f"to wait for messages; if the queue was longer before, {lost}"
            )
        super().__init__(text)
        self.queue = position.queue
        self.asked = position.next
        self.end = end


@dataclass(frozen=True, slots=True)
class Batch:
    """Undecoded messages of one queue, for the offsets from `first` up to `stop`, exclusive."""

    queue: MessageQueue
    first: int
    stop: int
    body: bytes | memoryview = field(repr=False)
    wanted: Filter = filters.EVERYTHING

    def to_messages(self, unreadable: "list[Unreadable] | None" = None) -> "list[StoredMessage]":
        """
        Decode the messages as values.

        A message with a broken body raises a `CorruptMessageError`. If a list `unreadable` is
        given, such a message is added to the list instead, and the others are returned.
        """
        from mq_client import decoding

        try:
            found = list(decoding.decode(self.body, self.queue.broker))
        except errors.CorruptMessageError:
            if unreadable is None:
                raise
            body = decoding.drop_unreadable(
                self.body, self.queue.broker, unreadable,
                first=self.first, stop=self.stop, wanted=self.wanted,
            )  # fmt: skip
            found = list(decoding.decode(body, self.queue.broker))
        found = [each for each in found if self.first <= each.queue_offset < self.stop]
        if self.wanted.names:
            found = [each for each in found if self.wanted.matches(each.tags)]
        return found

    def to_columns(self, unreadable: "list[Unreadable] | None" = None) -> "pa.RecordBatch":
        """Decode as Arrow columns, with `unreadable` as in `to_messages`. Needs numpy, pyarrow."""
        from mq_client import columns

        return columns.read(
            self.body, broker=self.queue.broker, first=self.first, stop=self.stop,
            wanted=self.wanted, unreadable=unreadable,
        )  # fmt: skip


@dataclass(slots=True)
class Position:
    """The place in one queue up to which a reader has pulled."""

    queue: MessageQueue
    next: int
    stop: int | None = None
    wanted: Filter = filters.EVERYTHING
    allow_gaps: bool = False
    was_read: bool = False
    """
    Whether messages up to `next` are known to have existed.

    In that case, it is an error if the queue ends before `next`.
    """
    broker_id: int = MASTER_ID
    gaps: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        check_queue(self.queue)
        for offset in (self.next, self.stop):
            if offset is not None and not is_whole(offset, -INT64_MAX - 1, INT64_MAX):
                raise errors.UsageError(
                    f"{self.queue}: {offset!r} is not an offset: it is not a 64-bit whole number"
                )
        if self.next is None:
            raise errors.UsageError(f"{self.queue}: the offset to begin at is missing")
        if not isinstance(self.wanted, Filter):
            raise errors.UsageError(
                f"{self.queue}: {self.wanted!r} is not a filter of mq_client.filters"
            )

    @property
    def has_to_exist(self) -> bool:
        """Whether it is an error if the queue ends before `next`."""
        return self.stop is not None or self.was_read

    @property
    def is_done(self) -> bool:
        """Whether the position has reached `stop`."""
        return self.stop is not None and self.next >= self.stop

    def make_request(self, group: str, poll_ms: int, most_bytes: int = MOST_BYTES) -> Pull:
        """Make the request for the next messages: at least one, however large it is."""
        return Pull(
            group, self.queue.topic, self.queue.id, self.next, MOST_MESSAGES, most_bytes,
            poll_ms, self.wanted,
        )  # fmt: skip

    def copy_ahead(self) -> "Position":
        """Make a copy that may advance before its batch is returned."""
        return replace(self, gaps=list(self.gaps))

    def catch_up(self, ahead: "Position") -> None:
        """Advance to the position of the copy."""
        self.next, self.broker_id, self.gaps = ahead.next, ahead.broker_id, ahead.gaps

    def read(self, pulled: Pulled) -> Answer:
        """Find out what an answer means for this position, without advancing."""
        return answers.read(pulled, self.queue, self.next, self.wanted)

    def take(self, answer: Answer) -> Batch | None:
        """Advance past an answer. Return its messages, if any."""
        self.broker_id = answer.pulled.suggested_broker_id
        first, stop = self.next, self.cut(answer.stop)
        match answer.meaning:
            case Meaning.MESSAGES:
                self.next = stop
                return Batch(self.queue, first, stop, answer.body, self.wanted)
            case Meaning.PASSED_OVER:
                self.next = stop
            case Meaning.GONE:
                self._leap(answer.stop)
            case _:
                pass
        return None

    def _leap(self, first: int) -> None:
        if not self.allow_gaps:
            raise OffsetGoneError(self.queue, self.next, first)
        stop = self.cut(first)
        self.gaps.append((self.next, stop))
        self.next = stop

    def cut(self, offset: int) -> int:
        """Return the offset, but at most `stop`."""
        return offset if self.stop is None else min(offset, self.stop)
