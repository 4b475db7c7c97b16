"""
Calls the user's handler in separate processes, for CPU-bound handlers.

A process has one call at a time. If a process dies, its call counts as failed, and the process is
replaced before the next call. When the member no longer holds a queue, a process that is still busy
with the queue's messages is killed. A thread cannot be killed in this way.
"""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

from follower import packing
from follower.calling import Call, Holding, Outcome
from follower.positions import MovedOnError

END_SECONDS = 1.0
"""A process that has closed its socket, but has not ended after this time, is killed."""


class HandlerProcessError(Exception):
    """The handler raised an error in its process, or the process ended."""


class HandlerProcess:
    """One process at a time, started when it is needed."""

    def __init__(self, place: str) -> None:
        """Start nothing yet."""
        self._place = place
        self._process: asyncio.subprocess.Process | None = None
        self._ended: asyncio.Task[int] | None = None
        self._endings: set[asyncio.Task[int]] = set()
        """Tasks that wait for the current and earlier processes to end."""
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def call(self, arguments: Sequence[Any]) -> Outcome:
        """Make a call, and return its outcome. If the call is cancelled, kill the process."""
        try:
            if self._ended is None or self._ended.done():
                await self._start()
            answer = await self._ask(arguments)
        except (OSError, EOFError) as error:
            return HandlerProcessError(
                f"the handler's process {await self._explain_end()}: {error!r}"
            )
        except BaseException:
            self.kill()
            raise
        if answer is None:
            return None
        is_moved_on, text, trace = answer
        found = MovedOnError(text) if is_moved_on else HandlerProcessError(text)
        found.__cause__ = HandlerProcessError(f"in the handler's process:\n{trace}")
        return found

    def kill(self) -> None:
        """End the process, whatever it does."""
        if self._writer is not None:
            self._writer.close()
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        self._process = self._ended = self._writer = None

    async def close(self) -> None:
        """End the process, and wait for its end."""
        self.kill()
        await asyncio.gather(*self._endings)

    async def _start(self) -> None:
        self.kill()
        ours, theirs = socket.socketpair()
        with theirs:
            self._reader, self._writer = await asyncio.open_connection(sock=ours)
            program = (
                f"import sys; sys.path[:] = {sys.path!r}; from follower import process_main; "
                f"process_main.main({self._place!r}, {theirs.fileno()}, {os.getpid()})"
            )
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", program, pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
        self._ended = asyncio.create_task(self._process.wait())
        self._endings.add(self._ended)
        self._ended.add_done_callback(self._endings.discard)

    async def _ask(self, arguments: Sequence[Any]) -> Any:
        assert self._writer is not None
        assert self._ended is not None
        messages, *step = arguments
        self._writer.write(packing.pack((packing.pack_messages(messages), step)))
        reading = asyncio.create_task(self._read())
        try:
            # Wait for the process to end too: if it has forked, a child may keep the socket open.
            await asyncio.wait([reading, self._ended], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                raise EOFError("it had not answered")
            return reading.result()
        finally:
            reading.cancel()

    async def _read(self) -> Any:
        assert self._reader is not None
        (size,) = packing.LENGTH.unpack(await self._reader.readexactly(packing.LENGTH.size))
        return packing.unpack(await self._reader.readexactly(size))

    async def _explain_end(self) -> str:
        ended = self._ended
        if ended is None:
            return "could not be started"
        await asyncio.wait([ended], timeout=END_SECONDS)
        self.kill()
        code = await ended
        return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"


class InProcesses:
    """Calls a handler in a fixed number of processes."""

    def __init__(self, place: str, processes: int) -> None:
        """Start no process yet."""
        self._processes = [HandlerProcess(place) for _ in range(processes)]
        self._free: asyncio.LifoQueue[HandlerProcess] | None = None

    def begin(self, holding: Holding, arguments: Sequence[Any]) -> Call:
        """Begin a call as soon as a process is free."""
        return asyncio.create_task(self._call(holding, arguments))

    async def close(self) -> None:
        """Kill all processes."""
        await asyncio.gather(*(each.close() for each in self._processes))

    async def _call(self, holding: Holding, arguments: Sequence[Any]) -> Outcome:
        if self._free is None:
            self._free = asyncio.LifoQueue()  # the process that was used last is warm
            for each in self._processes:
                self._free.put_nowait(each)
        process = await self._free.get()
        try:
            # The call may have waited for a process, so check again that the queue is still held.
            return await process.call(arguments) if holding.may_act() else None
        finally:
            self._free.put_nowait(process)
