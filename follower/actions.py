"""
The actions that a follower's core requests.

Each time the member begins to hold a queue, the core chooses a new number, the `life`. An action on
the queue has this number, and the caller reports the result of the action with the same number.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from contract.following import Asked, QueueT

BatchT = TypeVar("BatchT")


@dataclass(frozen=True, slots=True)
class AskCoordinator(Generic[QueueT]):
    """Send a request to the coordinator. It replaces an older request that has no answer yet."""

    asked: Asked[QueueT]


@dataclass(frozen=True, slots=True)
class Locate(Generic[QueueT]):
    """Find the offset at which reading a queue begins."""

    queue: QueueT
    life: int


@dataclass(frozen=True, slots=True)
class PullQueue(Generic[QueueT]):
    """Pull the next messages of a queue; wait for them if there are none."""

    queue: QueueT
    life: int
    offset: int


@dataclass(frozen=True, slots=True)
class Handle(Generic[QueueT, BatchT]):
    """Give a batch to the user's handler."""

    queue: QueueT
    life: int
    batch: BatchT


@dataclass(frozen=True, slots=True)
class Commit(Generic[QueueT]):
    """Commit an offset to the brokers: the offset that the group reads next."""

    queue: QueueT
    life: int
    offset: int
    is_again: bool = False
    """Whether the offset is stored already. Then one attempt is enough, even if it fails."""


@dataclass(frozen=True, slots=True)
class Abandon(Generic[QueueT]):
    """Give up all work in progress for a queue. The results of that work are ignored."""

    queue: QueueT
    life: int


Action = (
    AskCoordinator[QueueT]
    | Locate[QueueT]
    | PullQueue[QueueT]
    | Handle[QueueT, BatchT]
    | Commit[QueueT]
    | Abandon[QueueT]
)
