"""
How a group is planned now: whether all may move, or only what must. Pure.

What somebody asks for by hand is done also while the group is paused: a pause is for moves that
nobody has asked for.
"""

from collections.abc import Sequence
from dataclasses import replace

from evenkeel import planning, times
from evenkeel.control import findings
from evenkeel.control.seen import GroupSurroundings
from evenkeel.objects import ConsumerGroup
from lb_core import strategies
from lb_core.model import Member, QueueRange
from lb_core.plan import Plan
from lb_core.policy import Policy
from lb_core.reasons import Reason


def choose(
    group: ConsumerGroup,
    seen: GroupSurroundings,
    queues: Sequence[QueueRange],
    members: Sequence[Member],
    *,
    is_behind: bool,
) -> Plan:
    """Plan; `is_behind` says that the job does not follow the newest assignment yet."""
    grace = times.seconds(group.spec.rebalance.grace) if group.spec.job else 0.0
    policy = planning.policy_of(group.spec.strategy, grace)
    if planning.goes_by_rate(group.spec.strategy):
        policy = replace(policy, weights=seen.weights)
    if group.rebalance_asked:
        policy = replace(policy, max_moves=None, min_gain=0.0)
    elif findings.is_paused(group):
        # The default strategy, as the group's own might move more than it must.
        calm = Policy(pinned=policy.pinned, max_moves=0, grace_seconds=grace)
        return _emptied(group, queues, members, calm)
    elif is_behind and "max_moves" in strategies.find(policy.strategy).uses:
        policy = replace(policy, max_moves=0)
    return planning.plan_group(group, queues, members, policy)


def _emptied(
    group: ConsumerGroup, queues: Sequence[QueueRange], members: Sequence[Member], calm: Policy
) -> Plan:
    """Let move what has to, and what is on consumers that are to be emptied, which goes first."""
    plan = planning.plan_group(group, queues, members, calm)
    asked = sum(
        move.size
        for move in plan.deferred
        if move.reason == Reason.DRAINING and move.source in group.to_drain
    )
    if not asked:
        return plan
    return planning.plan_group(group, queues, members, replace(calm, max_moves=asked))
