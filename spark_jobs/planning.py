"""
Plan which offsets the next batch reads, from what the brokers report, without I/O.

A batch that finds a new queue does not read it. It only notes where the queue begins, in Spark's
offset log or in the job's journal. The next batch is the first that reads the queue. So a batch
that runs again reads the same ranges.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from mq_client.errors import MqError, NoBrokerError, UsageError
from mq_client.values import MessageQueue, Offsets

Deal = Callable[[MessageQueue], int | None]
"""Tells which of the batches that are planned together reads a queue. None: none of them."""


def deal_to_one(_: MessageQueue) -> int | None:
    """Deal all queues to one batch."""
    return 0


class DataLossError(MqError):
    """Messages were lost before they were read, and the user wants an error for that."""


@dataclass(frozen=True, slots=True)
class Range:
    """Messages of a queue, from `start` to `stop`, exclusive."""

    queue: MessageQueue
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of messages in one queue, with its reason."""

    queue: MessageQueue
    reason: str

    def __str__(self) -> str:
        """Describe the loss, beginning with the queue."""
        return f"{self.queue}: {self.reason}"


@dataclass(frozen=True, slots=True)
class SeenOffsets:
    """What the brokers report about the queues of some topics."""

    queues: Mapping[MessageQueue, Offsets]
    """The readable queues of the brokers that answered."""
    answered: frozenset[tuple[str, str]] = frozenset()
    """Pairs of topic and broker for which an answer came."""
    silent: Mapping[str, MqError] = field(default_factory=dict)
    """Brokers that did not answer, and why."""
    exhausted: frozenset[MessageQueue] = frozenset()
    """Closed queues that were read to their end."""
    barred: frozenset[MessageQueue] = frozenset()
    """Queues that may not be read now, because the topic or the broker lacks the perm READ."""
    by_slave: frozenset[tuple[str, str]] = frozenset()
    """Pairs of topic and broker for which a slave answered instead of its master."""

    def cut_at(
        self, last: Mapping[MessageQueue, int], start: Mapping[MessageQueue, int]
    ) -> "SeenOffsets":
        """Hide messages after the ends in `last`. Hide all unread messages of other queues."""
        queues = {}
        for queue, ends in self.queues.items():
            end = max(last.get(queue, ends.min), start.get(queue, 0))
            queues[queue] = ends._replace(max=min(ends.max, end))
        return replace(self, queues=queues)

    def is_closed(self, queue: MessageQueue) -> bool:
        """Whether the queue is known not to exist. False if its broker did not answer."""
        return (queue.topic, queue.broker) in self.answered and queue not in self.queues

    def is_by_slave(self, queue: MessageQueue) -> bool:
        """Whether a slave has answered for this queue. A slave may not know the queue's end."""
        return (queue.topic, queue.broker) in self.by_slave


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """
    Limits of one batch.

    A batch reads at least one message of each queue with unread messages, even above these limits.
    """

    messages: int | None = None
    bytes: int | None = None
    message_bytes: Mapping[MessageQueue, float] = field(default_factory=dict)
    """The estimated size of one message of each queue, if `bytes` is given."""

    def share_out(self, backlog: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """
        Give each queue one message, and the same fraction of its other unread messages.

        So no queue starves, and all queues catch up at about the same time.
        """
        more = {queue: count - 1 for queue, count in backlog.items() if count > 0}
        part = 1.0
        if self.messages is not None:
            part = _compute_share(self.messages - len(more), sum(more.values()))
        if self.bytes is not None:
            sizes = {queue: self.message_bytes.get(queue, 0) for queue in more}
            size = sum(sizes[queue] * count for queue, count in more.items())
            part = min(part, _compute_share(self.bytes - sum(sizes.values()), size))
        return {queue: 1 + int(count * part) for queue, count in more.items()}


def _compute_share(room: float, wanted: float) -> float:
    room = max(0.0, room)
    return 1.0 if wanted <= room else room / wanted


NO_LIMITS = BatchLimits()


def find_losses(start: Mapping[MessageQueue, int], seen: SeenOffsets) -> list[Loss]:
    """Find the messages that were not read and can never be read."""
    found = []
    for queue, offset in sorted(start.items()):
        ends = seen.queues.get(queue)
        if queue in seen.exhausted | seen.barred or seen.is_by_slave(queue):
            continue
        if seen.is_closed(queue):
            found.append(_make_closed_loss(queue, offset))
        elif ends and offset < ends.min:
            found.append(Loss(queue, f"offsets {offset} to {ends.min - 1} are deleted"))
        elif ends and offset > ends.max:
            found.append(_make_early_end_loss(queue, ends.max, offset))
    return found


def find_turned_back(
    start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]
) -> list[Loss]:
    """Find the queues that a batch no longer reads, or reads from an earlier offset."""
    found = []
    for queue, offset in sorted(start.items()):
        if queue not in end:
            found.append(_make_closed_loss(queue, offset))
        elif end[queue] < offset:
            found.append(_make_early_end_loss(queue, end[queue], offset))
    return found


