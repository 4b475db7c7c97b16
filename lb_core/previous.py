"""
The previous plan, converted to the queue numbers of the current inventory.

A `Plan` is used as it is, because each queue in it has at most one owner. Owners from elsewhere (a
status, or another program's list) may be wrong in any way, so they are checked first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lb_core import errors
from lb_core import inventory as inv
from lb_core.assignment import Assignment
from lb_core.inventory import Inventory, Runs
from lb_core.model import Queue, QueueRange, quote, sort_texts

Holdings = dict[str, Runs]
Given = Mapping[str, Iterable[QueueRange | Queue]]


@dataclass(slots=True)
class Previous:
    """The previous owners of queues that still exist, and queues without an owner."""

    holdings: Holdings
    loads: dict[str, int]
    unheld: Runs
    """Queues that had no owner."""
    disputed: list[tuple[Runs, tuple[str, ...]]] = field(default_factory=list)
    """Queues that several consumers claimed. No consumer holds them."""


def carry_over(old: Assignment, unowned: Runs, new: Inventory) -> Previous:
    """Convert a plan's owners to a new inventory. If no queue has disappeared, only copy them."""
    holdings, loads, known = old.holdings, old.loads, old.inventory
    if known.sources != new.sources or (known.runs != new.runs and new.splits_brokers):
        ranges = {consumer: known.list_ranges(runs) for consumer, runs in holdings.items()}
        return read(ranges, new)
    unheld = inv.subtract(new.runs, inv.subtract(known.runs, unowned))
    gone = inv.subtract(known.runs, new.runs)
    if not gone:
        return Previous(dict(holdings), dict(loads), unheld)
    kept = {consumer: inv.subtract(runs, gone) for consumer, runs in holdings.items()}
    return Previous(kept, _count(kept), unheld)


def read(given: Given, inventory: Inventory) -> Previous:
    """Read the caller's owners: drop unknown queues, and set apart queues with several owners."""
    holdings = {
        consumer: _join([run for queues in given[consumer] for run in _find(queues, inventory)])
        for consumer in sort_texts(given)
    }
    disputed: dict[tuple[str, ...], list[range]] = {}
    held: list[range] = []
    for run, claimants in _sweep(holdings):
        held.append(run)
        if len(claimants) > 1:
            disputed.setdefault(claimants, []).append(run)
    if disputed:
        apart = inv.merge(run for runs in disputed.values() for run in runs)
        holdings = {consumer: inv.subtract(runs, apart) for consumer, runs in holdings.items()}
    return Previous(
        holdings,
        _count(holdings),
        inv.subtract(inventory.runs, inv.merge(held)),
        [(inv.merge(runs), claimants) for claimants, runs in disputed.items()],
    )


def _find(queues: QueueRange | Queue, inventory: Inventory) -> list[range]:
    if isinstance(queues, Queue):
        return inventory.clip(queues.topic, queues.broker, queues.id, queues.id + 1)
    if not isinstance(queues, QueueRange):
        raise errors.BadRequestError(f"previous: {quote(queues)} is neither Queue nor QueueRange")
    return inventory.clip(queues.topic, queues.broker, queues.start, queues.stop)


def _join(runs: list[range]) -> Runs:
    """Sort and join runs. They may overlap, because a queue may be listed twice."""
    joined: list[range] = []
    for run in sorted(runs, key=inv.by_start):
        if joined and run.start <= joined[-1].stop:
            joined[-1] = range(joined[-1].start, max(joined[-1].stop, run.stop))
        else:
            joined.append(run)
    return tuple(joined)


def _sweep(holdings: Holdings) -> Iterable[tuple[range, tuple[str, ...]]]:
    """Cut the queues of all consumers into runs. Yield each run with all consumers that hold it."""
    edges: dict[int, list[str]] = {}
    for consumer, runs in holdings.items():
        for run in runs:
            edges.setdefault(run.start, []).append(consumer)
            edges.setdefault(run.stop, []).append(consumer)
    holders: set[str] = set()
    start = 0
    for number in sorted(edges):
        if holders:
            yield range(start, number), tuple(sort_texts(holders))
        for consumer in edges[number]:
            holders ^= {consumer}
        start = number


def _count(holdings: Holdings) -> dict[str, int]:
    return {consumer: sum(map(len, runs)) for consumer, runs in holdings.items()}
