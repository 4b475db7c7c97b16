"""
Calls the user's function, which may be async, and reports calls that do not return.

Only a few calls of a plain function run at the same time: Python runs one thread at a time, and the
task's heartbeats must not wait for many threads. A call that lasts long is probably waiting for
something, so it no longer counts against this limit. So calls that never return delay only the
queues of their messages.

Coroutines run on an event loop in a separate thread. If the user's code blocks this loop, it delays
other calls of the function, but no heartbeats.
"""

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from mq_client.values import MessageQueue

Function = Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]
"""
The user's function, with the signature that `DataFrame.mapInArrow` needs. A call gets rows of one
queue, or if they were popped, of some queues of one broker.

The function can also be a coroutine function or an async generator. A class without arguments can
take the place of the function: then each task makes one instance, and calls that instance.
"""
MOST_CALLS = 4
"""Maximum number of concurrent calls of a plain function. Calls that last long do not count."""
LONG_SECONDS = 1.0
ENDLESS_SECONDS = 60.0


@dataclass(slots=True, eq=False)
class RunningCall:
    """A call that has not returned."""

    queue: MessageQueue
    begin: int
    """The offset of the call's first message."""
    counts: bool = True
    """Whether the call counts against `MOST_CALLS`."""
    is_reported: bool = False
    since: float = field(default_factory=time.monotonic)


class UsersCalls:
    """All calls of a task's function."""

    def __init__(self, function: Function | None) -> None:
        """Call nothing yet. If the function is a class, make the instance."""
        made: Any = function
        self._function: Any = made() if isinstance(made, type) else made
        self._loop: asyncio.AbstractEventLoop | None = None
        self._may_begin = threading.Condition()
        """Guards all fields below."""
        self._running: list[RunningCall] = []

    def call(self, queue: MessageQueue, begin: int, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Call the function with rows of a queue, from the offset `begin` on."""
        if self._function is None:
            return [rows]
        running = self._begin(queue, begin)
        try:
            found = self._function(iter([rows]))
            if inspect.isawaitable(found) or hasattr(found, "__aiter__"):
                self._count_no_longer(running)
                return self._run(_collect(found))
            return list(found)
        finally:
            self._count_no_longer(running)
            self._running.remove(running)

    def find_endless(self) -> list[RunningCall]:
        """Stop counting long calls. List calls that may never return, and list each only once."""
        now, found = time.monotonic(), []
        for each in list(self._running):
            if now - each.since > LONG_SECONDS:
                self._count_no_longer(each)
            if now - each.since > ENDLESS_SECONDS and not each.is_reported:
                each.is_reported = True
                found.append(each)
        return found

    def close(self) -> None:
        """End the event loop of coroutines. Drop coroutines that still run."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _begin(self, queue: MessageQueue, begin: int) -> RunningCall:
        with self._may_begin:
            self._may_begin.wait_for(
                lambda: sum(each.counts for each in self._running) < MOST_CALLS
            )
            running = RunningCall(queue, begin)
            self._running.append(running)
            return running

    def _count_no_longer(self, running: RunningCall) -> None:
        with self._may_begin:
            if running.counts:
                running.counts = False
                self._may_begin.notify()

    def _run(self, work: Coroutine[Any, Any, list[pa.RecordBatch]]) -> list[pa.RecordBatch]:
        with self._may_begin:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_keep_running, args=(self._loop,), daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


async def _collect(found: Any) -> list[pa.RecordBatch]:
    if hasattr(found, "__aiter__"):
        return [batch async for batch in found]
    return list(await found)
