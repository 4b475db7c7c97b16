"""
One socket that never blocks: it connects, speaks TLS if told, writes what waits, reads frames.

A host's name is looked up by `names`, for that does block. A link is opened by its first request
and ends by its first failure; whoever needs the peer again opens another one. It is driven by the
engine, under the engine's lock.
"""

import contextlib
import os
import selectors
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from mq_client import errors
from mq_client.acl import Credentials
from mq_client.blocking.names import Names, Places
from mq_client.commands.base import Request
from mq_client.connection import NEVER, Connection
from mq_client.directory import host_and_port
from mq_client.frames import Frame

Waiter = Callable[[Frame | errors.MqError], None]
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class LinkState(Enum):
    """Where a link is in its life."""

    LOOKING_UP = "the host's name is looked up"
    CONNECTING = "connecting"
    SHAKING_HANDS = "TLS handshake"
    OPEN = "open"
    ENDED = "ended"


class Link:
    """A connection to one address, and the requests under way on it."""

    def __init__(
        self,
        address: str,
        selector: selectors.BaseSelector,
        pushed: Callable[[Frame], None],
        credentials: Credentials | None,
        tls: ssl.SSLContext | None,
        names: Names,
    ) -> None:
        """Prepare; nothing is sent before `open`."""
        self.address = address
        self.state = LinkState.LOOKING_UP
        self.used_at = 0.0
        self._connect_by = NEVER
        self._selector = selector
        self._pushed = pushed
        self._tls = tls
        self._names = names
        self._conversation: Connection[Waiter] = Connection(credentials)
        self._outbox: deque[memoryview] = deque()
        self._sock: socket.socket | None = None
        self._wants_to_write = False
        self._others: Iterator[tuple[Any, ...]] = iter(())
        self._why_ended = ""

    def open(self, now: float, seconds: float) -> None:
        """Start to connect, to the first address that the name has."""
        self._connect_by = now + seconds
        host, port = host_and_port(self.address)
        try:
            self._names.look_up(host, port, self._found)
        except (OSError, UnicodeError) as error:  # a name that IDNA refuses is the second
            self.end(f"the host is unknown: {error}")

    def _found(self, places: Places | OSError) -> None:
        if self.state is LinkState.ENDED:
            return
        if isinstance(places, OSError):
            self.end(f"the host is unknown: {places}")
            return
        self._others = iter(places)
        self._try_next("no address left")

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for anything here."""
        return self._conversation.is_idle

    @property
    def wakes_at(self) -> float:
        """When `tick` has something to do at the latest."""
        connect_by = self._connect_by if self._is_opening else NEVER
        return min(connect_by, self._conversation.next_deadline)

    @property
    def _is_opening(self) -> bool:
        return self.state in (LinkState.LOOKING_UP, LinkState.CONNECTING, LinkState.SHAKING_HANDS)

    def request(self, request: Request[Any], waiter: Waiter, now: float, deadline: float) -> None:
        """Send a request; the waiter is called once, with the answer or an error."""
        if self.state is LinkState.ENDED:
            waiter(errors.ConnectionLostError(self._why_ended))
            return
        self.used_at = now
        self._write(self._conversation.request(request, waiter, now, deadline))

    def tell(self, request: Request[Any], now: float) -> None:
        """Send a request that gets no answer."""
        if self.state is LinkState.ENDED:
            raise errors.ConnectionLostError(self._why_ended)
        self.used_at = now
        self._write(self._conversation.one_way(request))

    def ready(self, now: float) -> None:
        """Go on: the socket can be read or written."""
        try:
            match self.state:
                case LinkState.CONNECTING:
                    self._connected()
                case LinkState.SHAKING_HANDS:
                    self._shake_hands()
                case LinkState.OPEN:
                    self._flush()
                    self._read(now)
                case LinkState.LOOKING_UP | LinkState.ENDED:
                    pass
        except Exception as error:  # noqa: BLE001  # it ends this link, not the thread that leads
            if self.state is LinkState.CONNECTING:
                self._try_next(str(error))
            else:
                self.end(str(error))

    def tick(self, now: float) -> None:
        """End what took too long."""
        if self._is_opening and now >= self._connect_by:
            self.end(f"no connection in time, while {self.state.value}")
            return
        late, is_silent = self._conversation.expired(now)
        if is_silent:
            self._close()
        for waiter in late:
            waiter(errors.DeadlineError("no answer in time"))
        if is_silent:
            self.end("the peer was silent for the whole time of a request")

    def end(self, reason: str) -> None:
        """Close, and tell everybody who waits."""
        self._close()
        self._why_ended = reason
        for waiter in self._conversation.ended():
            waiter(errors.ConnectionLostError(reason))

    def _close(self) -> None:
        self.state = LinkState.ENDED
        if self._sock is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(self._sock)
            self._sock.close()
            self._sock = None

    def _try_next(self, reason: str) -> None:
        """Connect to the next address of the host, as a name may have several."""
        for family, kind, protocol, _, place in self._others:
            self._close()
            self.state = LinkState.CONNECTING
            try:
                self._sock = socket.socket(family, kind, protocol)
                self._sock.setblocking(False)
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with contextlib.suppress(BlockingIOError):
                    self._sock.connect(place)
            except OSError as error:
                reason = str(error)
                continue
            self._selector.register(self._sock, WRITE, self)
            return
        self.end(reason)

    def _connected(self) -> None:
        sock = self._open_socket()
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        if self._tls is None:
            self._opened()
            return
        self._selector.unregister(sock)
        host, _ = host_and_port(self.address)
        self._sock = self._tls.wrap_socket(
            sock, server_hostname=host, do_handshake_on_connect=False
        )
        self._selector.register(self._sock, READ | WRITE, self)
        self.state = LinkState.SHAKING_HANDS
        self._shake_hands()

    def _shake_hands(self) -> None:
        sock = self._open_socket()
        assert isinstance(sock, ssl.SSLSocket)
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            self._selector.modify(sock, READ, self)
        except ssl.SSLWantWriteError:
            self._selector.modify(sock, WRITE, self)
        else:
            self._opened()

    def _opened(self) -> None:
        self.state = LinkState.OPEN
        self._selector.modify(self._open_socket(), READ, self)
        self._flush()

    def _write(self, data: bytes) -> None:
        self._outbox.append(memoryview(data))
        if self.state is LinkState.OPEN:
            try:
                self._flush()
            except OSError as error:
                self.end(str(error))

    def _flush(self) -> None:
        """Write as much as the socket takes; the rest when it is ready again."""
        sock = self._open_socket()
        while self._outbox:
            try:
                sent = sock.send(self._outbox[0])
            except _WOULD_BLOCK:
                self._watch(to_write=True)
                return
            if sent < len(self._outbox[0]):
                self._outbox[0] = self._outbox[0][sent:]
            else:
                self._outbox.popleft()
        self._watch(to_write=False)

    def _watch(self, to_write: bool) -> None:
        if to_write != self._wants_to_write:
            self._wants_to_write = to_write
            events = READ | WRITE if to_write else READ
            self._selector.modify(self._open_socket(), events, self)

    def _read(self, now: float) -> None:
        """Read until the socket has no more: with TLS, bytes may wait where select cannot see."""
        sock = self._open_socket()
        while self.state is LinkState.OPEN:
            space = self._conversation.reader.space()
            try:
                size = sock.recv_into(space)
            except _WOULD_BLOCK:
                return
            if not size:
                self.end("the peer closed the connection")
                return
            replies = self._conversation.received(size, now, _answered, self._pushed)
            if replies:
                self._write(replies)
            if size < len(space) and self._tls is None:
                return

    def _open_socket(self) -> socket.socket:
        assert self._sock is not None, "a link that ended is not driven any more"
        return self._sock


def _answered(waiter: Waiter, frame: Frame) -> None:
    waiter(frame)
