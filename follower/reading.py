"""The work on a queue while the member holds it: locate, pull, handle, commit, release."""

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from contract.following import QueueT
from follower.actions import Action, Commit, Handle, PullQueue
from follower.pace import CommitPace

MOST_WAITING = 1
"""How many batches wait while the handler is busy. It can then begin the next one at once."""


class Spans(Protocol):
    """The part of a batch that the core uses."""

    @property
    def stop(self) -> int:
        """The offset after the batch's last message."""


SpanT = TypeVar("SpanT", bound=Spans)


@dataclass(slots=True)
class QueueReading(Generic[QueueT, SpanT]):
    """
    What is in progress for one queue.

    At most one pull, one call of the handler and one commit are in progress at a time, so the order
    within the queue is kept. Unless the pace has `calls_during_commit`, the handler is not called
    while a commit waits for its answer. So if the member is cut off, only the messages of its last
    call are handled again.

    Each time the member begins to hold the queue, the core makes a new object with a new number,
    the `life`. So the core can recognise and ignore earlier results.
    """

    queue: QueueT
    life: int
    pace: CommitPace
    leave_by: float | None = None
    """When the queue must be released at the latest; None while it is granted."""
    pulled_to: int | None = None
    """The offset to pull next; None until the first offset is known."""
    handled_to: int | None = None
    committed_to: int | None = None
    waiting: deque[SpanT] = field(default_factory=deque)
    is_pulling: bool = False
    is_handling: bool = False
    is_committing: bool = False
    is_halted: bool = False
    """The handler gave up. The member still holds the queue, but does not read it any further."""

    @property
    def is_leaving(self) -> bool:
        """Whether the queue must be released."""
        return self.leave_by is not None

    @property
    def is_dirty(self) -> bool:
        """Whether something was handled that is not committed."""
        return self.handled_to != self.committed_to

    @property
    def is_clear(self) -> bool:
        """Whether nothing is in progress that the next holder would have to wait for."""
        return not (self.is_handling or self.is_committing or self.is_dirty)

    def locate(self, offset: int) -> list[Action[QueueT, SpanT]]:
        """Begin to read at this offset."""
        self.pulled_to = self.handled_to = self.committed_to = offset
        return self.advance()

    def take(self, batch: SpanT | None) -> list[Action[QueueT, SpanT]]:
        """Take the batch that a pull returned. None: the pull has returned none."""
        self.is_pulling = False
        if batch is not None and not self.is_leaving and not self.is_halted:
            self.pulled_to = batch.stop
            self.waiting.append(batch)
        return self.advance()

    def finish(self, stop: int) -> list[Action[QueueT, SpanT]]:
        """Note that the handler has finished everything below `stop`."""
        self.is_handling = False
        self.handled_to = stop
        return self.advance()

    def halt(self, stop: int) -> list[Action[QueueT, SpanT]]:
        """Stop reading: the handler gave up, and everything below `stop` is finished."""
        self.is_halted = True
        self.waiting.clear()
        return self.finish(stop) + self.commit()

    def note_commit(self, offset: int) -> list[Action[QueueT, SpanT]]:
        """Note that this offset is stored."""
        self.is_committing = False
        self.committed_to = offset
        return self.advance()

    def leave(self, leave_by: float, is_again: bool) -> list[Action[QueueT, SpanT]]:
        """Prepare the release: begin nothing new. A running call may finish until `leave_by`."""
        self.leave_by = leave_by
        self.waiting.clear()
        return self.commit(is_again and not self.is_handling)

    def commit(self, is_again: bool = False) -> list[Action[QueueT, SpanT]]:
        """
        Commit the offset up to which messages are handled.

        Do nothing while a commit is in progress. If the offset is stored already, do nothing unless
        `is_again` is set.
        """
        is_wanted = self.is_dirty or (is_again and not self.pace.is_at_once)
        if self.is_committing or not is_wanted or self.handled_to is None:
            return []
        self.is_committing = True
        return [Commit(self.queue, self.life, self.handled_to, not self.is_dirty)]

    def advance(self) -> list[Action[QueueT, SpanT]]:
        """Begin all work that can begin now."""
        if self.is_leaving:
            return self.commit() if not self.is_handling else []
        if self.is_halted:
            return []
        found = self.commit() if self.pace.is_at_once else []
        may_call = self.pace.calls_during_commit or not self.is_committing
        if self.waiting and may_call and not self.is_handling:
            self.is_handling = True
            found.append(Handle(self.queue, self.life, self.waiting.popleft()))
        if not self.is_pulling and len(self.waiting) < MOST_WAITING and self.pulled_to is not None:
            self.is_pulling = True
            found.append(PullQueue(self.queue, self.life, self.pulled_to))
        return found
