"""
Answers Prometheus: GET and HEAD of /metrics, and nothing else.

A connection brings one request and gets one answer. A few threads take the connections one by one,
and give each a short time, and a much shorter one where others wait: whoever is slow makes them
wait a little, and takes nothing else.
"""

import contextlib
import logging
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import parse_qs

log = logging.getLogger("evenkeel.job")
THREADS = 4
HEAD_BYTES = 8192
"""Of a request: its first line and its headers."""
HEAD_SECONDS = 5.0
HURRY_SECONDS = 0.25
"""For each step, where others wait: whoever is honest sends its request at once."""
ANSWER_SECONDS = 10.0
LINGER_SECONDS = 1.0
"""For the other side to end first: else what it still sends would undo the answer."""
_END = b"\r\n\r\n"
_LINE = re.compile(rb"([A-Za-z]+) (/[!-~]*) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t ]*([\t -~\x80-\xff]*)")
Write = Callable[[Sequence[str]], bytes]
"""Writes out the metrics of these names, or all."""


class RefusedScrapeError(Exception):
    """A request that gets no metrics."""

    def __init__(self, status: HTTPStatus, why: str, *headers: str) -> None:
        """Say why in a few words."""
        super().__init__(why)
        self.status = status
        self.headers = headers


def serve(port: int, write: Write) -> None:
    """Answer from now on, in threads of their own; an `OSError` if the port cannot be had."""
    listener = _opened(port)
    for number in range(THREADS):
        threading.Thread(
            target=_keep_answering, args=(listener, write), name=f"scrape-{number}", daemon=True
        ).start()


def _opened(port: int) -> socket.socket:
    """Open the port on all addresses of the pod, which may be of IPv4, of IPv6, or of both."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError:  # IPv6 may be there and turned off
            log.debug("port %d is not open for IPv6", port)
    return socket.create_server(("", port))


def _keep_answering(listener: socket.socket, write: Write) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError as error:  # too many files are open, say
            log.warning("nobody can ask for metrics now: %s", error)
            time.sleep(HEAD_SECONDS)
            continue
        with connection, contextlib.suppress(OSError):  # it has gone, or takes too long
            _talk(connection, listener, write)


def _talk(connection: socket.socket, listener: socket.socket, write: Write) -> None:
    head = b""
    try:
        head = _head(connection, listener)
        status, body = HTTPStatus.OK, _written(write, _names(head))
        headers: tuple[str, ...] = ("Content-Type: text/plain; version=0.0.4; charset=utf-8",)
    except RefusedScrapeError as refused:
        status, body = refused.status, f"{refused}\n".encode()
        headers = ("Content-Type: text/plain; charset=utf-8", *refused.headers)
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Date: {formatdate(usegmt=True)}",
        *headers,
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    connection.settimeout(ANSWER_SECONDS)
    connection.sendall("\r\n".join(lines).encode() + _END)
    connection.sendall(b"" if head.startswith(b"HEAD ") else body)
    connection.shutdown(socket.SHUT_WR)
    for _ in _pieces(connection, listener, LINGER_SECONDS):
        pass


def _written(write: Write, names: Sequence[str]) -> bytes:
    try:
        return write(names)
    except Exception as error:
        log.exception("metrics cannot be shown; this is a defect of Evenkeel")
        why = "this is a defect of Evenkeel"
        raise RefusedScrapeError(HTTPStatus.INTERNAL_SERVER_ERROR, why) from error


def _head(connection: socket.socket, listener: socket.socket) -> bytes:
    """Read a request up to its body."""
    received = b""
    for piece in _pieces(connection, listener, HEAD_SECONDS):
        received += piece
        head, end, _ = received.partition(_END)
        if len(head) > HEAD_BYTES:
            if b"\r\n" in head[:HEAD_BYTES]:
                status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
                raise RefusedScrapeError(status, "the headers are too long")
            raise RefusedScrapeError(HTTPStatus.REQUEST_URI_TOO_LONG, "the first line is too long")
        if end:
            return head
    if not received:
        raise ConnectionError("nobody asks")
    raise RefusedScrapeError(HTTPStatus.REQUEST_TIMEOUT, "the request did not come to its end")


def _pieces(connection: socket.socket, listener: socket.socket, seconds: float) -> Iterator[bytes]:
    """Read until the other side ends, or the time is over."""
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        if passed >= HURRY_SECONDS and _others_wait(listener):
            return
        connection.settimeout(min(seconds - passed, HURRY_SECONDS))
        with contextlib.suppress(TimeoutError):
            piece = connection.recv(HEAD_BYTES)
            if not piece:
                return
            yield piece


def _others_wait(listener: socket.socket) -> bool:
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return bool(poll.poll(0))


def _names(head: bytes) -> list[str]:
    """Tell which metrics are asked for, as `?name[]=` says; none: all."""
    first, *rest = head.split(b"\r\n")
    line, headers = _LINE.fullmatch(first), [_HEADER.fullmatch(each) for each in rest]
    if line is None or None in headers:
        raise RefusedScrapeError(HTTPStatus.BAD_REQUEST, "this is no request by HTTP/1.1")
    path, _, query = line[2].decode().partition("?")
    if path != "/metrics":
        raise RefusedScrapeError(HTTPStatus.NOT_FOUND, "there is only /metrics")
    if line[1] not in (b"GET", b"HEAD"):
        raise RefusedScrapeError(
            HTTPStatus.METHOD_NOT_ALLOWED, "only GET, HEAD", "Allow: GET, HEAD"
        )
    said = {each[1].lower(): each[2].strip() for each in headers if each}
    if said.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in said:
        raise RefusedScrapeError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "no request has a body here")
    return parse_qs(query).get("name[]", [])
