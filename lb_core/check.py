"""
Refuse a bad result, whichever strategy made it.

The rule is one sum. A run adds 1 at its start and takes 1 off at its stop, so adding up any runs
tells how often each number is in them. What consumers got and what is left without an owner must
add up as what consumers lost and what was free, at every number: then nothing is owned twice,
nothing is lost, nothing is invented. Only holdings that changed are added up, so a plan that moves
little is checked in no time.
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
    Raise unless the outcome owns what `before` owned and what was `free`, each queue once.

    `before` must be sound itself: it was checked when it was made. That nothing was left out of it
    is seen by counting: owned and unowned queues are all that there are.
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
    """Return where two lists of runs differ. That is mostly one place, so equal ends go first."""
    head = _count_agreeing(old, new)
    old, new = old[head:], new[head:]
    tail = _count_agreeing(old[::-1], new[::-1])
    before, after = set(old[: len(old) - tail]), set(new[: len(new) - tail])
    return before - after, after - before


def _count_agreeing(runs: Runs, others: Runs) -> int:
    """Count the runs at the start that are the same objects."""
    differ = list(map(is_not, runs, others))
    return differ.index(True) if True in differ else len(differ)


def _find_edges(runs: list[range]) -> tuple[set[int], set[int]] | None:
    """Find where the sum over these runs rises and falls. None: two start or stop together."""
    starts, stops = set(map(start_of, runs)), set(map(stop_of, runs))
    if len(starts) < len(runs) or len(stops) < len(runs):
        return None
    return starts - stops, stops - starts


def _diagnose(queues: Inventory, after: Holdings, unowned: Runs) -> errors.InvalidPlanError:
    """Search all queues for the one to name in the error."""
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
        return errors.InvalidPlanError("loads are miscounted, or the last plan was not sound")
    queue = next(queues.list_queues((range(lost, lost + 1),)))
    return errors.QueueLostError(f"{describe(queue)} has no owner and is not listed as unowned")
