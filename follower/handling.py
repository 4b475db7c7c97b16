"""
Calls the user's handler, and decides what a failure means.

A queue has one call at a time, so order is kept within it. A call that failed with several messages
is made again with each of them alone: only the one that fails is held up.

A handler that is no coroutine runs in a thread. Nobody can stop a thread: when the holding of its
queue is over, its result is dropped, and the same queue is not handled here again before it ends.
"""

import asyncio
import concurrent.futures
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from follower.brake import Brake
from follower.brokers import place_of
from follower.metrics import Metrics
from follower.options import FollowerOptions, OnFailure
from follower.pauses import make_pauses
from follower.pieces import Piece
from follower.work import Work
from mq_client import errors
from mq_client.messages import StoredMessage
from mq_client.values import MessageQueue

log = logging.getLogger("evenkeel.follower")

Handler = Callable[[Sequence[StoredMessage]], Any]
"""It gets messages of one queue in their order. A coroutine function, or a plain one."""
Bury = Callable[[Work, StoredMessage], Awaitable[None]]
"""Stores a message in the dead-letter topic."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
Call = concurrent.futures.Future[BaseException | None] | asyncio.Task[BaseException | None]


class HaltError(Exception):
    """The queue cannot go on behind this offset now."""

    def __init__(self, stop: int) -> None:
        """Tell up to where everything is finished."""
        super().__init__(f"halted at offset {stop}")
        self.stop = stop


class Handling:
    """All calls of one handler."""

    def __init__(self, handler: Handler, options: FollowerOptions, metrics: Metrics) -> None:
        """Call nothing yet."""
        self._handler = handler
        self._options = options
        self._metrics = metrics
        self._brake = Brake(log)
        self._is_async = is_coroutine_function(handler)
        self._threads = concurrent.futures.ThreadPoolExecutor(options.threads, "handler")
        self._calls: dict[MessageQueue, Call] = {}
        """The newest call of each queue, which may be of an earlier holding."""

    @property
    def stuck(self) -> list[MessageQueue]:
        """The queues whose handler is still running."""
        return sorted(queue for queue, call in self._calls.items() if not call.done())

    def close(self) -> None:
        """Begin no further call. A thread that runs goes on."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def handle(self, work: Work, piece: Piece, bury: Bury) -> None:
        """Handle a piece to its end, or raise a `HaltError`."""
        if piece.unreadable is not None:
            where = place_of(work.queue, piece.first)
            trouble = f"{where} cannot be read: {piece.unreadable.reason}"
            await self._give_up(work, piece.first, piece.unreadable.message, trouble, bury)
            return
        if not piece.messages:
            return
        error = await self._call(work, piece.messages)
        if error is None:
            return
        log.warning(
            "%s: the handler failed with %d messages from offset %d on: %s",
            work.queue, len(piece.messages), piece.messages[0].queue_offset, _brief(error),
            exc_info=error,
        )  # fmt: skip
        first_failures = 1 if len(piece.messages) == 1 else 0
        for single in piece.cut_singles():
            await self._handle_one(work, single, first_failures, error, bury)

    async def _handle_one(
        self, work: Work, piece: Piece, failures: int, error: BaseException, bury: Bury
    ) -> None:
        """Try one message until it is handled, or has failed too often."""
        (message,) = piece.messages
        pauses = make_pauses(FIRST_PAUSE, LONGEST_PAUSE)
        found: BaseException | None = error if failures else None
        while failures < self._options.attempts:
            if failures:
                await work.pause(next(pauses))
            if work.leaving.is_set():
                raise HaltError(message.queue_offset)
            found = await self._call(work, piece.messages)
            if found is None:
                self._brake.clear(work.queue, f"{work.queue}: the handler goes on")
                return
            failures += 1
            where = place_of(work.queue, message.queue_offset)
            self._brake.say(
                work.queue,
                f"{where}: the handler failed {failures} times of {self._options.attempts}: "
                f"{_brief(found)}",
            )
        self._brake.forget(work.queue)
        where = place_of(work.queue, message.queue_offset)
        trouble = f"{where}: the handler failed {failures} times, at last by {_brief(found)}"
        await self._give_up(work, message.queue_offset, message, trouble, bury)

    async def _give_up(
        self, work: Work, offset: int, message: StoredMessage, trouble: str, bury: Bury
    ) -> None:
        match self._options.on_failure:
            case OnFailure.STOP:
                log.error(
                    "%s; the queue stands still there (--on-failure stop) until this member "
                    "starts again, or another one gets the queue", trouble,
                )  # fmt: skip
                raise HaltError(offset)
            case OnFailure.SKIP:
                log.error("%s; it is skipped (--on-failure skip)", trouble)
                self._metrics.given_up.labels("skipped").inc()
            case OnFailure.DEAD_LETTER:
                await self._bury(work, offset, message, trouble, bury)
                log.error("%s; it is in the dead-letter topic", trouble)
                self._metrics.given_up.labels("dead-letter").inc()

    async def _bury(
        self, work: Work, offset: int, message: StoredMessage, trouble: str, bury: Bury
    ) -> None:
        key = (work.queue, "bury")
        for pause in make_pauses(FIRST_PAUSE, LONGEST_PAUSE):
            try:
                await bury(work, message)
            except errors.UsageError as error:
                log.error("%s; no dead letter can be made of it: %s; its queue stands still",
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

    async def _call(self, work: Work, messages: Sequence[StoredMessage]) -> BaseException | None:
        """Call the handler once; what it raised, if it did."""
        before = self._calls.get(work.queue)
        if before is not None and not before.done():
            self._brake.say(
                (work.queue, "before"),
                f"{work.queue}: the handler is still busy with messages of an earlier holding, "
                "so the queue waits",
            )
            await _end_of(before)
        self._brake.forget((work.queue, "before"))
        work.check()
        call: Call
        if self._is_async:
            call = asyncio.create_task(self._call_async(messages))
        else:
            call = self._threads.submit(self._call_in_thread, work, messages)
        self._calls[work.queue] = call
        try:
            await _end_of(call)
        except asyncio.CancelledError:
            call.cancel()
            raise
        work.check()
        if call.cancelled():
            error: BaseException | None = RuntimeError("the handler cancelled its own task")
        else:
            error = call.result()
        if error is None:
            self._metrics.handled.inc(len(messages))
        else:
            self._metrics.failures.inc()
        return error

    async def _call_async(self, messages: Sequence[StoredMessage]) -> BaseException | None:
        try:
            await self._handler(messages)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever the user's code raises
            return error
        return None

    def _call_in_thread(
        self, work: Work, messages: Sequence[StoredMessage]
    ) -> BaseException | None:
        # It may have waited for a thread, so the clock is looked at again.
        if not work.may_act():
            return None
        try:
            self._handler(messages)
        except BaseException as error:  # noqa: BLE001  # as above; nothing may end the thread
            return error
        return None


def is_coroutine_function(handler: object) -> bool:
    """Whether calling it gives something to await."""
    call = getattr(handler, "__call__", None)  # noqa: B004  # of an object whose class has one
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


async def _end_of(call: Call) -> None:
    """Wait until a call has ended, however it does. To give up waiting stops nothing."""
    if isinstance(call, concurrent.futures.Future):
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def tell(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended before the thread
                loop.call_soon_threadsafe(ended.set)

        call.add_done_callback(tell)
        await ended.wait()
    else:
        await asyncio.wait([call])


def _brief(error: BaseException | None) -> str:
    text = str(error).strip().partition("\n")[0][:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
