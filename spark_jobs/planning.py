"""
Which offsets the next micro-batch reads, decided from what the brokers say. Pure.

A queue that appears enters the journal with the place where it begins, and is read from the batch
after. So each batch's ranges follow from two journaled offsets alone, and a batch that is run again
is the same one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mq_client.errors import MqError, NoBrokerError, UsageError
from mq_client.values import MessageQueue, Offsets


class DataLossError(MqError):
    """Messages that were not read yet are gone, and the user wants to hear of it."""


@dataclass(frozen=True, slots=True)
class Range:
    """Messages of a queue, from `start` up to, without, `stop`."""

    queue: MessageQueue
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Loss:
    """What is gone, and why."""

    queue: MessageQueue
    reason: str

    def __str__(self) -> str:
        """Name the queue first."""
        return f"{self.queue}: {self.reason}"


@dataclass(frozen=True, slots=True)
class SeenOffsets:
    """What the brokers say."""

    queues: Mapping[MessageQueue, Offsets]
    """Those that can be read, of the brokers that answered."""
    answered: frozenset[tuple[str, str]] = frozenset()
    """Topic and broker."""
    silent: Mapping[str, MqError] = field(default_factory=dict)
    """Brokers that did not answer, and why."""
    exhausted: frozenset[MessageQueue] = frozenset()
    """Queues that can be read no more, and hold nothing that was not read."""
    barred: frozenset[MessageQueue] = frozenset()
    """Queues that may not be read now, for the topic or the broker lacks the perm READ."""
    by_slave: frozenset[tuple[str, str]] = frozenset()
    """Topic and broker, where a slave answered for its master."""

    def up_to(
        self, last: Mapping[MessageQueue, int], start: Mapping[MessageQueue, int]
    ) -> "SeenOffsets":
        """Leave out what came behind these ends; of a queue without one, all that was not read."""
        queues = {}
        for queue, ends in self.queues.items():
            end = last.get(queue, start.get(queue, ends.min))
            queues[queue] = ends._replace(max=min(ends.max, end))
        return replace(self, queues=queues)

    def is_closed(self, queue: MessageQueue) -> bool:
        """Whether there is no such queue; where a broker is silent, nobody knows."""
        return (queue.topic, queue.broker) in self.answered and queue not in self.queues

    def is_by_slave(self, queue: MessageQueue) -> bool:
        """Whether a slave answered for it, which does not know where the queue begins and ends."""
        return (queue.topic, queue.broker) in self.by_slave


@dataclass(frozen=True, slots=True)
class Limits:
    """What one batch may hold, at most. Each queue with a backlog gives one message at least."""

    messages: int | None = None
    bytes: int | None = None
    message_bytes: Mapping[MessageQueue, float] = field(default_factory=dict)
    """How large a queue's messages are, where `bytes` is given."""

    def shares(self, backlog: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """
        Give each queue one message, and of what is left to give the same part of its backlog.

        So none starves, and all are level at about the same time.
        """
        more = {queue: count - 1 for queue, count in backlog.items() if count > 0}
        part = 1.0
        if self.messages is not None:
            part = _part(self.messages - len(more), sum(more.values()))
        if self.bytes is not None:
            sizes = {queue: self.message_bytes.get(queue, 0) for queue in more}
            size = sum(sizes[queue] * count for queue, count in more.items())
            part = min(part, _part(self.bytes - sum(sizes.values()), size))
        return {queue: 1 + int(count * part) for queue, count in more.items()}


def _part(room: float, wanted: float) -> float:
    room = max(0.0, room)
    return 1.0 if wanted <= room else room / wanted


NO_LIMITS = Limits()


def losses(start: Mapping[MessageQueue, int], seen: SeenOffsets) -> list[Loss]:
    """Tell what was not read and never can be."""
    found = []
    for queue, offset in sorted(start.items()):
        ends = seen.queues.get(queue)
        if queue in seen.exhausted | seen.barred or seen.is_by_slave(queue):
            continue
        if seen.is_closed(queue):
            found.append(_closed(queue, offset))
        elif ends and offset < ends.min:
            found.append(Loss(queue, f"offsets {offset} to {ends.min - 1} are deleted"))
        elif ends and offset > ends.max:
            found.append(_ends_before(queue, ends.max, offset))
    return found


def turned_back(start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]) -> list[Loss]:
    """Tell which queues a batch has left, or set back: there was nothing to read any more."""
    found = []
    for queue, offset in sorted(start.items()):
        if queue not in end:
            found.append(_closed(queue, offset))
        elif end[queue] < offset:
            found.append(_ends_before(queue, end[queue], offset))
    return found


