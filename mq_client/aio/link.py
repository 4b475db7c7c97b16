"""
One connection in an event loop. asyncio reads directly into the buffer of our `FrameReader`.

The first failure ends a link. A later request to the same address opens a new link.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from mq_client import errors
from mq_client.acl import Credentials
from mq_client.commands.base import Request
from mq_client.connection import Connection
from mq_client.directory import split_address
from mq_client.frames import Frame

Waiter = asyncio.Future[Frame]


class Link(asyncio.BufferedProtocol):
    """A connection to one address, and the requests in flight on it."""

    def __init__(
        self,
        address: str,
        pushed: Callable[[Frame], None],
        credentials: Credentials | None,
    ) -> None:
        """Prepare the link; `open` connects it."""
        self.address = address
        self.is_over = False
        self._why_over = ""
        self.used_at = 0.0
        self._pushed = pushed
        self._conversation: Connection[Waiter] = Connection(credentials)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight."""
        return self._conversation.is_idle

    async def open(self, tls: ssl.SSLContext | None, seconds: float) -> None:
        """Connect, or raise a `ConnectionLostError`."""
        host, port = split_address(self.address)
        try:
            async with asyncio.timeout(seconds):
                await self._loop.create_connection(lambda: self, host, port, ssl=tls)
        except (
            OSError,
            TimeoutError,
            UnicodeError,
        ) as error:  # UnicodeError: IDNA rejects the name
            self.is_over = True
            raise errors.ConnectionLostError(str(error) or f"not within {seconds:g} s") from error

    async def request(self, request: Request[Any], seconds: float) -> Frame:
        """Send a request and wait for its answer."""
        self._refuse_if_over()
        now = self.used_at = self._loop.time()
        waiter: Waiter = self._loop.create_future()
        self._write(self._conversation.request(request, waiter, now, now + seconds))
        timer = self._loop.call_later(seconds, self._expire)
        try:
            return await waiter
        finally:
            timer.cancel()

    def tell(self, request: Request[Any]) -> None:
        """Send a request that gets no answer."""
        self._refuse_if_over()
        self.used_at = self._loop.time()
        self._write(self._conversation.tell(request))

    def drop(self) -> None:
        """End the connection as if the peer were gone: requests in flight may be repeated."""
        self._end(errors.ConnectionLostError("the client gave the connection up"))

    def close(self) -> None:
        """End the connection. Requests in flight fail."""
        self._end(errors.ClosedError("the client was closed"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for writing. Called by asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.used_at = self._loop.time()  # otherwise it would count as idle before its first use

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes. Called by asyncio."""
        return self._conversation.reader.get_space()

    def buffer_updated(self, nbytes: int) -> None:
        """Read the frames that are complete with the new bytes. Called by asyncio."""
        try:
            replies = self._conversation.receive(
                nbytes,
                self._loop.time(),
                _deliver,
                self._pushed,
            )
        except errors.ProtocolError as error:
            self._end(errors.ConnectionLostError(str(error)))
        else:
            if replies:
                self._write(replies)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the requests in flight. Called by asyncio."""
        reason = str(exc) if exc else "the peer closed the connection"
        self._end(errors.ConnectionLostError(reason))

    def _expire(self) -> None:
        late, is_silent = self._conversation.expire(self._loop.time())
        for waiter in late:
            if not waiter.done():
                waiter.set_exception(errors.DeadlineError("no answer in time"))
        if is_silent:
            reason = "the peer sent nothing while a request waited for its answer"
            self._end(errors.ConnectionLostError(reason))

    def _refuse_if_over(self) -> None:
        if self.is_over:
            raise errors.ConnectionLostError(self._why_over)

    def _write(self, data: bytes) -> None:
        assert self._transport is not None, "a link was used before it was open"
        self._transport.write(data)

    def _end(self, why: errors.MqError) -> None:
        if not self.is_over:
            self.is_over, self._why_over = True, str(why)
        if self._transport is not None:
            self._transport.abort()
        for waiter in self._conversation.end():
            if not waiter.done():
                waiter.set_exception(why)


def _deliver(waiter: Waiter, frame: Frame) -> None:
    if not waiter.done():
        waiter.set_result(frame)
