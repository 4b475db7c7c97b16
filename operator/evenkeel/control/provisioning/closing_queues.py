"""
Which of the queues that close are drained: read to the end by all, and written to by nobody. Pure.

That a queue may not be written to any more reaches producers only with their next route, and until
then a broker takes their messages. So a queue is drained only when its end has stood still for
longer than producers go without asking.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lb_core import assignment, model
from lb_core.model import QueueRange
from mq_client.values import MessageQueue, Offsets

ROUTE_AGE_SECONDS = 30.0
"""How often RocketMQ's own clients, and ours, ask for routes."""
QUIET_SECONDS = ROUTE_AGE_SECONDS + 5.0

Committed = Mapping[tuple[str, MessageQueue], int | None]
"""What groups read next; None where one never committed."""


class Quiet:
    """
    Since when the queues of one topic have stood still.

    It is lost with the process, and then the wait begins anew.
    """

    def __init__(self) -> None:
        """Know no queue yet."""
        self._seen: dict[MessageQueue, tuple[int, float]] = {}

    def note(self, ends: Mapping[MessageQueue, int], now: float) -> set[MessageQueue]:
        """Note where all queues that close end now; those that have stood still for long enough."""
        self._seen = {queue: self._since(queue, end, now) for queue, end in ends.items()}
        return {queue for queue, (_, since) in self._seen.items() if now - since >= QUIET_SECONDS}

    def _since(self, queue: MessageQueue, end: int, now: float) -> tuple[int, float]:
        known = self._seen.get(queue)
        return known if known is not None and known[0] == end else (end, now)


@dataclass(frozen=True, slots=True)
class Drain:
    """How far queues that close have got."""

    drained: Mapping[str, set[int]]
    """Ids by broker."""
    waits: tuple[str, ...]
    """What is waited for, in words that stay the same while nothing changes."""


def holding(offsets: Mapping[MessageQueue, Offsets]) -> list[MessageQueue]:
    """List the queues that hold messages: only there does it matter what a group has read."""
    return [queue for queue, held in offsets.items() if held.max > held.min]


def drain(
    offsets: Mapping[MessageQueue, Offsets], committed: Committed, quiet: set[MessageQueue]
) -> Drain:
    """Judge queues by what they hold and what each group has read."""
    behind: dict[str, set[MessageQueue]] = defaultdict(set)
    for (group, queue), offset in committed.items():
        if (offset or 0) < offsets[queue].max:
            behind[group].add(queue)
    unread = set().union(*behind.values())
    drained: dict[str, set[int]] = defaultdict(set)
    for queue in offsets.keys() & quiet - unread:
        drained[queue.broker].add(queue.id)
    waits = [
        f"{group} has not read all of {_shown(queues)}" for group, queues in sorted(behind.items())
    ]
    if loud := offsets.keys() - quiet:
        waits.append(
            f"{_shown(loud)} may be written to until producers have asked for the new route, "
            f"which they do every {ROUTE_AGE_SECONDS:g} s"
        )
    return Drain(dict(drained), tuple(waits))


def shown(ranges: Iterable[QueueRange]) -> str:
    """Name queues briefly, as `orders@broker-a 4-7`."""
    by_source: dict[tuple[str, str], list[QueueRange]] = defaultdict(list)
    for each in ranges:
        by_source[each.topic, each.broker].append(each)
    return ", ".join(
        f"{topic}@{broker} {assignment.format_ids(found)}"
        for (topic, broker), found in by_source.items()
    )


def _shown(queues: Iterable[MessageQueue]) -> str:
    return shown(model.make_ranges([model.Queue(*queue) for queue in sorted(queues)]))
