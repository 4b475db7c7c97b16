"""
The actions that a follower's core requests.

An action on a queue has a `life`: the number of the holding of the queue that it belongs to. The
caller reports the result of the action with the same `life`.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from contract.following import Asked, QueueT

BatchT = TypeVar("BatchT")


@dataclass(frozen=True, slots=True)
class AskCoordinator(Generic[QueueT]):
    """Send a request to the coordinator. It replaces an older request that still waits."""

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
    """Commit an offset to the brokers: the offset that is read next."""

    queue: QueueT
    life: int
    offset: int
    is_again: bool = False
    """Whether the offset is stored already. Then one attempt is enough, and it may fail."""


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
