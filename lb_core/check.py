"""
Refuse an invalid result of any strategy.

The check compares two sums. Each run of queue numbers adds +1 at its start and -1 at its stop, so
the sum up to a number tells how many runs contain this number. The first sum is over the queues
that consumers got and the queues left without an owner. The second sum is over the queues that
consumers lost and the queues that were free. If both sums are the same at every number, no queue is
owned twice, lost or invented. Consumers whose queues have not changed are left out of the sums, so
the check of a plan with few moves is fast.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter, is_not

from lb_core import errors
from lb_core.group import Group
from lb_core.inventory import SPAN, Inventory, Runs, count
from lb_core.model import describe, shorten
from lb_core.outcome import Outcome
from lb_core.policy import Zones
from lb_core.previous import Holdings

start_of, stop_of = attrgetter("start"), attrgetter("stop")


def refuse_bad(queues: Inventory, before: Holdings, outcome: Outcome, free: Runs) -> None:
    """
    Raise an error unless the outcome contains each queue of `before` and of `free` exactly once.

    `before` must be valid; it was checked when it was made. To check that no queue is missing, the
    function counts the owned and the unowned queues: their sum must be the number of all queues.
    """
    after, unowned = outcome.holdings, outcome.unowned
    plus: list[range] = [*unowned]
    minus: list[range] = [*free]
    for name, new in after.items():
        old = before.get(name, ())
        if old is new:
            continue
        if old:
            less, more = _compare(old, new)
            minus += less
            plus += more
        else:
            plus += new
    for name in before.keys() - after.keys():
        minus += before[name]
    edges = _find_edges(plus)
    total = sum(outcome.loads.values()) + count(unowned)
    if edges is None or edges != _find_edges(minus) or total != queues.count:
        raise _diagnose(queues, after, unowned)


def refuse_strangers(
    queues: Inventory,
    group: Group,
    zones: Zones,
    takers: Iterable[str],
    received: Sequence[tuple[str, Runs]],
) -> None:
    """Raise an error if a consumer got queues that it may not have."""
    eligible = set(takers) if received else set()
    for name, _ in received:
        if name not in eligible:
            raise errors.ForeignConsumerError(
                f"consumer {shorten(name)} may not get queues, but was given some"
            )
    if zones is Zones.REQUIRE:
        homes = {group.members[name].zone for name in eligible}
        for name, runs in received:
            for run in runs:
                zone = queues.sources[run.start // SPAN].zone
                if zone in homes and zone not in (None, group.members[name].zone):
                    raise errors.ForeignConsumerError(
                        f"consumer {shorten(name)} of zone {group.members[name].zone} was given "
                        f"a queue that must stay in zone {zone}"
                    )


def _compare(old: Runs, new: Runs) -> tuple[set[range], set[range]]:
    """
    Return the runs that are only in `old`, and the runs that are only in `new`.

    The lists usually differ in one place, so equal beginnings and ends are cut off first.
    """
    head = _count_agreeing(old, new)
    old, new = old[head:], new[head:]
    tail = _count_agreeing(old[::-1], new[::-1])
    before, after = set(old[: len(old) - tail]), set(new[: len(new) - tail])
    return before - after, after - before


def _count_agreeing(runs: Runs, others: Runs) -> int:
    """Count how many runs at the start of both lists are the same objects."""
    differ = list(map(is_not, runs, others))
    return differ.index(True) if True in differ else len(differ)


def _find_edges(runs: list[range]) -> tuple[set[int], set[int]] | None:
    """
    Return the numbers at which the sum over the runs rises, and those at which it falls.

    Return None if two runs have the same start, or the same stop.
    """
    starts, stops = set(map(start_of, runs)), set(map(stop_of, runs))
    if len(starts) < len(runs) or len(stops) < len(runs):
        return None
    return starts - stops, stops - starts


def _diagnose(queues: Inventory, after: Holdings, unowned: Runs) -> errors.InvalidPlanError:
    """Search all queues for one that is wrong, and make the error that names it."""
    owned = Counter(number for runs in after.values() for run in runs for number in run)
    owned.update(number for run in unowned for number in run)
    real = {number for run in queues.runs for number in run}
    for number, times in sorted(owned.items()):
        if number not in real:
            return errors.ForeignQueueError(f"number {number} is not a queue of this group")
        if times > 1:
            owners = [name for name, runs in after.items() if any(number in run for run in runs)]
            queue = next(queues.list_queues((range(number, number + 1),)))
            return errors.QueueOwnedTwiceError(
                f"{describe(queue)} has {times} owners: {', '.join(map(shorten, owners[:5]))}"
            )
    lost = min(real - owned.keys(), default=None)
    if lost is None:
        return errors.InvalidPlanError("loads are miscounted, or the last plan was invalid")
    queue = next(queues.list_queues((range(lost, lost + 1),)))
    return errors.QueueLostError(f"{describe(queue)} has no owner and is not listed as unowned")
