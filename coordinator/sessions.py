"""Sessions: one life of one member, what it was granted, and what it may still hold."""

from dataclasses import dataclass, field
from typing import Generic

from contract.following import QueueT


@dataclass(frozen=True, slots=True)
class Revoked:
    """A queue that was taken from a member, which may still hold it."""

    revision: int
    """The member knows once it has seen an answer of this revision."""
    at: float


@dataclass(frozen=True, slots=True)
class HeldQueues:
    """How many queues of a group are where."""

    sessions: int = 0
    """Members that live."""
    granted_queues: int = 0
    lent_queues: int = 0
    """Of those that are granted: the ones that are not granted to their owner."""
    leaving_queues: int = 0
    """Withdrawn, and their members may still hold them."""
    waiting_queues: int = 0
    """Nobody may read them now, and nobody holds them."""


@dataclass(slots=True)
class Session(Generic[QueueT]):
    """
    One life of one member.

    The member may hold every queue of `grants` and of `leaving`, and no other.
    """

    member: str
    id: str
    heard_at: float
    number: int
    """Of its newest request. Requests may overtake each other, so older ones are refused."""
    revision: int
    """It grows when the grants change."""
    grants: set[QueueT] = field(default_factory=set)
    leaving: dict[QueueT, Revoked] = field(default_factory=dict)

    def is_overdue(self, latest: float) -> bool:
        """Whether a queue was taken from it before `latest`, and it has not let go."""
        return any(each.at < latest for each in self.leaving.values())


@dataclass(frozen=True, slots=True)
class Ended:
    """A session that is over."""

    session: str
    at: float
