"""
STICKY: every queue owned, loads even, owners in the queue's zone, and the fewest moves.

It works on differences. Consumers that hold what they should are never looked into, so the cost
follows the number of consumers and of moves, not of queues:

1. free the queues of those who may not keep them;
2. ask `quota` how many queues each should own;
3. where zones matter, ask `rings` how many of each kind;
4. take what is too much, deal what is free (`dealing`).

Ties are broken by canonical order (RocketMQ's sorting) of consumers and queues, so the order of
the lists that came in does not matter.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain

from lb_core import dealing, inventory, quota, rings, weights
from lb_core.group import Group
from lb_core.inventory import SPAN, Inventory, Runs
from lb_core.outcome import Claimants, Outcome
from lb_core.policy import Policy, Zones
from lb_core.previous import Holdings, Previous

MOST_DISPUTES = 24
"""So many different sets of claimants are weighed exactly; beyond, the first claimant keeps."""

Disputed = list[tuple[Runs, Claimants]]


def allocate(queues: Inventory, group: Group, policy: Policy, previous: Previous) -> Outcome:
    """Plan anew from what was."""
    outcome = Outcome(dict(previous.holdings), dict(previous.loads))
    most = MOST_DISPUTES if policy.weights is None else 0
    disputed = _settle_disputes(outcome, group, previous.disputed, most)
    keeping = {*group.eligible, *group.waiting}
    for consumer in [name for name in outcome.holdings if name not in keeping]:
        outcome.given.append((consumer, outcome.holdings.pop(consumer)))
        del outcome.loads[consumer]
    free = inventory.merge(chain(previous.unheld, *(runs for _, runs in outcome.given)))
    if not group.eligible:
        contested = [(claimants, runs) for runs, claimants in disputed]
        outcome.given += contested
        outcome.unowned = inventory.merge(chain(free, *(runs for _, runs in contested)))
        return outcome
    home_zones = _home_zones(queues, group, policy)
    if policy.weights is not None:
        _allocate_weighted(outcome, queues, group, policy, free)
    elif home_zones or disputed:
        _allocate_kinds(outcome, queues, group, policy, home_zones, free, disputed)
    else:
        _allocate_alike(outcome, queues, group, free)
    return outcome


def _settle_disputes(
    outcome: Outcome, group: Group, disputed: Disputed, most: int
) -> Disputed:
    """
    Leave up to `most` sets of claimants to the counting; beyond, the first eligible one keeps.

    A waiting claimant keeps its queues as they are. Where nobody can keep, the queues are free.
    """
    open_ones: Disputed = []
    for runs, claimants in disputed:
        keepers = [name for name in claimants if name in group.waiting]
        if not keepers and len(open_ones) >= most:
            keepers = [name for name in claimants if name in group.eligible]
        if keepers:
            _add(outcome, keepers[0], runs)
        elif len(open_ones) >= most:
            outcome.given.append((claimants, runs))
        else:
            open_ones.append((runs, claimants))
    return open_ones


def _home_zones(queues: Inventory, group: Group, policy: Policy) -> list[str]:
    """The zones that have queues as well as consumers: no other zone makes a difference."""
    if policy.zones is Zones.IGNORE:
        return []
    of_queues = {source.zone for source in queues.sources if source.zone is not None}
    if not of_queues:
        return []
    return sorted(of_queues & {group.members[name].zone for name in group.eligible})


def _allocate_alike(outcome: Outcome, queues: Inventory, group: Group, free: Runs) -> None:
    """The plain case: a queue is a queue."""
    names = group.eligible
    loads = [outcome.loads.get(name, 0) for name in names]
    capacities = [group.members[name].capacity for name in names]
    quotas = quota.level(capacities, sum(loads) + sum(map(len, free)))
    wanted = list(quotas.base)
    for choice in quotas.choices:
        for place in _who_gets_more(choice, loads, quotas.base):
            wanted[place] += 1
    outcome.best_top = quotas.top(capacities)
    surplus = [load - want for load, want in zip(loads, wanted, strict=True)]
    _transfer(outcome, queues, names, surplus, free)


def _who_gets_more(choice: quota.Choice, loads: Sequence[int], base: Sequence[int]) -> list[int]:
    """Whoever holds more than the base keeps it, as far as the choice goes; then the first ones."""
    holding = [place for place in choice.consumers if loads[place] > base[place]][: choice.count]
    if len(holding) == choice.count:
        return holding
    rest = (place for place in choice.consumers if loads[place] <= base[place])
    return [*holding, *(place for place, _ in zip(rest, range(choice.count - len(holding))))]


def _transfer(
    outcome: Outcome,
    queues: Inventory,
    names: Sequence[str],
    surplus: Sequence[int],
    free: Runs,
    belongs: Callable[[range], bool] | None = None,
) -> None:
    """Take from each consumer its surplus, and deal that and `free` to those whose surplus is < 0."""
    pool = list(free)
    topics, pooled = queues.topic_of_source, Counter[int]()
    for name, count in zip(names, surplus, strict=True):
        if count > 0:
            held = outcome.holdings[name]
            mine = held if belongs is None else tuple(filter(belongs, held))
            kept, given = dealing.take(mine, count, topics, pooled)
            if belongs is not None:
                kept = inventory.merge((*kept, *(run for run in held if not belongs(run))))
            outcome.holdings[name] = kept
            outcome.loads[name] -= count
            outcome.given.append((name, tuple(given)))
            pool += given
    takers = [name for name, count in zip(names, surplus, strict=True) if count < 0]
    needs = [-count for count in surplus if count < 0]
    if takers:
        for name, runs in zip(takers, dealing.deal(inventory.merge(pool), needs, topics), strict=True):
            outcome.received.append((name, runs))
            _add(outcome, name, runs)


def _add(outcome: Outcome, name: str, runs: Runs) -> None:
    held = outcome.holdings.get(name)
    outcome.holdings[name] = inventory.merge((*held, *runs)) if held else runs
    outcome.loads[name] = outcome.loads.get(name, 0) + sum(map(len, runs))


def _allocate_weighted(
    outcome: Outcome, queues: Inventory, group: Group, policy: Policy, free: Runs
) -> None:
    """The case with weights: queue by queue, as no two need be alike."""
    names = group.eligible
    held = {
        number: place
        for place, name in enumerate(names)
        for run in outcome.holdings.get(name, ())
        for number in run
    }
    loose = [number for run in free for number in run]
    owners = weights.choose_owners(queues, group, policy, held, loose)
    outcome.best_top = weights.lower_bound(queues, group, policy, owners)
    given: dict[int, list[range]] = {}
    received: dict[int, list[range]] = {}
    for number, place in owners.items():
        if held.get(number) != place:
            received.setdefault(place, []).append(range(number, number + 1))
            if number in held:
                given.setdefault(held[number], []).append(range(number, number + 1))
    for place, runs in sorted(given.items()):
        _remove(outcome, names[place], inventory.merge(runs))
    for place, runs in sorted(received.items()):
        outcome.received.append((names[place], inventory.merge(runs)))
        _add(outcome, *outcome.received[-1])


def _remove(outcome: Outcome, name: str, runs: Runs) -> None:
    outcome.given.append((name, runs))
    outcome.holdings[name] = inventory.subtract(outcome.holdings[name], runs)
    outcome.loads[name] -= sum(map(len, runs))


def _allocate_kinds(
    outcome: Outcome,
    queues: Inventory,
    group: Group,
    policy: Policy,
    home_zones: list[str],
    free: Runs,
    disputed: Disputed,
) -> None:
    """The case with zones or double claims: count kind by kind, then transfer kind by kind."""
    names = group.eligible
    kind_of_zone = {zone: kind for kind, zone in enumerate(home_zones)}
    elsewhere = len(home_zones)
    kind_of_source = [kind_of_zone.get(s.zone, elsewhere) if s.zone else elsewhere for s in queues.sources]

    def kind_of(run: range) -> int:
        return kind_of_source[run.start // SPAN]

    claims = [
        (kind, claimants, runs)
        for all_runs, claimants in disputed
        for kind, runs in _split(all_runs, kind_of).items()
    ]
    held = [_count_kinds(outcome.holdings.get(name, ()), kind_of, elsewhere + 1) for name in names]
    physical = [list(row) for row in held]
    counts = _count_kinds(free, kind_of, elsewhere + 1)
    counts = [sum(column) for column in zip(counts, *held, strict=True)]
    for _, claimants, runs in claims:
        size = sum(map(len, runs))
        counts.append(size)
        for place, name in enumerate(names):
            held[place].append(size if name in claimants else 0)

    zone_of = [group.members[name].zone for name in names]
    homes = [frozenset(p for p, zone in enumerate(zone_of) if zone == home) for home in home_zones]
    homes.append(frozenset())
    homes += [homes[kind] for kind, _, _ in claims]
    require = policy.zones is Zones.REQUIRE
    kinds = [
        rings.Kind(count, home, only_home=require and bool(home))
        for count, home in zip(counts, homes, strict=True)
    ]
    capacities = [group.members[name].capacity for name in names]
    quotas = _quotas(kinds, capacities, require=require)
    outcome.best_top = quotas.top(capacities)
    wanted = rings.settle(kinds, held, quotas)

    free_of = _split(free, kind_of)
    for kind in range(elsewhere + 1):
        surplus = [has[kind] - want[kind] for has, want in zip(physical, wanted, strict=True)]
        _transfer(
            outcome, queues, names, surplus, free_of.get(kind, ()), lambda run: kind_of(run) == kind
        )
    for place, (_, claimants, runs) in enumerate(claims, start=elsewhere + 1):
        outcome.given.append((claimants, runs))
        _transfer(outcome, queues, names, [-want[place] for want in wanted], runs)


def _quotas(
    kinds: list[rings.Kind], capacities: Sequence[float], *, require: bool
) -> quota.Quota:
    total = sum(kind.count for kind in kinds)
    if not require:
        return quota.level(capacities, total)
    bound: Counter[frozenset[int]] = Counter()
    for kind in kinds:
        if kind.only_home:
            bound[kind.home] += kind.count
    return quota.level_by_zone(
        capacities, [(sorted(home), count) for home, count in bound.items()], total
    )


def _split(runs: Runs, kind_of: Callable[[range], int]) -> dict[int, Runs]:
    by_kind: dict[int, list[range]] = {}
    for run in runs:
        by_kind.setdefault(kind_of(run), []).append(run)
    return {kind: tuple(found) for kind, found in by_kind.items()}


def _count_kinds(runs: Runs, kind_of: Callable[[range], int], kinds: int) -> list[int]:
    counts = [0] * kinds
    for run in runs:
        counts[kind_of(run)] += len(run)
    return counts
