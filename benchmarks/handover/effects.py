"""
Computes the effects of events on consumption, from the times at which messages were consumed.

A queue stands still between two consecutive moments at which its messages are consumed. This time
counts for the event in which it ends. A new queue stands still from the start of the event in which
the queue appears.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from mq_client.values import MessageQueue


@dataclass(frozen=True, slots=True)
class Consumed:
    """Messages of one queue that were consumed at the same moment."""

    at: float
    """Unix time, in seconds."""
    queue: MessageQueue
    numbers: Sequence[int]
    stored: Sequence[float]
    """When the broker stored each of them, in Unix time."""
    reader: str
    """The process that read them. A restarted process counts as another one."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The numbered messages that were sent. The first number is 0."""

    times: Sequence[tuple[float, int]]
    """Pairs of a time and the number of messages sent until then, in order of time."""
    unsure: frozenset[int] = field(default_factory=frozenset)
    """Numbers of messages that were not confirmed: they may be stored or not."""

    @property
    def count(self) -> int:
        """How many messages were sent."""
        return self.times[-1][1]

    @property
    def sure(self) -> set[int]:
        """The numbers that must arrive."""
        return set(range(self.count)) - self.unsure

    def find_time(self, number: int) -> float:
        """Find the time at which a number had certainly been sent."""
        last = len(self.times) - 1
        return self.times[min(bisect_right(self.times, number, key=lambda it: it[1]), last)][0]


@dataclass(frozen=True, slots=True)
class Mark:
    """The start of an event, which is also the end of the previous one."""

    event: str
    at: float
    owners: Mapping[MessageQueue, str]


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one event."""

    duplicates: int
    """Messages that were consumed again during the event."""
    standstills: Mapping[str, float]
    """For each broker, the longest time that one of its queues stood still, in seconds."""
    queue_seconds: float
    """The sum of the longest standstills of all queues."""
    backlog: int
    """The highest number of messages that were sent but not consumed."""
    moved: int
    """Queues whose owner changed."""
    taken_up: float | None
    """
    Seconds until each queue with a new reader was read by that reader; None without such queues.
    """
    delay: float | None
    """The 99th percentile of the seconds from storing to consuming; None without messages."""
    median_delay: float | None = None
    """The median of the same."""
    by_owner: Mapping[str, float] = field(default_factory=dict)
    """
    For each owner before the event, the longest time that one of its queues stood still, in
    seconds.
    """

    @property
    def standstill(self) -> float:
        """The longest time that a queue stood still, in seconds."""
        return max(self.standstills.values())

    def find_standstill_beside(self, broker: str) -> float:
        """Find the longest time that a queue of the other brokers stood still."""
        return max(still for name, still in self.standstills.items() if name != broker)

    @property
    def standstill_of_others(self) -> float:
        """The same of the queues of all owners but the last by name, which faults strike."""
        return max(still for owner, still in self.by_owner.items() if owner != max(self.by_owner))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The effects of all events on one side, and the fate of all messages."""

    effects: Mapping[str, Effect]
    sent: int
    lost: int
    duplicates: int


def measure(consumed: Iterable[Consumed], marks: Sequence[Mark], sent: Sent) -> Outcome:
    """Measure each event; the last mark is the end of the last event."""
    in_order = sorted(consumed, key=lambda each: each.at)
    again, first = _again(in_order)
    seen = _Seen(
        _find_gaps(in_order, marks),
        again,
        _backlog(first, sent),
        _find_readers(in_order),
        [(each.at, each.at - at) for each in in_order for at in each.stored],
    )
    return Outcome(
        {mark.event: seen.effect(mark, end) for mark, end in pairwise(marks)},
        sent.count,
        lost=len(sent.sure - first.keys()),
        duplicates=len(again),
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """All observations, in order of time."""

    gaps: Mapping[MessageQueue, Sequence[tuple[float, float]]]
    again: Sequence[float]
    backlog: Sequence[tuple[float, int]]
    readers: Mapping[MessageQueue, Sequence[tuple[float, str]]]
    delays: Sequence[tuple[float, float]]
    """When a message was consumed, and how long after it was stored."""

    def effect(self, begin: Mark, end: Mark) -> Effect:
        """Measure what happened between two marks."""
        longest = {
            queue: max((stop - at for at, stop in found if begin.at < stop <= end.at), default=0.0)
            for queue, found in self.gaps.items()
        }
        standstills: dict[str, float] = defaultdict(float)
        by_owner: dict[str, float] = defaultdict(float)
        for queue, still in longest.items():
            standstills[queue.broker] = max(standstills[queue.broker], still)
            if owner := begin.owners.get(queue):
                by_owner[owner] = max(by_owner[owner], still)
        delays = sorted(delay for at, delay in self.delays if begin.at < at <= end.at)
        return Effect(
            sum(begin.at < at <= end.at for at in self.again),
            standstills,
            sum(longest.values()),
            max((count for at, count in self.backlog if begin.at < at <= end.at), default=0),
            sum(end.owners.get(queue, owner) != owner for queue, owner in begin.owners.items()),
            max(self._list_takeovers(begin.at, end.at), default=None),
            _find_share(delays, 0.99),
            _find_share(delays, 0.5),
            by_owner,
        )

    def _list_takeovers(self, begin: float, end: float) -> Iterator[float]:
        for found in self.readers.values():
            before = [reader for at, reader in found if at <= begin][-1:]
            since = [(at, reader) for at, reader in found if begin < at <= end]
            if since and [since[-1][1]] != before:
                yield min(at for at, reader in since if reader == since[-1][1]) - begin


def _find_share(delays: Sequence[float], share: float) -> float | None:
    """Find the delay that this share of the sorted delays does not exceed."""
    return delays[math.ceil(share * len(delays)) - 1] if delays else None


def _find_gaps(
    consumed: Iterable[Consumed], marks: Sequence[Mark]
) -> Mapping[MessageQueue, Sequence[tuple[float, float]]]:
    times: dict[MessageQueue, list[float]] = defaultdict(list)
    for each in consumed:
        times[each.queue].append(each.at)
    for found in times.values():
        found[:0] = [mark.at for mark in marks if mark.at < found[0]][-1:]
    return {queue: list(pairwise(found)) for queue, found in times.items()}


def _find_readers(
    consumed: Iterable[Consumed],
) -> Mapping[MessageQueue, Sequence[tuple[float, str]]]:
    found: dict[MessageQueue, list[tuple[float, str]]] = defaultdict(list)
    for each in consumed:
        found[each.queue].append((each.at, each.reader))
    return found


def _again(consumed: Iterable[Consumed]) -> tuple[list[float], dict[int, float]]:
    """List when messages were consumed again, and when each message was first consumed."""
    first: dict[int, float] = {}
    again: list[float] = []
    for each in consumed:
        for number in each.numbers:
            if number in first:
                again.append(each.at)
            else:
                first[number] = each.at
    return again, first


def _backlog(first: Mapping[int, float], sent: Sent) -> list[tuple[float, int]]:
    """List how many messages waited after each change; lost messages do not count."""
    changes = sorted(
        [*((sent.find_time(number), 1) for number in first), *((at, -1) for at in first.values())]
    )
    counts = accumulate(change for _, change in changes)
    return [(at, count) for (at, _), count in zip(changes, counts, strict=True)]
