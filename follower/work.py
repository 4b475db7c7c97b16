"""The work on one queue on the event loop, as long as the member holds the queue."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from follower.clock import clock
from follower.options import Retries
from follower.pieces import Piece
from follower.popping.in_flight import InFlight
from follower.positions import MovedOnError, Step
from mq_client.pulling import Position
from mq_client.values import MessageQueue

log = logging.getLogger("evenkeel.follower")


class OverError(Exception):
    """The member no longer holds the queue, so the work on it must not continue."""


@dataclass(slots=True, eq=False)
class Work:
    """What is in progress for a queue, during one period in which the member holds the queue."""

    queue: MessageQueue
    life: int
    group: str
    """RocketMQ's name of the group."""
    is_session_live: Callable[[], bool]
    position: Position | None = None
    """None until the first offset is known, and if the queue is popped."""
    in_flight: InFlight | None = None
    """The messages that were popped and not acknowledged yet; None if the queue is pulled."""
    retries: Retries | None = None
    """How often the handler gets a message. None: the member's own options say it."""
    stored: int | None = None
    """The offset in the handler's own store. None if there is no such store, or no offset in it."""
    pieces: deque[Piece] = field(default_factory=deque)
    """Pieces that were pulled, and not given to the core yet."""
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the queue must be released, so that pauses end."""
    at_end: Callable[[], None] = lambda: None
    """Called when the member no longer holds the queue."""
    is_over: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def may_act(self) -> bool:
        """Return whether this process still holds the queue, by its clock. Thread-safe."""
        return not self.is_over and self.is_session_live()

    def check(self) -> None:
        """Raise an `OverError` if this process no longer holds the queue."""
        if not self.may_act():
            raise OverError

    def refuse_if_late(self) -> None:
        """Raise a `MovedOnError` if others may have got the messages that were popped."""
        if self.in_flight is not None and self.in_flight.is_late(clock()):
            raise MovedOnError("the popped messages were not renewed in time")

    def make_step(self, stop: int) -> Step:
        """Make the step that tells the handler how far to move the position of this queue."""
        return Step(self.group, self.queue, self.stored, stop)

    def start(self, step: Coroutine[Any, Any, None]) -> None:
        """Run a step until it ends, or `end` is called."""
        task = asyncio.create_task(step)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    def end(self) -> None:
        """Give up everything that is in progress."""
        self.is_over = True
        self.pieces.clear()
        for task in self._tasks:
            task.cancel()
        self.at_end()

    async def pause(self, seconds: float) -> None:
        """Wait for this time, or until the queue must be released."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.leaving.wait()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, OverError):
            log.error("%s: a bug in the follower; the queue stands still", self.queue,
                      exc_info=error)  # fmt: skip
