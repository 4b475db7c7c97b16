"""
What an event did to those who wait for messages: pure arithmetic over what was consumed when.

A queue stands still between two moments at which messages of it become consumed; it counts for
the event in which it ends. A queue that is new stands still from the begin of its event on.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mq_client.values import Queue


@dataclass(frozen=True, slots=True)
class Consumed:
    """Messages of one queue that became consumed at one moment."""

    at: float
    """Seconds since the epoch."""
    queue: Queue
    numbers: Sequence[int]


@dataclass(frozen=True, slots=True)
class Mark:
    """An event begins, and with it the one before ends."""

    event: str
    at: float
    owners: Mapping[Queue, str]


@dataclass(frozen=True, slots=True)
class Effect:
    """What one event did."""

    duplicates: int
    """Messages consumed once more while it lasted."""
    standstill: float
    """Seconds that a queue stood still at most."""
    queue_seconds: float
    """The longest standstill of each queue, added up."""
    moved: int
    """Queues that had another owner before than after."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What all events did to one side, and what became of all messages."""

    effects: Mapping[str, Effect]
    sent: int
    lost: int
    duplicates: int


def outcome(consumed: Iterable[Consumed], marks: Sequence[Mark], sent: int) -> Outcome:
    """Measure each event; the last mark is the end of the last one."""
    in_order = sorted(consumed, key=lambda each: each.at)
    gaps = _gaps(in_order, marks)
    again, seen = _again(in_order)
    return Outcome(
        {mark.event: _effect(gaps, again, mark, end) for mark, end in pairwise(marks)},
        sent,
        lost=len(set(range(sent)) - seen),
        duplicates=len(again),
    )


def _effect(
    gaps: Mapping[Queue, Sequence[tuple[float, float]]],
    again: Sequence[float],
    begin: Mark,
    end: Mark,
) -> Effect:
    longest = [
        max((stop - start for start, stop in found if begin.at < stop <= end.at), default=0.0)
        for found in gaps.values()
    ]
    return Effect(
        sum(begin.at < at <= end.at for at in again),
        max(longest),
        sum(longest),
        sum(end.owners.get(queue, owner) != owner for queue, owner in begin.owners.items()),
    )


def _gaps(
    consumed: Iterable[Consumed], marks: Sequence[Mark]
) -> Mapping[Queue, Sequence[tuple[float, float]]]:
    times: dict[Queue, list[float]] = defaultdict(list)
    for each in consumed:
        times[each.queue].append(each.at)
    for found in times.values():
        found[:0] = [mark.at for mark in marks if mark.at < found[0]][-1:]
    return {queue: list(pairwise(found)) for queue, found in times.items()}


def _again(consumed: Iterable[Consumed]) -> tuple[list[float], set[int]]:
    """When a message came that had come before, and all that came."""
    seen: set[int] = set()
    again: list[float] = []
    for each in consumed:
        again.extend(each.at for number in each.numbers if number in seen)
        seen.update(each.numbers)
    return again, seen
