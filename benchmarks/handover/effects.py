"""
The effects of events on consumption, computed from what was consumed when.

A queue stands still between two moments at which messages of it become consumed; it counts for
the event in which it ends. A queue that is new stands still from the begin of its event on.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from mq_client.values import MessageQueue


@dataclass(frozen=True, slots=True)
class Consumed:
    """Messages of one queue that became consumed at one moment."""

    at: float
    """Seconds since the epoch."""
    queue: MessageQueue
    numbers: Sequence[int]
    reader: str
    """The process that read them. A restarted process is another one."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The numbers that were sent, from 0."""

    times: Sequence[tuple[float, int]]
    """How many were sent at which moment, the earliest first; at least one entry."""
    unsure: frozenset[int] = field(default_factory=frozenset)
    """Numbers without confirmation, which may be stored or not."""

    @property
    def count(self) -> int:
        """The total number."""
        return self.times[-1][1]

    @property
    def sure(self) -> set[int]:
        """The numbers that must arrive."""
        return set(range(self.count)) - self.unsure

    def find_time(self, number: int) -> float:
        """Find the time at which a number had been sent."""
        last = len(self.times) - 1
        return self.times[min(bisect_right(self.times, number, key=lambda it: it[1]), last)][0]


@dataclass(frozen=True, slots=True)
class Mark:
    """The begin of an event, which ends the previous one."""

    event: str
    at: float
    owners: Mapping[MessageQueue, str]


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one event."""

    duplicates: int
    """Messages that were consumed again during it."""
    standstill: float
    """The longest time that a queue stood still, in seconds."""
    queue_seconds: float
    """The sum of the longest standstills of all queues."""
    backlog: int
    """The highest number of messages that were sent and not consumed."""
    moved: int
    """Queues whose owner changed."""
    taken_up: float | None
    """Seconds until the last of its new readers had read from each queue; None without any."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The effects of all events on one side, and the fate of all messages."""

    effects: Mapping[str, Effect]
    sent: int
    lost: int
    duplicates: int


def measure(consumed: Iterable[Consumed], marks: Sequence[Mark], sent: Sent) -> Outcome:
    """Measure each event; the last mark is the end of the last one."""
    in_order = sorted(consumed, key=lambda each: each.at)
    again, first = _again(in_order)
    seen = _Seen(_find_gaps(in_order, marks), again, _backlog(first, sent), _find_readers(in_order))
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

    def effect(self, begin: Mark, end: Mark) -> Effect:
        """Measure what happened between two marks."""
        longest = [
            max((stop - start for start, stop in found if begin.at < stop <= end.at), default=0.0)
            for found in self.gaps.values()
        ]
        return Effect(
            sum(begin.at < at <= end.at for at in self.again),
            max(longest),
            sum(longest),
            max((count for at, count in self.backlog if begin.at < at <= end.at), default=0),
            sum(end.owners.get(queue, owner) != owner for queue, owner in begin.owners.items()),
            max(self._list_takeovers(begin.at, end.at), default=None),
        )

    def _list_takeovers(self, begin: float, end: float) -> Iterator[float]:
        for found in self.readers.values():
            before = [reader for at, reader in found if at <= begin][-1:]
            since = [(at, reader) for at, reader in found if begin < at <= end]
            if since and [since[-1][1]] != before:
                yield min(at for at, reader in since if reader == since[-1][1]) - begin


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
    """List when messages came again, and when each came first."""
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
    """List how many messages waited after each change, without those that never came."""
    changes = sorted(
        [*((sent.find_time(number), 1) for number in first), *((at, -1) for at in first.values())]
    )
    counts = accumulate(change for _, change in changes)
    return [(at, count) for (at, _), count in zip(changes, counts, strict=True)]
