"""
Accepts connections of members, and limits their number and the time until their first request.

A connection is opening (its TLS handshake is in progress), busy (a request is being answered) or
idle. If there are too many connections, a new one replaces the oldest opening connection or, if
none is opening, the connection that has been idle longest. Busy connections are never closed for a
new one: if all are busy, the new connection is closed. So clients that open connections without
sending requests cannot displace clients that send them.
"""

import asyncio
import contextlib
import functools
import logging
import resource
import socket
import ssl
from asyncio import sslproto
from collections.abc import Iterator
from typing import ClassVar

from aiohttp import web
from aiohttp.web_protocol import RequestHandler as Handler

log = logging.getLogger("evenkeel")
MOST_CONNECTIONS = 4096
"""
Maximum number of connections. A member has one connection, and for a while a second one whenever
its queues change.
"""
MOST_OPENING = 256
"""
Maximum number of opening connections. A TLS handshake takes some milliseconds, and about 90 KiB of
memory while it lasts.
"""
OPEN_SECONDS = 5
"""Time limit for a TLS handshake."""
FIRST_HEAD_SECONDS = 5.0
"""
Time limit for the headers of a connection's first request. Later, aiohttp closes idle connections.
"""
BACKLOG = 1024
PAUSE_SECONDS = 0.5
"""Pause after an error, such as too many open files, before connections are accepted again."""


class Connections:
    """Accepts connections on a socket, and hands them to aiohttp."""

    def __init__(self, server: web.Server, tls: ssl.SSLContext | None) -> None:
        """Prepare without accepting connections."""
        self._server = server
        self._tls = tls
        self._most = max(1, min(MOST_CONNECTIONS, allow_open_files() // 2))
        self._opening: dict[asyncio.Task[None], None] = {}
        """The tasks that open connections. The oldest comes first, also in `_idle` and `_busy`."""
        self._idle: dict[Handler, asyncio.TimerHandle | None] = {}
        """Before its first request, a connection has a timer that closes it."""
        self._busy: dict[Handler, None] = {}

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._opening) + len(self._idle) + len(self._busy)

    async def accept(self, listening: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            failed: asyncio.Future[OSError] = loop.create_future()
            # A loop.sock_accept that is cancelled at the wrong moment loses an accepted connection.
            loop.add_reader(listening, self._accept, listening, failed)
            try:
                error = await failed
            finally:
                loop.remove_reader(listening)
            log.warning("a connection of a member cannot be accepted: %s", error)
            await asyncio.sleep(PAUSE_SECONDS)

    def _accept(self, listening: socket.socket, failed: asyncio.Future[OSError]) -> None:
        try:
            opened, _ = listening.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if not failed.done():
                failed.set_result(error)
            return
        opened.setblocking(False)
        is_full = len(self._opening) >= MOST_OPENING or len(self) >= self._most
        if is_full and not self._make_room():
            opened.close()
            return
        task = asyncio.create_task(self._open(opened), name="a member's connection")
        self._opening[task] = None
        task.add_done_callback(functools.partial(self._note_tried, opened))

    @contextlib.contextmanager
    def serve_request(self, request: web.Request) -> Iterator[None]:
        """Count the connection of a request as busy while the block runs."""
        handler = request.protocol
        timer = self._idle.pop(handler, None)
        if timer is not None:
            timer.cancel()
        self._busy[handler] = None
        try:
            yield
        finally:
            self._busy.pop(handler, None)
            if handler.transport is not None:
                self._idle[handler] = None

    async def close(self) -> None:
        """Close the connections that are opening; aiohttp closes the idle and the busy ones."""
        opening = list(self._opening)
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for timer in self._idle.values():
            if timer is not None:
                timer.cancel()

    def note_opened(self, handler: Handler, transport: asyncio.BaseTransport) -> None:
        """Limit the time until a connection has sent the headers of its first request."""
        close = asyncio.get_running_loop().call_later(FIRST_HEAD_SECONDS, _abort, transport)
        self._idle[handler] = close

    def note_closed(self, handler: Handler) -> None:
        """Forget a connection."""
        timer = self._idle.pop(handler, None)
        if timer is not None:
            timer.cancel()
        self._busy.pop(handler, None)

    async def _open(self, opened: socket.socket) -> None:
        protocol: asyncio.BaseProtocol = _Guarded(self, self._server())
        loop = asyncio.get_running_loop()
        is_open: asyncio.Future[None] = loop.create_future()
        if self._tls is None:
            is_open.set_result(None)
        else:
            protocol = _TlsProtocol(
                loop, protocol, self._tls, is_open, server_side=True,
                ssl_handshake_timeout=OPEN_SECONDS, ssl_shutdown_timeout=OPEN_SECONDS,
            )  # fmt: skip
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, opened)
        try:
            await is_open
        except (OSError, asyncio.CancelledError):  # an ssl.SSLError is an OSError
            transport.abort()

    def _note_tried(self, opened: socket.socket, task: asyncio.Task[None]) -> None:
        """Close the socket of a cancelled task, which may not even have started."""
        self._opening.pop(task, None)
        if task.cancelled():
            opened.close()

    def _make_room(self) -> bool:
        """Close the oldest opening or the longest idle connection; return False if all are busy."""
        opening = next(iter(self._opening), None)
        if opening is not None:
            del self._opening[opening]
            opening.cancel()
            return True
        idle = next(iter(self._idle), None)
        if idle is None:
            return False
        transport = idle.transport
        self.note_closed(idle)
        if transport is not None:
            _abort(transport)
        return True


def allow_open_files() -> int:
    """
    Return how many files this process may open. Raise the limit if it is too low.

    Many container runtimes set a soft limit of 1,024, which any process may raise to its hard
    limit. Half of the files are for members; the rest are for the API server and for brokers.
    """
    wanted = 2 * MOST_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


class _TlsProtocol(sslproto.SSLProtocol):
    """
    TLS with a small buffer.

    asyncio gives each connection a buffer of 256 KiB and initializes all of it. With 4,096
    connections, this would be more memory than the operator has. Requests of members are small.
    """

    max_size: ClassVar[int] = 16 * 1024


class _Guarded(asyncio.Protocol):
    """Passes everything to aiohttp, and tells `Connections` when a connection begins and ends."""

    def __init__(self, connections: Connections, handler: Handler) -> None:
        self._connections = connections
        self._handler = handler

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._handler.connection_made(transport)
        self._connections.note_opened(self._handler, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.note_closed(self._handler)
        self._handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        self._handler.eof_received()
        return None

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()


def _abort(transport: asyncio.BaseTransport) -> None:
    assert isinstance(transport, asyncio.Transport)
    transport.abort()
