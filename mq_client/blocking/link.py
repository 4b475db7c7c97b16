"""
One connection over a non-blocking socket, optionally with TLS.

Looking up a host name blocks, so `names` does it in a thread. The first request opens a link, and
the first failure ends it. A later request to the same address opens a new link. The engine calls
all methods while it holds its lock.
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
from mq_client.directory import split_address
from mq_client.frames import Frame

Waiter = Callable[[Frame | errors.MqError], None]
Teller = Callable[[errors.MqError | None], None]
"""Called when a request without an answer was sent, or with the reason if it was not."""
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class LinkState(Enum):
    """What a link is doing."""

    LOOKING_UP = "looking up the host name"
    CONNECTING = "connecting"
    SHAKING_HANDS = "TLS handshake"
    OPEN = "open"
    ENDED = "ended"


class Link:
    """A connection to one address, and the requests in flight on it."""

    def __init__(
        self,
        address: str,
        selector: selectors.BaseSelector,
        on_push: Callable[[Frame], None],
        credentials: Credentials | None,
        tls: ssl.SSLContext | None,
        names: Names,
    ) -> None:
        """Prepare the link; nothing is sent before `open`."""
        self.address = address
        self.state = LinkState.LOOKING_UP
        self.used_at = 0.0
        self._connect_by = NEVER
        self._selector = selector
        self._on_push = on_push
        self._tls = tls
        self._names = names
        self._conversation: Connection[Waiter] = Connection(credentials)
        self._outbox: deque[memoryview] = deque()
        self._tellers: list[Teller] = []
        self._sock: socket.socket | None = None
        self._wants_to_write = False
        self._others: Iterator[tuple[Any, ...]] = iter(())
        self._why_ended = ""

    def open(self, now: float, seconds: float) -> None:
        """Start to connect to the first address of the host."""
        self._connect_by = now + seconds
        host, port = split_address(self.address)
        try:
            self._names.look_up(host, port, self._start_connecting)
        except (OSError, UnicodeError) as error:  # UnicodeError: IDNA rejects the name
            self.end(f"the host is unknown: {error}")

    def _start_connecting(self, places: Places | OSError) -> None:
        if self.state is LinkState.ENDED:
            return
        if isinstance(places, OSError):
            self.end(f"the host is unknown: {places}")
            return
        self._others = iter(places)
        self._try_next("no address left")

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight."""
        return self._conversation.is_idle

    @property
    def wakes_at(self) -> float:
        """The time by which `tick` must be called."""
        connect_by = self._connect_by if self._is_opening else NEVER
        return min(connect_by, self._conversation.next_deadline)

    @property
    def _is_opening(self) -> bool:
        return self.state in (LinkState.LOOKING_UP, LinkState.CONNECTING, LinkState.SHAKING_HANDS)

    def request(self, request: Request[Any], waiter: Waiter, now: float, deadline: float) -> None:
        """Send a request. The waiter is called once, with the answer or an error."""
        if self.state is LinkState.ENDED:
            waiter(errors.ConnectionLostError(self._why_ended))
            return
        self.used_at = now
        self._write(self._conversation.request(request, waiter, now, deadline))

    def tell(self, request: Request[Any], waiter: Teller, now: float) -> None:
        """
        Send a request that gets no answer.

        The waiter is called once, when the connection is open or has failed. Before that nobody
        would send the request, because the caller has no answer to wait for.
        """
        if self.state is LinkState.ENDED:
            waiter(errors.ConnectionLostError(self._why_ended))
            return
        self.used_at = now
        self._tellers.append(waiter)
        self._write(self._conversation.tell(request))
        if self.state is LinkState.OPEN:
            self._answer_tellers(None)

    def advance(self, now: float) -> None:
        """Continue when the socket has become readable or writable."""
        try:
            match self.state:
                case LinkState.CONNECTING:
                    self._finish_connecting()
                case LinkState.SHAKING_HANDS:
                    self._shake_hands()
                case LinkState.OPEN:
                    self._flush()
                    self._read(now)
                case LinkState.LOOKING_UP | LinkState.ENDED:
                    pass
        except Exception as error:  # noqa: BLE001  # it must end only this link
            if self.state is LinkState.CONNECTING:
                self._try_next(str(error))
            else:
                self.end(str(error))

    def tick(self, now: float) -> None:
        """End a connection attempt that has timed out, and requests that have timed out."""
        if self._is_opening and now >= self._connect_by:
            self.end(f"no connection in time, while {self.state.value}")
            return
        late, is_silent = self._conversation.expire(now)
        if is_silent:
            self._close()
        for waiter in late:
            waiter(errors.DeadlineError("no answer in time"))
        if is_silent:
            self.end("the peer sent nothing while a request waited for its answer")

    def end(self, reason: str) -> None:
        """Close the connection. Requests in flight fail."""
        self._close()
        self._why_ended = reason
        self._answer_tellers(errors.ConnectionLostError(reason))
        for waiter in self._conversation.end():
            waiter(errors.ConnectionLostError(reason))

    def _close(self) -> None:
        self.state = LinkState.ENDED
        if self._sock is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(self._sock)
            self._sock.close()
            self._sock = None

    def _try_next(self, reason: str) -> None:
        """Connect to the next address of the host, if its name has several addresses."""
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

    def _finish_connecting(self) -> None:
        sock = self._get_socket()
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        if self._tls is None:
            self._become_open()
            return
        self._selector.unregister(sock)
        host, _ = split_address(self.address)
        self._sock = self._tls.wrap_socket(
            sock, server_hostname=host, do_handshake_on_connect=False
        )
        self._selector.register(self._sock, READ | WRITE, self)
        self.state = LinkState.SHAKING_HANDS
        self._shake_hands()

    def _shake_hands(self) -> None:
        sock = self._get_socket()
        assert isinstance(sock, ssl.SSLSocket)
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            self._selector.modify(sock, READ, self)
        except ssl.SSLWantWriteError:
            self._selector.modify(sock, WRITE, self)
        else:
            self._become_open()

    def _become_open(self) -> None:
        self.state = LinkState.OPEN
        self._selector.modify(self._get_socket(), READ, self)
        self._flush()
        self._answer_tellers(None)

    def _answer_tellers(self, error: errors.MqError | None) -> None:
        waiters, self._tellers = self._tellers, []
        for waiter in waiters:
            waiter(error)

    def _write(self, data: bytes) -> None:
        self._outbox.append(memoryview(data))
        if self.state is LinkState.OPEN:
            try:
                self._flush()
            except OSError as error:
                self.end(str(error))

    def _flush(self) -> None:
        """Write as much as the socket accepts now. The rest follows when it is writable again."""
        sock = self._get_socket()
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
            self._selector.modify(self._get_socket(), events, self)

    def _read(self, now: float) -> None:
        """Read until the socket is empty. With TLS, select does not report all waiting bytes."""
        sock = self._get_socket()
        while self.state is LinkState.OPEN:
            space = self._conversation.reader.get_space()
            try:
                size = sock.recv_into(space)
            except _WOULD_BLOCK:
                return
            if not size:
                self.end("the peer closed the connection")
                return
            replies = self._conversation.receive(size, now, _deliver, self._on_push)
            if replies:
                self._write(replies)
            if size < len(space) and self._tls is None:
                return

    def _get_socket(self) -> socket.socket:
        assert self._sock is not None, "a link was used after it had ended"
        return self._sock


def _deliver(waiter: Waiter, frame: Frame) -> None:
    waiter(frame)
