"""
STICKY for queues that differ: zones matter, or several consumers claim the same queues.

First, queues are divided into kinds. Then `rings` decides how many queues of each kind every
consumer gets. Finally, the queues change their owners, one kind after the other.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from lb_core import dealing, errors, inventory, quota, rings
from lb_core.group import Group
from lb_core.inventory import SPAN, Inventory, Runs
from lb_core.model import sort_texts
from lb_core.outcome import Claimants, Outcome
from lb_core.policy import Policy, Zones

MOST_CELLS = 2_000_000
"""Maximum product of zones and consumers, to limit the memory. Real clusters have a few zones."""

Disputed = list[tuple[Runs, Claimants]]
Claim = tuple[int, Runs, frozenset[str]]
"""A kind, queues of this kind, and the consumers that all claim these queues."""


def find_home_zones(queues: Inventory, group: Group, policy: Policy) -> list[str]:
    """Find the zones that have both queues and consumers. Other zones cannot change a plan."""
    if policy.zones is Zones.IGNORE:
        return []
    of_queues = {source.zone for source in queues.sources if source.zone is not None}
    return sorted(of_queues.intersection(_list_zones(group))) if of_queues else []


class Sorter:
    """Divides queues into kinds: one for each home zone, and one for queues outside all of them."""

    def __init__(self, queues: Inventory, zones: list[str]) -> None:
        """Find the kind of each source once."""
        self.zones = zones
        self.elsewhere = len(zones)
        places: dict[str | None, int] = {zone: place for place, zone in enumerate(zones)}
        self._of_source = [places.get(source.zone, self.elsewhere) for source in queues.sources]

    def split(self, runs: Runs) -> list[Runs]:
        """Split runs by kind."""
        found: list[list[range]] = [[] for _ in range(self.elsewhere + 1)]
        for run in runs:
            found[self._of_source[run.start // SPAN]].append(run)
        return [tuple(of_kind) for of_kind in found]

    def count(self, runs: Runs) -> list[int]:
        """Count the queues of each kind."""
        return list(map(inventory.count, self.split(runs)))


def allocate(
    outcome: Outcome,
    queues: Inventory,
    group: Group,
    policy: Policy,
    free: Runs,
    disputed: Disputed,
) -> None:
    """
    Find how many queues of each kind each consumer should have, and hand over queues accordingly.

    The `free` and `disputed` queues are dealt, and other queues move if necessary.
    """
    sorter = Sorter(queues, find_home_zones(queues, group, policy))
    if len(sorter.zones) * len(group.eligible) > MOST_CELLS:
        raise errors.BadRequestError(
            f"{len(sorter.zones)} zones times {len(group.eligible)} consumers is more than "
            f"{MOST_CELLS}, the maximum"
        )
    holds = [sorter.count(outcome.holdings.get(name, ())) for name in group.eligible]
    claims = list(_split_claims(sorter, disputed))
    may_keep = [
        [*sizes, *(inventory.count(runs) * (name in names) for _, runs, names in claims)]
        for name, sizes in zip(group.eligible, holds, strict=True)
    ]
    kinds = _make_kinds(sorter, group, policy, [sorter.count(free), *holds], claims)
    quotas = _make_quotas(kinds, group.capacities)
    outcome.best_top = quotas.find_top(group.capacities)
    wanted = rings.settle(kinds, may_keep, quotas)
    _hand_over(outcome, queues, group, sorter, holds, wanted, free)
    for place, (_, runs, names) in enumerate(claims, start=sorter.elsewhere + 1):
        outcome.given.append((tuple(sort_texts(names)), runs))
        lacking = [-row[place] for row in wanted]
        dealing.redistribute(outcome, queues, group.eligible, lacking, runs)


def _split_claims(sorter: Sorter, disputed: Disputed) -> Iterator[Claim]:
    for all_runs, names in disputed:
        for kind, runs in enumerate(sorter.split(all_runs)):
            if runs:
                yield kind, runs, frozenset(names)


def _make_kinds(
    sorter: Sorter,
    group: Group,
    policy: Policy,
    sizes: list[list[int]],
    claims: list[Claim],
) -> list[rings.QueueKind]:
    """Make a kind for each zone, one for other queues, and one for each set of claimants."""
    homes = [
        frozenset(place for place, zone in enumerate(_list_zones(group)) if zone == home)
        for home in sorter.zones
    ]
    homes.append(frozenset())
    counts = [sum(column) for column in zip(*sizes, strict=True)]
    homes += [homes[kind] for kind, _, _ in claims]
    counts += [inventory.count(runs) for _, runs, _ in claims]
    stay_home = policy.zones is Zones.REQUIRE
    return [
        rings.QueueKind(count, home, only_home=stay_home and bool(home))
        for count, home in zip(counts, homes, strict=True)
    ]


def _make_quotas(kinds: list[rings.QueueKind], capacities: Sequence[float]) -> quota.Quota:
    bound: Counter[frozenset[int]] = Counter()
    for kind in kinds:
        if kind.only_home:
            bound[kind.home] += kind.count
    zones = [(sorted(home), count) for home, count in bound.items()]
    return quota.level_by_zone(capacities, zones, sum(kind.count for kind in kinds))


def _hand_over(
    outcome: Outcome,
    queues: Inventory,
    group: Group,
    sorter: Sorter,
    holds: list[list[int]],
    wanted: list[list[int]],
    free: Runs,
) -> None:
    for kind, free_of_kind in enumerate(sorter.split(free)):
        surplus = [has[kind] - want[kind] for has, want in zip(holds, wanted, strict=True)]

        def select_kind(runs: Runs, kind: int = kind) -> Runs:
            return sorter.split(runs)[kind]

        dealing.redistribute(outcome, queues, group.eligible, surplus, free_of_kind, select_kind)


def _list_zones(group: Group) -> Iterator[str | None]:
    return (group.members[name].zone for name in group.eligible)
