"""
STICKY: every queue owned, loads even, owners in the queue's zone, and the fewest moves.

Only what must change is computed. A consumer that already holds the right number of queues is
skipped, so the cost grows with the number of consumers and moves, not with the number of queues:

1. free the queues of consumers that may not keep them;
2. ask `quota` how many queues each consumer should own;
3. if queues are not all alike, ask `kinds` how many of each kind;
4. take queues from consumers that have too many, and deal the free queues (`dealing`).

Ties are broken by RocketMQ's sort order of consumers and queues, so the order of the input does not
matter.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import sub

from lb_core import dealing, inventory, kinds, quota, scale, weights
from lb_core.group import Group
from lb_core.inventory import Inventory, Runs
from lb_core.kinds import Disputed
from lb_core.outcome import Outcome
from lb_core.policy import Policy, Zones
from lb_core.previous import Previous
from lb_core.strategies.strategy import Strategy

MOST_DISPUTES = 24
"""
Maximum number of sets of claimants whose disputes are resolved exactly. In further sets, the first
eligible claimant keeps the queues.
"""

ZONE_AIMS = {
    Zones.IGNORE: "",
    Zones.PREFER: "then owners in the zone of the broker, ",
    Zones.REQUIRE: "only owners in the zone of the broker if that zone has any, ",
}


def allocate(queues: Inventory, group: Group, policy: Policy, previous: Previous) -> Outcome:
    """Plan, starting from the previous owners."""
    outcome = Outcome(dict(previous.holdings), dict(previous.loads))
    if policy.weights is not None:
        outcome.scale = scale.read(queues, policy)
    most = MOST_DISPUTES if policy.weights is None else 0
    disputed = _settle_disputes(outcome, group, previous.disputed, most)
    for name in [name for name in outcome.holdings if name not in group.keeping]:
        outcome.give_up(name)
    free = inventory.merge(chain(previous.unheld, *(runs for _, runs in outcome.given)))
    if not group.eligible:
        outcome.given += [(claimants, runs) for runs, claimants in disputed]
        outcome.unowned = inventory.merge(chain(free, *(runs for runs, _ in disputed)))
    elif policy.weights is not None:
        _allocate_weighted(outcome, queues, group, policy, free)
    elif disputed or kinds.find_home_zones(queues, group, policy):
        kinds.allocate(outcome, queues, group, policy, free, disputed)
    else:
        _allocate_alike(outcome, queues, group, free)
    return outcome


def _settle_disputes(outcome: Outcome, group: Group, disputed: Disputed, most: int) -> Disputed:
    """
    Resolve disputes that need no computation, and return up to `most` of the others.

    A claimant that is waiting keeps the disputed queues. In sets beyond `most`, the first eligible
    claimant keeps the queues; if no claimant is eligible, the queues become free.
    """
    left: Disputed = []
    for runs, claimants in disputed:
        keepers = [name for name in claimants if name in group.waiting]
        if not keepers and len(left) >= most:
            keepers = [name for name in claimants if name in group.keeping]
        if keepers:
            outcome.add(keepers[0], runs)
        elif len(left) >= most:
            outcome.given.append((claimants, runs))
        else:
            left.append((runs, claimants))
    return left


def _allocate_alike(outcome: Outcome, queues: Inventory, group: Group, free: Runs) -> None:
    """Allocate queues that are all alike, so that only their number matters."""
    # Proof: each consumer gives exactly the queues beyond its quota, and no other queue moves. So
    # the moves are as few as these quotas allow. `_pick_larger` chooses among equally good quotas.
    loads = [outcome.loads.get(name, 0) for name in group.eligible]
    quotas = quota.level(group.capacities, sum(loads) + inventory.count(free))
    outcome.best_top = quotas.find_top(group.capacities)
    surplus = list(map(sub, loads, quotas.base))
    for choice in quotas.choices:
        for place in _pick_larger(choice, surplus):
            surplus[place] -= 1
    dealing.redistribute(outcome, queues, group.eligible, surplus, free)


def _pick_larger(choice: quota.QuotaChoice, surplus: Sequence[int]) -> list[int]:
    """Pick the consumers that get one queue more: first those that hold more than the base."""
    # Proof: one queue more saves one move for a consumer that holds more than the base, and no move
    # for any other consumer. So no choice saves more moves than one that takes those that
    # hold more than the base first.
    more = [place for place in choice.consumers if surplus[place] > 0][: choice.count]
    if len(more) < choice.count:
        rest = (place for place in choice.consumers if surplus[place] <= 0)
        more += islice(rest, choice.count - len(more))
    return more


def _allocate_weighted(
    outcome: Outcome, queues: Inventory, group: Group, policy: Policy, free: Runs
) -> None:
    """Allocate by weights, queue by queue, because each queue may have a different weight."""
    held = {
        number: place
        for place, name in enumerate(group.eligible)
        for run in outcome.holdings.get(name, ())
        for number in run
    }
    loose = [number for run in free for number in run]
    owners = weights.choose_owners(queues, group, policy, outcome.scale, held, loose)
    outcome.best_top = weights.find_lower_bound(group, outcome.scale, owners)
    changed = {number: place for number, place in owners.items() if held.get(number) != place}
    for place, runs in _gather((number, held[number]) for number in changed if number in held):
        name = group.eligible[place]
        outcome.give(name, inventory.subtract(outcome.holdings[name], runs), runs)
    for place, runs in _gather(changed.items()):
        outcome.receive(group.eligible[place], runs)


def _gather(numbers: Iterable[tuple[int, int]]) -> Iterator[tuple[int, Runs]]:
    """Join the queue numbers of each consumer into runs."""
    by_place: dict[int, list[range]] = {}
    for number, place in numbers:
        by_place.setdefault(place, []).append(range(number, number + 1))
    return ((place, inventory.merge(runs)) for place, runs in sorted(by_place.items()))


def describe(policy: Policy) -> str:
    """Describe how queues are assigned, with the effect of zones."""
    return f"even loads first, {ZONE_AIMS[policy.zones]}then the fewest moves"


STRATEGY = Strategy(
    name="STICKY",
    title="Sticky",
    allocate=allocate,
    describe=describe,
    settings=("zones", "draining", "weights", "minGain", "maxMoves"),
    is_sticky=True,
    uses=frozenset({"zones", "weights", "min_gain", "max_moves"}),
)