def _closed(queue: MessageQueue, offset: int) -> Loss:
    return Loss(queue, f"the topic has no such queue any more; read up to {offset}")


def _ends_before(queue: MessageQueue, end: int, offset: int) -> Loss:
    return Loss(
        queue,
        f"it ends at {end}, but was read up to {offset}: the topic was made anew, or the broker "
        "lost messages",
    )


def refuse(found: list[Loss]) -> None:
    """Raise an error that names all losses, if there are any."""
    if found:
        told = "; ".join(str(loss) for loss in found)
        raise DataLossError(
            f"messages are lost: {told}. To go on behind them: failOnDataLoss=false"
        )


def check_ends(name: str, given: Mapping[MessageQueue, int], seen: SeenOffsets) -> None:
    """Refuse places behind the ends of queues: messages that are not there yet."""
    for queue, offset in sorted(given.items()):
        end = seen.queues[queue].max
        if offset > end and seen.is_by_slave(queue):
            raise NoBrokerError(
                f"{name}: the slave of {queue} ends at {end}, before {offset}, and its master is "
                "away; read again when it is back"
            )
        if offset > end:
            raise UsageError(f"{name}: {queue} ends at {end}, before {offset}")


def check_readable(found: Iterable[Range], seen: SeenOffsets) -> None:
    """Refuse ranges that cannot be read now, as a read that does not wait must."""
    for each in found:
        if each.queue in seen.barred:
            raise UsageError(
                f"{each.queue} may not be read now: the perm of the topic or of the broker has "
                "lost READ; give it back, or leave the topic out"
            )
        begin = seen.queues[each.queue].min
        if each.start < begin and seen.is_by_slave(each.queue):
            raise NoBrokerError(
                f"{each.queue}: its slave begins at {begin}, behind {each.start}, and its master "
                "is away; read again when it is back"
            )


def backlog(start: Mapping[MessageQueue, int], seen: SeenOffsets) -> dict[MessageQueue, int]:
    """Count what each queue holds that was not read yet."""
    return {
        queue: max(0, ends.max - max(offset, ends.min))
        for queue, offset in start.items()
        if (ends := seen.queues.get(queue)) is not None
    }


def waiting(start: Mapping[MessageQueue, int], seen: SeenOffsets) -> dict[MessageQueue, int]:
    """Count the same in those queues that may be read now."""
    return {q: count for q, count in backlog(start, seen).items() if q not in seen.barred}


def advance(
    start: Mapping[MessageQueue, int],
    seen: SeenOffsets,
    new: Mapping[MessageQueue, int],
    limits: Limits = NO_LIMITS,
) -> dict[MessageQueue, int]:
    """
    Tell where the next batch ends; `new` queues enter with where they begin.

    Losses are passed over. A queue that cannot be read now stays where it is.
    """
    shares = limits.shares(waiting(start, seen))
    found = settled(start, seen)
    return {queue: at + shares.get(queue, 0) for queue, at in found.items()} | dict(new)


def settled(start: Mapping[MessageQueue, int], seen: SeenOffsets) -> dict[MessageQueue, int]:
    """Tell where queues stand when losses are passed over; those that are closed are left out."""
    found = {queue: offset for queue, offset in start.items() if not seen.is_closed(queue)}
    for queue in (found.keys() & seen.queues.keys()) - seen.barred:
        ends = seen.queues[queue]
        found[queue] = min(max(found[queue], ends.min), ends.max)
    return found


def ranges(start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]) -> list[Range]:
    """Tell what a batch reads: between two journaled offsets, of the queues that are in both."""
    return [
        Range(queue, start[queue], stop)
        for queue, stop in sorted(end.items())
        if queue in start and start[queue] < stop
    ]


def merged(found: Iterable[Range]) -> list[Range]:
    """Join ranges of a queue that overlap or touch."""
    joined: list[Range] = []
    for each in sorted(found, key=lambda each: (each.queue, each.start)):
        last = joined[-1] if joined else None
        if last is not None and last.queue == each.queue and each.start <= last.stop:
            joined[-1] = replace(last, stop=max(last.stop, each.stop))
        else:
            joined.append(each)
    return joined
