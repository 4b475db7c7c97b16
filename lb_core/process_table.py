"""
What one consumer does when it is given a new list of queues.

The table says how long each queue it reads has been idle, the list says what it shall read. `step`
compares the two, as RocketMQ's clients do at each rebalance; it does nothing itself. Everything is
told in single queues, not in ranges: each has an idle time, an offset to save and a lock of its
own, and the caller has work to do for each.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lb_core import errors
from lb_core.model import (
    Queue,
    QueueRange,
    describe,
    is_amount,
    queue_order,
    shorten,
    sorted_texts,
)

IDLE_LIMIT_SECONDS = 120.0
"""RocketMQ's `PULL_MAX_IDLE_TIME`. A queue without a pull for longer has lost its reader."""


@dataclass(frozen=True, slots=True)
class Step:
    """
    What to do, in this order: drop, rebuild, lock, add. All lists are in RocketMQ's order.

    Every queue of the table, and every assigned one whose topic is subscribed, is in exactly one
    of `drop`, `keep`, `expired` and `add`.
    """

    drop: tuple[Queue, ...]
    """Stop reading and save the offset; in ordered use, unlock at the broker too."""
    keep: tuple[Queue, ...]
    """Nothing to do."""
    expired: tuple[Queue, ...]
    """Nobody has pulled for too long: drop, then start afresh as if new."""
    add: tuple[Queue, ...]
    """Forget an offset left over from earlier, find the start, begin to read."""
    lock_first: tuple[Queue, ...]
    """Ordered use: of those to start, lock these at the broker, and start only what was locked."""
    unsubscribed: tuple[str, ...]
    """Topics of the table or of the list that are not subscribed; nothing of them is read."""

    @property
    def is_change(self) -> bool:
        """Whether there is anything to do; if so, the subscription's version goes up."""
        return bool(self.drop or self.expired or self.add)


def step(
    table: Mapping[Queue, float],
    assigned: Iterable[Queue | QueueRange],
    subscribed_topics: Iterable[str],
    is_ordered: bool = False,
    idle_limit_seconds: float = IDLE_LIMIT_SECONDS,
) -> Step:
    """
    Compare what a consumer reads with what it is assigned.

    `table` holds the seconds since each queue's last pull; a queue that was just added counts from
    then. A queue that is listed twice, or in a range as well, is assigned once. One of a topic that
    is not subscribed is not taken, and is dropped where it is read.
    """
    _refuse_bad_times(table, idle_limit_seconds)
    topics = set(subscribed_topics)
    listed = _single(assigned)
    wanted = {queue for queue in listed if queue.topic in topics}
    reading = table.keys()
    expired = {queue for queue in wanted & reading if table[queue] > idle_limit_seconds}
    add = wanted - reading
    return Step(
        drop=_sorted(reading - wanted),
        keep=_sorted((wanted & reading) - expired),
        expired=_sorted(expired),
        add=_sorted(add),
        lock_first=_sorted(add | expired) if is_ordered else (),
        unsubscribed=tuple(sorted_texts({queue.topic for queue in reading | listed} - topics)),
    )


def _single(assigned: Iterable[Queue | QueueRange]) -> set[Queue]:
    return {
        queue
        for queues in assigned
        for queue in ((queues,) if isinstance(queues, Queue) else queues)
    }


def _sorted(queues: Iterable[Queue]) -> tuple[Queue, ...]:
    return tuple(sorted(queues, key=queue_order))


def _refuse_bad_times(table: Mapping[Queue, float], limit: float) -> None:
    if not is_amount(limit):
        raise errors.BadRequestError(f"idle limit: {shorten(limit)} seconds is no duration")
    for queue, idle in table.items():
        if not is_amount(idle):
            raise errors.BadRequestError(f"{describe(queue)}: idle for {shorten(idle)} seconds")
