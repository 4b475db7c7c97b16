"""
Calls the user's handler, and decides what a failure means.

A queue has one call at a time, so the order within the queue is kept. If a call with several
messages fails, the handler is called again with each message alone, so only a message that fails
is delayed.

A handler that is not a coroutine function runs in a thread, which cannot be stopped. If the
follower no longer holds the queue, the thread's result is ignored, and this process does not handle
that queue again until the thread has ended.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from follower.brake import Brake
from follower.brokers import place_of
from follower.calling import (
    Call,
    Caller,
    Holding,
    InThreads,
    OnLoop,
    is_coroutine_function,
    wait_for_end,
)
from follower.metrics import Metrics
from follower.options import QUEUE_THREADS, FollowerOptions, OnFailure, Retries
from follower.pauses import make_pauses
from follower.pieces import DeadLetter, Messages, Piece
from follower.positions import MovedOnError, has_positions
from follower.processes import InProcesses
from follower.work import Work
from mq_client import errors
from mq_client.messages import StoredMessage
from mq_client.values import MessageQueue

log = logging.getLogger("evenkeel.follower")

Handler = Callable[..., Any]
"""
A plain function or a coroutine function. It gets messages of one queue in their order.

A handler that keeps positions gets a `Step` too.
"""
Bury = Callable[[Work, DeadLetter], Awaitable[None]]
"""Stores a message with the dead letters."""
TellHalt = Callable[[MessageQueue, int, str], None]
"""A function to call when reading of a queue stops, with the queue, the offset and the reason."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0


class HaltError(Exception):
    """The queue cannot continue at this offset now."""

    def __init__(self, stop: int) -> None:
        """Note that everything below the offset `stop` is finished."""
        super().__init__(f"halted at offset {stop}")
        self.stop = stop


