"""Why queues move now and not before: what is seen that differs from last time. Pure."""

from collections.abc import Sequence

from contract.kinds.groups import Assigned, GroupStatus
from evenkeel.objects import ConsumerGroup
from lb_core.model import QueueRange


def trigger(group: ConsumerGroup, status: GroupStatus, queues: Sequence[QueueRange]) -> str:
    """Say it in a word; `status` is the next one."""
    old = group.status
    if group.rebalance_asked:
        return "Asked"
    if old.observed_generation != group.head.generation:
        return "SpecChanged"
    if old.queues != status.queues or _names(queues) != _names_of(old.assignments):
        return "RouteChanged"
    if _who_is_there(old.assignments) != _who_is_there(status.assignments):
        return "ConsumersChanged"
    return "Interval"


def _who_is_there(assignments: Sequence[Assigned]) -> set[tuple[str, str, bool]]:
    return {(each.consumer, each.empty_since, each.draining) for each in assignments}


def _names(queues: Sequence[QueueRange]) -> set[tuple[str, str]]:
    return {(each.topic, each.broker) for each in queues}


def _names_of(assignments: Sequence[Assigned]) -> set[tuple[str, str]]:
    return {(queues.topic, queues.broker) for each in assignments for queues in each.queues}
