"""Finds what triggered a rebalance, by comparing the old status with the next one. Pure."""

from collections.abc import Sequence

from contract.kinds.groups import Assigned, GroupStatus
from evenkeel.objects import ConsumerGroup
from lb_core.model import QueueRange


def find_trigger(group: ConsumerGroup, status: GroupStatus, queues: Sequence[QueueRange]) -> str:
    """Return the name of the trigger. `status` is the next status."""
    old = group.status
    if group.rebalance_asked:
        return "Asked"
    if old.observed_generation != group.head.generation:
        return "SpecChanged"
    if old.queues != status.queues or _find_sources(queues) != _find_owned_sources(old.assignments):
        return "RouteChanged"
    if _find_consumers(old.assignments) != _find_consumers(status.assignments):
        return "ConsumersChanged"
    return "Interval"


def _find_consumers(assignments: Sequence[Assigned]) -> set[tuple[str, str, bool]]:
    return {(each.consumer, each.empty_since, each.draining) for each in assignments}


def _find_sources(queues: Sequence[QueueRange]) -> set[tuple[str, str]]:
    return {(each.topic, each.broker) for each in queues}


def _find_owned_sources(assignments: Sequence[Assigned]) -> set[tuple[str, str]]:
    return {(queues.topic, queues.broker) for each in assignments for queues in each.queues}
