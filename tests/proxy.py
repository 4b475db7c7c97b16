"""
A relay on loopback in front of a real server, with the faults of networks: delays, losses, resets.

`with Proxy("127.0.0.1:9876") as proxy` relays from `proxy.address`. `swallows` says which bytes are
lost: the connection looks alive, but nothing comes through (a half-open connection). Between `hold`
and `let_go` nothing comes through either, but nothing is lost. Connections are reset as long as the
proxy has no `target`.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self

Take = Callable[[bytes], None]


class Proxy:
    """A relay that runs in its own thread until the block ends."""

    def __init__(self, target: str) -> None:
        self.delay_seconds = 0.0
        self.swallows = False
        self.connections = 0
        self.target = target
        self._loop = asyncio.new_event_loop()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.address = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Reset all connections; new ones are accepted."""
        self._do(self._cut())

    def hold(self) -> None:
        """Hold all bytes back; peers stop sending when the kernel's buffers are full."""
        self._loop.call_soon_threadsafe(self._is_open.clear)

    def let_go(self) -> None:
        """Pass on everything that was held back."""
        self._loop.call_soon_threadsafe(self._is_open.set)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _end(self) -> None:
        self._server.close()
        await self._cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _relay(
        self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        self.connections += 1
        host, _, port = self.target.rpartition(":")
        if not host:
            to_client.transport.abort()
            return
        from_peer, to_peer = await asyncio.open_connection(host, int(port))
        self._writers |= {to_client, to_peer}
        of_client, of_peer = self._takers(to_client, to_peer)
        for reader, take, writer in (
            (from_client, of_client, to_peer), (from_peer, of_peer, to_client)
        ):  # fmt: skip
            task = asyncio.create_task(self._pass_on(reader, take, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _takers(
        self, to_client: asyncio.StreamWriter, to_peer: asyncio.StreamWriter
    ) -> tuple[Take, Take]:
        """Return the functions that take the bytes of client and peer, and pass these bytes on."""
        return to_peer.write, to_client.write

    async def _pass_on(
        self, reader: asyncio.StreamReader, take: Take, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await asyncio.sleep(self.delay_seconds)
                await self._is_open.wait()
                if not self.swallows:
                    take(data)
                    await writer.drain()
        writer.transport.abort()
        self._writers.discard(writer)
