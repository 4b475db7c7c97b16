"""
Runs the user's handler: on the event loop, in threads, or in separate processes.

If a call raises an exception, this exception is the result of the call. It does not end the
follower.
"""

import asyncio
import concurrent.futures
import contextlib
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

Outcome = BaseException | None
"""The exception that a call raised; None if it raised none."""
Call = concurrent.futures.Future[Outcome] | asyncio.Task[Outcome]


class Holding(Protocol):
    """What the member holds while a call runs: a queue, or messages."""

    def may_act(self) -> bool:
        """Return whether this process still holds it, by its clock. Thread-safe."""


class Caller(Protocol):
    """Begins calls of one handler."""

    def begin(self, holding: Holding, arguments: Sequence[Any]) -> Call:
        """
        Begin a call.

        The call may wait, for example for a thread. Afterwards, the handler runs only if the member
        still holds the queue.
        """

    async def close(self) -> None:
        """Begin no further call."""


class OnLoop:
    """Calls a coroutine function."""

    def __init__(self, handler: Callable[..., Any]) -> None:
        """Call nothing yet."""
        self._handler = handler

    def begin(self, holding: Holding, arguments: Sequence[Any]) -> Call:
        """Begin a call. The caller has just checked that the member holds the queue."""
        return asyncio.create_task(self._call(arguments))

    async def close(self) -> None:
        """Do nothing: tasks end with the loop."""

    async def _call(self, arguments: Sequence[Any]) -> Outcome:
        try:
            await self._handler(*arguments)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever the user's code raises
            return error
        return None


class InThreads:
    """
    Calls a plain function in a thread.

    A thread cannot be stopped, so a call may continue after the member has released the queue.
    """

    def __init__(self, handler: Callable[..., Any], threads: int) -> None:
        """Start no thread yet."""
        self._handler = handler
        self._threads = concurrent.futures.ThreadPoolExecutor(threads, "handler")
        self._process = os.getpid()

    def begin(self, holding: Holding, arguments: Sequence[Any]) -> Call:
        """Begin a call as soon as a thread is free."""
        return self.run(holding, self._handler, arguments)

    def run(self, holding: Holding, function: Callable[..., Any], arguments: Sequence[Any]) -> Call:
        """Call another function in the same way."""
        return self._threads.submit(self._call, holding, function, arguments)

    async def close(self) -> None:
        """Begin no further call. Running calls continue."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _call(
        self, holding: Holding, function: Callable[..., Any], arguments: Sequence[Any]
    ) -> Outcome:
        # The call may have waited for a thread, so check again that the member holds the queue.
        if not holding.may_act():
            return None
        try:
            function(*arguments)
        except BaseException as error:  # noqa: BLE001  # an error must not end the thread
            return error
        finally:
            end_if_forked(self._process)
        return None


def end_if_forked(parent: int) -> None:
    """End this process if the handler has forked it: only the parent must continue to follow."""
    if os.getpid() != parent:
        os._exit(0)


def is_coroutine_function(handler: object) -> bool:
    """Whether a call of the handler must be awaited."""
    call = getattr(handler, "__call__", None)  # noqa: B004  # may be a method of its class
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


async def wait_for_end(call: Call) -> None:
    """Wait until a call has ended in any way. Cancelling the wait does not stop the call."""
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
