"""
Plans a group with the moves that are allowed now. Pure.

There are two rules. While a group is paused, only forced moves are allowed. While its job has not
adopted the newest assignment yet, also only forced moves are allowed, unless the strategy cannot
limit moves. A user can drain a consumer and request a rebalance even while the group is paused.
"""

from collections.abc import Sequence
from dataclasses import replace

from evenkeel import planning, times
from evenkeel.control.groups import findings
from evenkeel.control.groups.surroundings import GroupSurroundings
from evenkeel.objects import ConsumerGroup
from lb_core import strategies
from lb_core.model import Member, QueueRange
from lb_core.plan import Plan
from lb_core.policy import Policy
from lb_core.reasons import Reason


def plan_allowed_moves(
    group: ConsumerGroup,
    seen: GroupSurroundings,
    queues: Sequence[QueueRange],
    members: Sequence[Member],
    *,
    is_behind: bool,
) -> Plan:
    """Plan a group; `is_behind` means that its job has not adopted the newest assignment yet."""
    can_come_back = group.spec.job is not None or planning.has_members(group)
    grace = times.parse_duration(group.spec.rebalance.grace) if can_come_back else 0.0
    policy = planning.build_policy(group.spec.strategy, grace)
    if planning.uses_rates(group.spec.strategy):
        policy = replace(policy, weights=seen.weights)
    if group.rebalance_asked:
        policy = replace(policy, max_moves=None, min_gain=0.0)
    elif findings.is_paused(group):
        # Use the default strategy, because not every strategy can limit a plan to forced moves.
        calm = Policy(pinned=policy.pinned, max_moves=0, grace_seconds=grace)
        return _plan_forced_moves(group, queues, members, calm)
    elif is_behind and "max_moves" in strategies.find(policy.strategy).uses:
        policy = replace(policy, max_moves=0)
    return planning.plan_group(group, queues, members, policy)


def _plan_forced_moves(
    group: ConsumerGroup, queues: Sequence[QueueRange], members: Sequence[Member], calm: Policy
) -> Plan:
    """Plan only forced moves, and moves away from consumers that a user wants to drain."""
    plan = planning.plan_group(group, queues, members, calm)
    leaving = group.to_drain
    if planning.has_members(group):
        leaving = frozenset(each.id for each in members if each.draining)
    asked = sum(
        move.size
        for move in plan.deferred
        if move.reason == Reason.DRAINING and move.source in leaving
    )
    if not asked:
        return plan
    return planning.plan_group(group, queues, members, replace(calm, max_moves=asked))