class Handling:
    """All calls of one handler."""

    def __init__(
        self,
        handler: Handler,
        options: FollowerOptions,
        metrics: Metrics,
        place: str = "",
        tell_halt: TellHalt = lambda queue, offset, trouble: None,
    ) -> None:
        """Call nothing yet. Processes import the handler by its `place`, MODULE:FUNCTION."""
        self._tell_halt = tell_halt
        self._handler = handler
        self._options = options
        self._metrics = metrics
        self._brake = Brake(log)
        self._threads = InThreads(handler, options.threads or QUEUE_THREADS)
        self._caller: Caller = self._threads
        if options.processes:
            self._caller = InProcesses(place, options.processes)
        elif is_coroutine_function(handler):
            self._caller = OnLoop(handler)
        self._keeps_positions = has_positions(handler)
        self._reads: dict[MessageQueue, Call] = {}
        self._calls: dict[MessageQueue, Call] = {}
        """The newest call of each queue. It may have begun before the queue was last granted."""
        self._begun: dict[Call, MessageQueue] = {}
        """The calls with single messages that have not ended, and the queue of the first one."""

    @property
    def stuck(self) -> list[MessageQueue]:
        """The queues whose handler is still running."""
        calls = [*self._calls.items(), *self._reads.items()]
        queues = {queue for queue, call in calls if not call.done()}
        return sorted(queues | {*self._begun.copy().values()})

    @property
    def keeps_positions(self) -> bool:
        """Whether the handler stores the positions of queues."""
        return self._keeps_positions

    def begin(self, holding: Holding, messages: Sequence[StoredMessage]) -> Call:
        """Begin one call of the handler, with messages of any queues. Nothing is tried again."""
        call = self._caller.begin(holding, (self._shape(messages),))
        first = messages[0]
        self._begun[call] = MessageQueue(first.topic, first.broker, first.queue_id)
        call.add_done_callback(lambda ended: self._begun.pop(ended, None))
        return call

    async def close(self) -> None:
        """Begin no further call. Running threads continue."""
        await self._caller.close()
        await self._threads.close()

    async def read_position(self, work: Work) -> None:
        """Ask a handler that keeps positions for its position in a queue."""
        if not self._keeps_positions:
            return
        read = self._handler.read_position  # type: ignore[attr-defined]  # checked by has_positions
        if inspect.iscoroutinefunction(read):
            found = await read(work.group, work.queue)
        else:
            found = await self._read_in_thread(work, read)
        if found is not None and (type(found) is not int or found < 0):
            raise TypeError(f"read_position has returned {found!r}, which is not an offset")
        work.stored = found

    async def _read_in_thread(self, work: Work, read: Callable[..., Any]) -> Any:
        found: list[Any] = []
        call = self._threads.run(work, lambda: found.append(read(work.group, work.queue)), ())
        self._reads[work.queue] = call
        await wait_for_end(call)
        work.check()
        error = call.result()
        if error is not None:
            raise error
        return found[0]

    async def handle(self, work: Work, piece: Piece, bury: Bury) -> None:
        """Handle all messages of a piece, or raise a `HaltError`."""
        if piece.unreadable is not None:
            where = place_of(work.queue, piece.first)
            trouble = f"{where} cannot be read: {piece.unreadable.reason}"
            letter = DeadLetter(piece.unreadable.message, piece.stop, trouble)
            await self._give_up(work, piece.first, letter, bury)
            return
        if not len(piece.messages) and not self._keeps_positions:
            return
        error = await self._call(work, piece)
        if error is None:
            return
        if not len(piece.messages):  # only the position had to move; the next call will move it
            self._brake.say((work.queue, "position"), f"{work.queue}: {describe_briefly(error)}")
            return
        log.warning(
            "%s: the handler failed with %d messages from offset %d on; now it gets each of these "
            "messages alone, up to %d times: %s",
            work.queue, len(piece.messages), piece.begin, self._find_retries(work).attempts,
            describe_briefly(error), exc_info=error,
        )  # fmt: skip
        first_failures = 1 if len(piece.messages) == 1 else 0
        for single in piece.cut_singles():
            await self._handle_one(work, single, first_failures, error, bury)

    async def _handle_one(
        self, work: Work, piece: Piece, failures: int, error: BaseException, bury: Bury
    ) -> None:
        """Call the handler with one message until it succeeds, or has failed too often."""
        offset, retries = piece.begin, self._find_retries(work)
        pauses = make_pauses(retries.first_pause, retries.longest_pause)
        found: BaseException | None = error if failures else None
        while failures < retries.attempts:
            if failures:
                await work.pause(next(pauses))
            if work.leaving.is_set():
                raise HaltError(offset)
            found = await self._call(work, piece)
            if found is None:
                self._brake.clear(work.queue, f"{work.queue}: the handler succeeds again")
                return
            failures += 1
            where = place_of(work.queue, offset)
            self._brake.say(
                work.queue,
                f"{where}: the handler failed in {failures} of {retries.attempts} attempts: "
                f"{describe_briefly(found)}",
            )
        self._brake.forget(work.queue)
        where = place_of(work.queue, offset)
        last = describe_briefly(found)
        trouble = f"{where}: the handler failed {failures} times, the last time: {last}"
        letter = DeadLetter(piece.read_message(), piece.stop, trouble)
        await self._give_up(work, offset, letter, bury)

    def _find_retries(self, work: Work) -> Retries:
        return work.retries or Retries(self._options.attempts, FIRST_PAUSE, LONGEST_PAUSE)

    async def _give_up(self, work: Work, offset: int, letter: DeadLetter, bury: Bury) -> None:
        trouble = letter.trouble
        match self._options.on_failure:
            case OnFailure.STOP:
                log.error(
                    "%s; the queue stands still at this message (--on-failure stop) until this "
                    "member starts again, or another member gets the queue", trouble,
                )  # fmt: skip
                self._tell_halt(work.queue, offset, trouble)
                raise HaltError(offset)
            case OnFailure.SKIP:
                log.error("%s; it is skipped (--on-failure skip)", trouble)
                self._metrics.given_up.labels("skipped").inc()
            case OnFailure.DEAD_LETTER:
                await self._bury(work, offset, letter, bury)
                log.error("%s; it is with the dead letters", trouble)
                self._metrics.given_up.labels("dead-letter").inc()

    async def _bury(self, work: Work, offset: int, letter: DeadLetter, bury: Bury) -> None:
        key, trouble = (work.queue, "bury"), letter.trouble
        for pause in make_pauses(FIRST_PAUSE, LONGEST_PAUSE):
            try:
                await bury(work, letter)
            except errors.UsageError as error:
                log.error("%s; it cannot be sent as a dead letter: %s; the queue stands still",
                          trouble, error)  # fmt: skip
                raise HaltError(offset) from error
            except errors.MqError as error:
                self._brake.say(key, f"{trouble}; the dead letter cannot be stored: {error}")
                await work.pause(pause)
                if work.leaving.is_set():
                    raise HaltError(offset) from error
            else:
                self._brake.clear(key, f"{work.queue}: the dead letter is stored")
                return

    async def _call(self, work: Work, piece: Piece) -> BaseException | None:
        """Call the handler once. Return the exception that it raised, or None."""
        before = self._calls.get(work.queue)
        if before is not None and not before.done():
            self._brake.say(
                (work.queue, "before"),
                f"{work.queue}: the handler is still busy with messages of an earlier holding, "
                "so the queue waits",
            )
            await wait_for_end(before)
        self._brake.forget((work.queue, "before"))
        work.check()
        step = (work.make_step(piece.stop),) if self._keeps_positions else ()
        call = self._caller.begin(work, (self._shape(piece.messages), *step))
        self._calls[work.queue] = call
        try:
            await wait_for_end(call)
        except asyncio.CancelledError:
            call.cancel()
            raise
        work.check()
        if call.cancelled():
            error: BaseException | None = RuntimeError("the handler cancelled its own task")
        else:
            error = call.result()
        if isinstance(error, MovedOnError):
            raise error
        if error is None:
            if self._keeps_positions:
                work.stored = piece.stop
            self._metrics.handled.inc(len(piece.messages))
        else:
            self._metrics.failures.inc()
        return error

    def _shape(self, messages: Messages) -> Messages:
        """Give popped messages, which are values, the form that the handler gets."""
        if not self._options.arrow or not isinstance(messages, Sequence):
            return messages
        from mq_client import columns

        return columns.convert(messages)


def describe_briefly(error: BaseException | None) -> str:
    """Write the kind of an error, and the first line of its text."""
    text = str(error).strip().partition("\n")[0][:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
