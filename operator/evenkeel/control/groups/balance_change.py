"""
Decides when the members of a group may begin to read in another way. Pure.

A change of `spec.balance`, or of `spec.messages.ordered`, has three steps. First, members lose
their queues, or the right to pop. When nobody reads, the operator makes the positions at the
brokers ready (`mq_client/operations/balance.py`). Then the status says that members may read in the
new way. The next leader repeats an unfinished step.
"""

from evenkeel import planning
from evenkeel.control import conditions
from evenkeel.control.groups.surroundings import MEMBERS_UNKNOWN, GroupSurroundings
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup


def refuse_other_consumers(group: ConsumerGroup) -> None:
    """Refuse a group that has given up its members before they had stopped popping."""
    if planning.is_changing_balance(group) and not planning.has_members(group):
        raise ManifestError(
            f"{group}: its members may still pop: keep spec.consumers.members and balance Queues "
            "until status.balance is Queues"
        )


def explain_wait(group: ConsumerGroup, seen: GroupSurroundings) -> str | None:
    """Explain who may still read in the old way; None if nobody does."""
    if seen.conflict is not None and seen.conflict.stops:
        return f"another object reads: {seen.conflict.message}"
    if any(each.queues for each in group.status.assignments):
        return "the queues are being taken away"
    if seen.held is None or seen.poppers is None:
        return MEMBERS_UNKNOWN
    held = seen.held.granted_queues + seen.held.leaving_queues
    if held:
        return f"queues that members still hold: {held}"
    if seen.poppers:
        return f"members that still pop messages: {conditions.name_some(sorted(seen.poppers))}"
    return None
