"""The actions that a follower's core asks for. Results come back with the same `life`."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from contract.following import Asked, QueueT

BatchT = TypeVar("BatchT")


@dataclass(frozen=True, slots=True)
class AskCoordinator(Generic[QueueT]):
    """Send a request to the coordinator. One is under way at a time."""

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
    """Store the offset that is read next, at the brokers or with the user's data."""

    queue: QueueT
    life: int
    offset: int
    is_again: bool = False
    """The offset is stored already, so one attempt is enough, and it may fail."""


@dataclass(frozen=True, slots=True)
class Abandon(Generic[QueueT]):
    """Give up whatever is under way for a queue. Its results count for nothing."""

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
