"""
What is seen around a group. A decision depends on this, on the group itself and on the clock.

None always means that something could not be seen, never that there is nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contract.kinds.groups import TopicClaim
from contract.report import SkipReport
from evenkeel.control.conflicts import Conflict
from evenkeel.control.jobs.states import JobSeen
from evenkeel.objects import Key, Topic
from lb_core import model
from lb_core.model import Member


@dataclass(frozen=True, slots=True)
class GroupSurroundings:
    """What is seen around a group."""

    topics: Mapping[Key, Topic]
    job: JobSeen | None = None
    """None: there is none, and no driver of one that there was."""
    pods: Sequence[Member] | None = None
    """Those that `podSelector` selects."""
    lag: int | None = None
    weights: Mapping[model.Queue, float] | None = None
    """What each queue counts, where its rate shall."""
    conflict: Conflict | None = None
    claims: Sequence[TopicClaim] = ()
    """Which topics are the group's and no other's."""
    unseen: str | None = None
    """Why what is around it cannot be seen, for a missing right."""
    skipped: SkipReport | None = None
