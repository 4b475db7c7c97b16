"""
Where one queue's pull sequence stands, and what an answer means for it.

A `Position` moves on only when an answer was taken, and only forward. So whatever is tried again
after a failure, no message is given twice and none is passed over:

- messages: give them as far as their offsets follow one another, cut at the end asked for;
- nothing matches the filter: go on behind the stretch that was looked through;
- the offset is gone, as the broker has deleted it: an error, or a gap on record, as asked;
- the queue ends before the offset, and a stop is given: an error;
- anything else leaves the position where it is.

So where all messages are wanted, messages given and gaps on record make up every stretch that was
passed. `mq_client.answers` tells what an answer means.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mq_client import answers, errors, filters
from mq_client.answers import Answer, Meaning
from mq_client.checks import INT64_MAX, is_whole
from mq_client.commands.consuming import Pull
from mq_client.filters import Filter
from mq_client.values import MASTER_ID, MessageQueue, Pulled, checked_queue

if TYPE_CHECKING:
    import pyarrow as pa

    from mq_client.messages import StoredMessage, Unreadable

MOST_MESSAGES = 4096
MOST_BYTES = 8 * 1024 * 1024
"""What is asked for at most; brokers give less by their own settings."""
ENOUGH_BYTES = 4 * 1024 * 1024
"""Answers are joined up to so many bytes, or `MOST_MESSAGES`: a broker gives 32 by default."""
READER_BYTES = 64 * 1024 * 1024
"""What the batches of all queues of a reader hold at once, about."""
LEAST_BYTES = 64 * 1024
"""A queue gets no less of that, however many there are."""
MOST_AT_ONCE = 8
"""Pulls of one queue under way at once, while small answers are joined."""
POLL_MS = 15_000
"""How long a broker holds a pull while there is nothing. RocketMQ's clients ask for the same."""


def share(budget: int, queues: int) -> int:
    """
    Tell how large a batch may get where so many queues are pulled side by side.

    Each needs twice its size for a moment, when its answers are joined.
    """
    return min(ENOUGH_BYTES, max(LEAST_BYTES, budget // (2 * max(1, queues))))


class OffsetGoneError(errors.MqError):
    """The broker does not hold these messages any more."""

    def __init__(self, queue: MessageQueue, asked: int, first: int) -> None:
        """Name the gap."""
        super().__init__(
            f"{queue}: offsets {asked} to {first - 1} are deleted on the broker; "
            f"go on at {first}, or allow gaps"
        )
        self.queue = queue
        self.asked = asked
        self.first = first


class BeyondEndError(errors.MqError):
    """The queue ends before the first offset that was asked for, as its master says."""

    def __init__(self, position: "Position", end: int) -> None:
        """Name the offsets and the end."""
        super().__init__(
            f"{position.queue}: offsets {position.next} up to, without, {position.stop} were asked "
            f"for, but the queue ends at {end}: begin there or before, or give no stop to wait for "
            "messages; if it once reached further, the topic was made anew or its broker lost "
            "messages"
        )
        self.queue = position.queue
        self.asked = position.next
        self.end = end


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of one queue as they came, for the offsets from `first` up to, without, `stop`."""

    queue: MessageQueue
    first: int
    stop: int
    body: bytes | memoryview = field(repr=False)
    wanted: Filter = filters.EVERYTHING

    def messages(self, unreadable: "list[Unreadable] | None" = None) -> "list[StoredMessage]":
        """
        Read them as values.

        A message whose body is broken is a `CorruptMessageError`; with a list for those, it is
        added to that and left out.
        """
        from mq_client import messages

        body: bytes | memoryview = self.body
        if unreadable is not None:
            body = messages.without_unreadable(
                body, self.queue.broker, unreadable,
                first=self.first, stop=self.stop, wanted=self.wanted,
            )  # fmt: skip
        found = messages.decode(body, self.queue.broker)
        return [
            message
            for message in found
            if self.first <= message.queue_offset < self.stop and self.wanted.matches(message.tags)
        ]

    def columns(self, unreadable: "list[Unreadable] | None" = None) -> "pa.RecordBatch":
        """Read them as Arrow columns, else as `messages`. Needs numpy and pyarrow."""
        from mq_client import columns

        return columns.read(
            self.body, broker=self.queue.broker, first=self.first, stop=self.stop,
            wanted=self.wanted, unreadable=unreadable,
        )  # fmt: skip


@dataclass(slots=True)
class Position:
    """One queue's place in a pull sequence."""

    queue: MessageQueue
    next: int
    stop: int | None = None
    wanted: Filter = filters.EVERYTHING
    allow_gaps: bool = False
    broker_id: int = MASTER_ID
    gaps: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Refuse what cannot be pulled."""
        checked_queue(self.queue)
        for offset in (self.next, self.stop):
            if offset is not None and not is_whole(offset, -INT64_MAX - 1, INT64_MAX):
                raise errors.UsageError(f"{self.queue}: {offset!r} is no offset: a whole number")
        if self.next is None:
            raise errors.UsageError(f"{self.queue}: where to begin is not said")
        if not isinstance(self.wanted, Filter):
            raise errors.UsageError(
                f"{self.queue}: {self.wanted!r} is no filter: make one by filters.tags or .sql"
            )

    @property
    def is_done(self) -> bool:
        """Whether all was read that was asked for."""
        return self.stop is not None and self.next >= self.stop

    def request(self, group: str, poll_ms: int, most_bytes: int = MOST_BYTES) -> Pull:
        """Ask for what comes next; one message comes, however large it is."""
        return Pull(
            group, self.queue.topic, self.queue.id, self.next, MOST_MESSAGES, most_bytes,
            poll_ms, self.wanted,
        )  # fmt: skip

    def ahead(self) -> "Position":
        """Make a copy that may go ahead while it is not sure that its batch will be given."""
        return replace(self, gaps=list(self.gaps))

    def catch_up(self, ahead: "Position") -> None:
        """Move to where the copy is."""
        self.next, self.broker_id, self.gaps = ahead.next, ahead.broker_id, ahead.gaps

    def read(self, pulled: Pulled) -> Answer:
        """Tell what an answer means here; nothing moves."""
        return answers.read(pulled, self.queue, self.next, self.wanted)

    def take(self, answer: Answer) -> Batch | None:
        """Move on by an answer; the messages that it brought, if any."""
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
        """Tell this offset, or the end of what was asked for if that comes first."""
        return offset if self.stop is None else min(offset, self.stop)
