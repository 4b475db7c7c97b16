"""The sessions of members: which queues each member was granted, and which it may still hold."""

from dataclasses import dataclass, field
from typing import Generic

from contract.following import QueueT


@dataclass(frozen=True, slots=True)
class Revoked:
    """The withdrawal of a queue from a member, which may still hold the queue."""

    revision: int
    """When the member has seen an answer of this revision or later, it knows of the withdrawal."""
    at: float


@dataclass(frozen=True, slots=True)
class HeldQueues:
    """How many sessions a group has, and how many of its queues are in each state."""

    sessions: int = 0
    """Members that have a session."""
    granted_queues: int = 0
    lent_queues: int = 0
    """Granted queues whose reader is not their owner."""
    leaving_queues: int = 0
    """Queues that were withdrawn from a member, which may still hold them."""
    waiting_queues: int = 0
    """Queues that have an owner, but are neither granted to a member nor held by one."""


@dataclass(slots=True)
class Session(Generic[QueueT]):
    """
    One session of one member.

    The member may hold the queues in `grants` and in `leaving`, and no others.
    """

    member: str
    id: str
    heard_at: float
    number: int
    """The number of the newest request. A request that a newer one has overtaken is refused."""
    revision: int
    """The revision of the grants. It grows when they change."""
    grants: set[QueueT] = field(default_factory=set)
    leaving: dict[QueueT, Revoked] = field(default_factory=dict)

    def is_overdue(self, latest: float) -> bool:
        """Return whether the member has not yet released a queue withdrawn before `latest`."""
        return any(each.at < latest for each in self.leaving.values())


@dataclass(frozen=True, slots=True)
class Ended:
    """A session that is over."""

    session: str
    at: float
