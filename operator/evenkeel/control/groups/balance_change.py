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
from evenkeel.control.jobs.states import JobState
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup


def refuse_other_consumers(group: ConsumerGroup) -> None:
    """Refuse a group without members whose balance changes, unless nobody has ever read."""
    has_read = group.status.epoch > 0 or not planning.had_owners(group)
    if not planning.is_changing_balance(group) or planning.has_members(group):
        return
    if group.spec.job is not None and planning.is_by_message(group) and not has_read:
        return
    raise ManifestError(
        f"{group}: its former consumers may still read: keep spec.consumers.members until "
        "status.balance is spec.balance, or create a group with another name"
    )


def explain_wait(group: ConsumerGroup, seen: GroupSurroundings) -> str | None:
    """Explain who may still read in the old way; None if nobody does."""
    if seen.conflict is not None and seen.conflict.stops:
        return f"another object reads: {seen.conflict.message}"
    if group.spec.job is not None:
        is_over = seen.job is None or seen.job.state is JobState.ENDED
        return None if is_over else "the driver of an earlier job still runs"
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