def _make_closed_loss(queue: MessageQueue, offset: int) -> Loss:
    return Loss(queue, f"the topic no longer has this queue, which was read up to {offset}")


def _make_early_end_loss(queue: MessageQueue, end: int, offset: int) -> Loss:
    return Loss(
        queue,
        f"it ends at {end}, but was read up to {offset}: the topic was recreated, or the broker "
        "lost messages",
    )


def refuse_losses(found: list[Loss]) -> None:
    """Raise an error that names all losses, if there are any."""
    if found:
        told = "; ".join(str(loss) for loss in found)
        raise DataLossError(
            f"messages are lost: {told}. To continue after them, set failOnDataLoss=false"
        )


def check_ends(name: str, given: Mapping[MessageQueue, int], seen: SeenOffsets) -> None:
    """Refuse offsets after the end of their queue, because their messages do not exist yet."""
    for queue, offset in sorted(given.items()):
        end = seen.queues[queue].max
        if offset > end and seen.is_by_slave(queue):
            raise NoBrokerError(
                f"{name}: {queue} ends at {end} on a slave, before {offset}, and the master is "
                "down; read again when the master is back"
            )
        if offset > end:
            raise UsageError(f"{name}: {queue} ends at {end}, before {offset}")


def check_readable(found: Iterable[Range], seen: SeenOffsets) -> None:
    """Refuse ranges that cannot be read now: a bounded read does not wait."""
    for each in found:
        if each.queue in seen.barred:
            raise UsageError(
                f"{each.queue} may not be read now: the perm of the topic or of the broker has "
                "lost READ; restore READ, or leave the topic out"
            )
        begin = seen.queues[each.queue].min
        if each.start < begin and seen.is_by_slave(each.queue):
            raise NoBrokerError(
                f"{each.queue} begins at {begin} on a slave, after {each.start}, and the master is "
                "down; read again when the master is back"
            )


def count_lag(start: Mapping[MessageQueue, int], seen: SeenOffsets) -> dict[MessageQueue, int]:
    """Count the unread messages of each queue."""
    return {
        queue: max(0, ends.max - max(offset, ends.min))
        for queue, offset in start.items()
        if (ends := seen.queues.get(queue)) is not None
    }


def count_readable(start: Mapping[MessageQueue, int], seen: SeenOffsets) -> dict[MessageQueue, int]:
    """Count the unread messages of each queue that may be read now."""
    return {q: count for q, count in count_lag(start, seen).items() if q not in seen.barred}


def advance(
    start: Mapping[MessageQueue, int],
    seen: SeenOffsets,
    new: Mapping[MessageQueue, int],
    limits: BatchLimits = NO_LIMITS,
    deal: Deal = deal_to_one,
) -> dict[MessageQueue, int]:
    """
    Find where the next batches end. Add the `new` queues, with the offsets where they begin.

    Skip losses. A queue that cannot be read now keeps its offset. The limits are for each batch.
    """
    backlogs: dict[int | None, dict[MessageQueue, int]] = defaultdict(dict)
    for queue, count in count_readable(start, seen).items():
        backlogs[deal(queue)][queue] = count
    shares: dict[MessageQueue, int] = {}
    for batch, backlog in backlogs.items():
        if batch is not None:
            shares |= limits.share_out(backlog)
    found = skip_losses(start, seen)
    return {queue: at + shares.get(queue, 0) for queue, at in found.items()} | dict(new)


def skip_losses(start: Mapping[MessageQueue, int], seen: SeenOffsets) -> dict[MessageQueue, int]:
    """Return the offset of each queue after its losses. Leave out closed queues."""
    found = {queue: offset for queue, offset in start.items() if not seen.is_closed(queue)}
    for queue in (found.keys() & seen.queues.keys()) - seen.barred:
        ends = seen.queues[queue]
        found[queue] = min(max(found[queue], ends.min), ends.max)
    return found


def plan_ranges(start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]) -> list[Range]:
    """Find what a batch reads: the offsets from `start` to `end` of each queue that is in both."""
    return [
        Range(queue, start[queue], stop)
        for queue, stop in sorted(end.items())
        if queue in start and start[queue] < stop
    ]


def merge(found: Iterable[Range]) -> list[Range]:
    """Join ranges of a queue that overlap or touch."""
    joined: list[Range] = []
    for each in sorted(found, key=lambda each: (each.queue, each.start)):
        last = joined[-1] if joined else None
        if last is not None and last.queue == each.queue and each.start <= last.stop:
            joined[-1] = replace(last, stop=max(last.stop, each.stop))
        else:
            joined.append(each)
    return joined
