"""
Decide which consumer owns which queue.

`plan` is a pure function over values, without clock, randomness or I/O, so the same input gives the
same plan in any process. Before `plan` returns, `check` validates the result of any strategy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import truediv

from lb_core import cap, check, errors, group, inventory, previous, strategies
from lb_core.assignment import Assignment
from lb_core.group import Group
from lb_core.inventory import Inventory, Runs
from lb_core.model import Member, QueueRange, quote
from lb_core.moves import Judge, Move
from lb_core.outcome import COUNT, Outcome
from lb_core.policy import Policy, Zones
from lb_core.previous import Given, Previous
from lb_core.strategies import Strategy, strategy

DEFAULT_POLICY = Policy()


@dataclass(frozen=True)
class Unowned:
    """Queues without an owner, and the reason."""

    inventory: Inventory
    runs: Runs
    reason: str

    @property
    def queues(self) -> tuple[QueueRange, ...]:
        """The queues, as ranges."""
        return self.inventory.list_ranges(self.runs)


@dataclass(frozen=True)
class Plan:
    """A checked assignment, its moves with their reasons, and the deferred moves."""

    assignment: Assignment
    moves: tuple[Move, ...]
    """All changes of owner, including first owners of new queues."""
    deferred: tuple[Move, ...]
    """Moves that `maxMoves` defers."""
    unowned: Unowned | None
    """Queues without an owner, if there are any."""
    idle: tuple[str, ...]
    """Consumers that could own queues and own none."""
    waiting: tuple[str, ...]
    """Lost consumers whose grace is not over; they keep their queues."""
    imbalance: float
    """The highest load/capacity divided by the mean; 1 is perfectly even."""
    best_imbalance: float
    """The lowest possible imbalance: exact without weights, a lower bound with weights."""
    look_again_seconds: float | None
    """Plan again after this many seconds, even without a change. None: only after a change."""

    @cached_property
    def moved(self) -> int:
        """The number of queues that had an owner and now have another one, or none."""
        return sum(move.size for move in self.moves if move.source is not None)


def plan(
    last: Plan | Given | None,
    queues: Iterable[QueueRange],
    members: Iterable[Member],
    policy: Policy = DEFAULT_POLICY,
) -> Plan:
    """
    Plan which consumer owns which of `queues`, starting from the previous owners.

    `last` is the previous plan, or a list of owners from another source. Queues of `last` that no
    longer exist are ignored. Queues that have no owner in `last` count as new.
    """
    if not isinstance(policy, Policy):
        raise errors.BadRequestError(f"policy: {quote(policy)} is not a Policy")
    stock = inventory.build(queues)
    before = _recall(last, stock)
    people = group.sort_out(members, policy)
    chosen = strategies.find(policy.strategy)
    strategy.refuse_unused(chosen, policy)
    outcome = chosen.allocate(stock, people, policy, before)
    zones = policy.zones if "zones" in chosen.uses else Zones.IGNORE
    judge = Judge(stock, people, zones, frozenset(before.loads), chosen)
    moves = judge.explain(outcome)
    deferred: list[Move] = []
    if policy.max_moves is not None:
        limit = policy.limit_moves(stock.count)
        moves, deferred = cap.hold_back(moves, limit, outcome, people)
    contested = [run for runs, _ in before.disputed for run in runs]
    free = inventory.merge((*before.unheld, *contested))
    check.refuse_bad(stock, before.holdings, outcome, free)
    takers = people.eligible if chosen.is_sticky else people.keeping
    check.refuse_strangers(stock, people, zones, takers, outcome.received)
    return _conclude(stock, people, policy, chosen, outcome, moves, deferred)


def _recall(last: Plan | Given | None, stock: Inventory) -> Previous:
    if isinstance(last, Plan):
        unowned = last.unowned.runs if last.unowned else ()
        return previous.carry_over(last.assignment, unowned, stock)
    return previous.read(last or {}, stock)


def _conclude(
    stock: Inventory,
    people: Group,
    policy: Policy,
    chosen: Strategy,
    outcome: Outcome,
    moves: list[Move],
    deferred: list[Move],
) -> Plan:
    """Make the plan from a checked outcome."""
    for name in people.members.keys() - outcome.holdings.keys():
        outcome.add(name, ())
    imbalance, best = _measure_imbalance(people, outcome)
    unowned = None
    if outcome.unowned:
        unowned = Unowned(stock, outcome.unowned, _explain_unowned(people, policy, chosen))
    return Plan(
        Assignment(stock, outcome.holdings, outcome.loads),
        tuple(moves),
        tuple(deferred),
        unowned,
        _list_idle(people, outcome),
        tuple(people.waiting),
        imbalance,
        best,
        _time_next_plan(people, policy, can_move_more=bool(deferred and policy.max_moves)),
    )


def _list_idle(people: Group, outcome: Outcome) -> tuple[str, ...]:
    if all(outcome.loads.values()):
        return ()
    return tuple(name for name in people.eligible if not outcome.loads[name])


def _measure_imbalance(people: Group, outcome: Outcome) -> tuple[float, float]:
    """Compute the highest load/capacity and the lowest possible one, both divided by the mean."""
    loads: Mapping[str, float] = outcome.loads
    if outcome.scale is not COUNT:
        loads = {name: outcome.scale.sum_load(runs) for name, runs in outcome.holdings.items()}
    fixed_capacities = [people.members[name].capacity for name in people.waiting]
    total, capacity = sum(loads.values()), sum(people.capacities) + sum(fixed_capacities)
    fixed = list(map(truediv, map(loads.__getitem__, people.waiting), fixed_capacities))
    levels = map(truediv, map(loads.__getitem__, people.eligible), people.capacities)
    mean = total / capacity if capacity else 0.0
    if not mean:
        return 1.0, 1.0
    return max(chain(levels, fixed)) / mean, max(outcome.best_top, *fixed, 0.0) / mean


def _explain_unowned(people: Group, policy: Policy, chosen: Strategy) -> str:
    if not chosen.is_sticky and people.eligible:
        return f"strategy {chosen.name} gave them to no consumer"
    if policy.pinned and not policy.pinned & people.members.keys():
        return "none of the pinned consumers is present"
    if people.waiting:
        return f"waiting for {len(people.waiting)} lost consumers, because there are no others"
    return "no consumer may own queues" if people.members else "there is no consumer"


def _time_next_plan(people: Group, policy: Policy, *, can_move_more: bool) -> float | None:
    """Compute when to plan again: now if moves are deferred, otherwise when a grace ends."""
    if can_move_more:
        return 0.0
    lost = (people.members[name].lost_for_seconds or 0.0 for name in people.waiting)
    return min((policy.grace_seconds - seconds for seconds in lost), default=None)
