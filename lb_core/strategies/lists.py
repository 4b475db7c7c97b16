"""
Makes plans by strategies that deal lists: those of RocketMQ and those of users.

Strategies are called as in RocketMQ's rebalance loop: topic by topic, with both lists sorted.
Only CONFIG is called once for all topics, because its settings name the queues of all topics.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby

from lb_core import errors, inventory, quota
from lb_core.group import Group
from lb_core.inventory import Inventory, Runs
from lb_core.model import Queue, describe, shorten, sort_texts
from lb_core.outcome import Outcome
from lb_core.policy import Policy
from lb_core.previous import Holdings, Previous
from lb_core.strategies import common
from lb_core.strategies.strategy import MOST_QUEUES, Strategy


def make_strategy(
    dealer: common.Dealer,
    *,
    describe: Callable[[Policy], str],
    title: str = "",
    settings: tuple[str, ...] = (),
    most_queues: int = MOST_QUEUES,
) -> Strategy:
    """Make a strategy that plans by dealing each topic's list."""
    return Strategy(
        name=dealer.name,
        title=title,
        allocate=partial(allocate, dealer),
        describe=describe,
        dealer=dealer,
        settings=settings,
        most_queues=most_queues,
    )


def allocate(
    dealer: common.Dealer, queues: Inventory, group: Group, policy: Policy, previous: Previous
) -> Outcome:
    """Deal each topic's list. A lost consumer counts as present while its grace lasts."""
    consumers = sort_texts([*group.eligible, *group.waiting])
    numbers: dict[str, list[int]] = {name: [] for name in consumers}
    if consumers:
        zones = {name: group.members[name].zone for name in consumers}
        config = {"consumerZones": zones, **policy.config}
        for listed in _list_topics(queues, by_topic=not dealer.takes_all_topics):
            dealt = dealer.deal(list(listed), consumers, config)
            for name, found in _number_queues(dealer.name, dealt, listed):
                numbers[name] += found
    holdings = {
        name: inventory.merge(range(number, number + 1) for number in found)
        for name, found in numbers.items()
    }
    return _compare(queues, group, previous, holdings)


def _list_topics(queues: Inventory, *, by_topic: bool) -> Iterable[dict[Queue, int]]:
    """List each topic's queues, or all queues, in RocketMQ's order, with their numbers."""
    found = (
        (queue, number)
        for run in queues.runs
        for number, queue in zip(run, queues.list_queues((run,)), strict=True)
    )
    for _, listed in groupby(found, key=lambda pair: pair[0].topic if by_topic else None):
        yield dict(listed)


def _number_queues(
    name: str, dealt: Mapping[str, list[Queue]], listed: Mapping[Queue, int]
) -> Iterator[tuple[str, list[int]]]:
    """Convert queues to their numbers. Refuse queues that were not dealt."""
    for consumer, queues in dealt.items():
        strange = next((queue for queue in queues if queue not in listed), None)
        if strange is not None:
            raise errors.ForeignQueueError(
                f"strategy {shorten(name)} gave {describe(strange)} to {shorten(consumer)}, "
                "which was not in its list"
            )
        yield consumer, [listed[queue] for queue in queues]


def _compare(queues: Inventory, group: Group, previous: Previous, holdings: Holdings) -> Outcome:
    """Find the queues that each consumer lost and got."""
    loads = {name: sum(map(len, runs)) for name, runs in holdings.items()}
    owned = _sort_runs(holdings)
    outcome = Outcome(holdings, loads, unowned=inventory.subtract(queues.runs, owned))
    for name in {**previous.holdings, **holdings}:
        old, new = previous.holdings.get(name, ()), holdings.get(name, ())
        if lost := inventory.subtract(old, new):
            outcome.given.append((name, lost))
        if got := inventory.subtract(new, old):
            outcome.received.append((name, got))
    outcome.given += [(claimants, runs) for runs, claimants in previous.disputed]
    capacities = [group.members[name].capacity for name in holdings]
    outcome.best_top = quota.level(capacities, sum(loads.values())).find_top(capacities)
    return outcome


def _sort_runs(holdings: Holdings) -> Runs:
    """Sort all owned runs. Overlapping runs are not merged, so that `check` can refuse them."""
    return tuple(
        sorted((run for runs in holdings.values() for run in runs), key=inventory.by_start)
    )
