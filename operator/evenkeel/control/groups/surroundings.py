"""
The surroundings of a group: its topics, consumers, job and rivals.

A decision depends on the group, its surroundings and the time. If pods, members, poppers, held
queues, lag, dead letters or weights are None, they are unknown, not empty.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contract.kinds.groups import PopStore, TopicClaim, WaitingSum
from contract.report import SkipReport
from coordinator.sessions import HeldQueues
from evenkeel.control.conflicts import Conflict
from evenkeel.control.groups.member_slots import LiveMember
from evenkeel.control.jobs.states import JobSeen
from evenkeel.objects import Key, Topic
from lb_core import model
from lb_core.model import Member

NOT_ASKED = "the brokers have not been asked yet whether they can pop"
MEMBERS_UNKNOWN = (
    "waits until its members are known, which takes one spec.consumers.members.session after the "
    "start of a coordinator, because an earlier one may have granted queues. In a cluster, the "
    "coordinator runs only if the chart's value members.enabled is true"
)


@dataclass(frozen=True, slots=True)
class GroupSurroundings:
    """Everything that is observed for a group."""

    topics: Mapping[Key, Topic]
    job: JobSeen | None = None
    """None if the group has no job, and no driver of an earlier job still exists."""
    pods: Sequence[Member] | None = None
    """The pods that `podSelector` selects."""
    live: Sequence[LiveMember] | None = None
    """The members that have a session, for a group with members."""
    held: HeldQueues | None = None
    """How many queues of a group with members are granted, lent, being released, or waiting."""
    poppers: frozenset[str] | None = None
    """The members that may pop messages; None if they are unknown."""
    are_positions_ready: bool = False
    """Whether the positions at the brokers are ready for the balance in this spec."""
    positions_trouble: str | None = None
    """Why the positions are not ready yet."""
    pop_trouble: str | None = None
    """Why members of a group that is balanced by message may get no messages."""
    lag: int | None = None
    waiting: WaitingSum | None = None
    """What waits at the brokers for a group that is balanced by message, or has leftovers."""
    stores: Mapping[str, PopStore] | None = None
    """Where each broker keeps popped messages."""
    dead_letters: int | None = None
    weights: Mapping[model.Queue, float] | None = None
    """The weight of each queue, for strategies with weights by rate."""
    conflict: Conflict | None = None
    claims: Sequence[TopicClaim] = ()
    """The topics that the group has claimed."""
    unseen: str | None = None
    """Why the namespace cannot be observed, for example because a right is missing."""
    skipped: SkipReport | None = None
