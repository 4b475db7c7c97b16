"""
Finds closing queues that all groups have read, and to which no producer writes any more. Pure.

A producer learns at its next route request that a queue is closed. Until then the broker accepts
its messages. So a queue counts as drained only if all groups have read it and its end offset has
not changed for longer than the interval of these requests.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lb_core import assignment, model
from lb_core.model import QueueRange
from mq_client.values import MessageQueue, Offsets

ROUTE_AGE_SECONDS = 30.0
"""Interval at which clients ask for routes."""
QUIET_SECONDS = ROUTE_AGE_SECONDS + 5.0

Committed = Mapping[tuple[str, MessageQueue], int | None]
"""The committed offset of each group on each queue; None if the group never committed one."""


@dataclass(frozen=True, slots=True)
class _QueueEnd:
    """The end offset of a queue, and since when it has not changed."""

    offset: int
    since: float


class Quiet:
    """
    Remembers since when the closing queues of one topic have received no messages.

    The times are only in memory: after a restart of the operator, the wait begins again.
    """

    def __init__(self) -> None:
        """Begin without any queues."""
        self._ends: dict[MessageQueue, _QueueEnd] = {}

    def note(self, ends: Mapping[MessageQueue, int], now: float) -> set[MessageQueue]:
        """Note the end offsets of closing queues. Return queues that are quiet for long enough."""
        self._ends = {queue: self._end_of(queue, offset, now) for queue, offset in ends.items()}
        return {queue for queue, end in self._ends.items() if now - end.since >= QUIET_SECONDS}

    def _end_of(self, queue: MessageQueue, offset: int, now: float) -> _QueueEnd:
        known = self._ends.get(queue)
        return known if known is not None and known.offset == offset else _QueueEnd(offset, now)


@dataclass(frozen=True, slots=True)
class Drain:
    """The closing queues that are drained, and what the other closing queues wait for."""

    drained: Mapping[str, set[int]]
    """Ids of drained queues, by broker."""
    waits: tuple[str, ...]
    """Why queues are not drained yet. The text changes only if the state changes."""


def list_filled(offsets: Mapping[MessageQueue, Offsets]) -> list[MessageQueue]:
    """List the queues that contain messages. Only their committed offsets matter."""
    return [queue for queue, held in offsets.items() if held.max > held.min]


def measure_drain(
    offsets: Mapping[MessageQueue, Offsets], committed: Committed, quiet: set[MessageQueue]
) -> Drain:
    """Find drained queues, from their offsets and the offsets that each group has committed."""
    behind: dict[str, set[MessageQueue]] = defaultdict(set)
    for (group, queue), offset in committed.items():
        if (offset or 0) < offsets[queue].max:
            behind[group].add(queue)
    unread = set().union(*behind.values())
    drained: dict[str, set[int]] = defaultdict(set)
    for queue in offsets.keys() & quiet - unread:
        drained[queue.broker].add(queue.id)
    waits = [
        f"{group} has not read all of {_format_queues(queues)}"
        for group, queues in sorted(behind.items())
    ]
    if loud := offsets.keys() - quiet:
        waits.append(
            f"producers may write to {_format_queues(loud)} until they have asked for the new "
            f"route, which they do every {ROUTE_AGE_SECONDS:g} s"
        )
    return Drain(dict(drained), tuple(waits))


def format_ranges(ranges: Iterable[QueueRange]) -> str:
    """Format queues such as `orders@broker-a 4-7`."""
    by_source: dict[tuple[str, str], list[QueueRange]] = defaultdict(list)
    for each in ranges:
        by_source[each.topic, each.broker].append(each)
    return ", ".join(
        f"{topic}@{broker} {assignment.format_ids(found)}"
        for (topic, broker), found in by_source.items()
    )


def _format_queues(queues: Iterable[MessageQueue]) -> str:
    return format_ranges(model.make_ranges([model.Queue(*queue) for queue in sorted(queues)]))
