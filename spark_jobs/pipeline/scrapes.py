"""
Answers Prometheus: GET and HEAD requests for /metrics, and no other requests.

A connection carries one request and one answer. A few threads serve the connections, and each
thread serves one connection at a time. A connection has a short time limit, and a much shorter one
while other clients wait. So a slow client delays others only a little.
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
"""Limit of a request's first line and headers."""
HEAD_SECONDS = 5.0
HURRY_SECONDS = 0.25
"""The limit while other clients wait: an honest client sends its request at once."""
ANSWER_SECONDS = 10.0
LINGER_SECONDS = 1.0
"""How long to wait for the client to close: if we closed first, it could lose the answer."""
_END = b"\r\n\r\n"
_LINE = re.compile(rb"([A-Za-z]+) (/[!-~]*) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t ]*([\t -~\x80-\xff]*)")
Write = Callable[[Sequence[str]], bytes]
"""Writes the metrics with these names as text; without names, all metrics."""


class RefusedScrapeError(Exception):
    """A request that is refused."""

    def __init__(self, status: HTTPStatus, why: str, *headers: str) -> None:
        """Keep the status and the headers of the answer; `why` is its text."""
        super().__init__(why)
        self.status = status
        self.headers = headers


def serve(port: int, write: Write) -> None:
    """Answer in separate threads from now on. Raise `OSError` if the port cannot be opened."""
    listener = _open_port(port)
    for number in range(THREADS):
        threading.Thread(
            target=_keep_answering, args=(listener, write), name=f"scrape-{number}", daemon=True
        ).start()


def _open_port(port: int) -> socket.socket:
    """Open the port on all addresses of the pod, with IPv4, IPv6, or both."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError:  # IPv6 may be switched off
            log.debug("port %d is not open for IPv6", port)
    return socket.create_server(("", port))


def _keep_answering(listener: socket.socket, write: Write) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError as error:  # for example too many open files
            log.warning("metrics cannot be scraped now: %s", error)
            time.sleep(HEAD_SECONDS)
            continue
        with connection, contextlib.suppress(OSError):  # the client has gone, or takes too long
            _answer(connection, listener, write)


def _answer(connection: socket.socket, listener: socket.socket, write: Write) -> None:
    head = b""
    try:
        head = _read_head(connection, listener)
        status, body = HTTPStatus.OK, _write_metrics(write, _parse_names(head))
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
    for _ in _read_pieces(connection, listener, LINGER_SECONDS):
        pass


def _write_metrics(write: Write, names: Sequence[str]) -> bytes:
    try:
        return write(names)
    except Exception as error:
        log.exception("metrics cannot be written; this is a defect of Evenkeel")
        why = "this is a defect of Evenkeel"
        raise RefusedScrapeError(HTTPStatus.INTERNAL_SERVER_ERROR, why) from error


def _read_head(connection: socket.socket, listener: socket.socket) -> bytes:
    """Read a request up to its body."""
    received = b""
    for piece in _read_pieces(connection, listener, HEAD_SECONDS):
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
        raise ConnectionError("no request came")
    raise RefusedScrapeError(HTTPStatus.REQUEST_TIMEOUT, "the request is incomplete")


def _read_pieces(
    connection: socket.socket, listener: socket.socket, seconds: float
) -> Iterator[bytes]:
    """Read until the client closes, or the time is over."""
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        if passed >= HURRY_SECONDS and _has_others_waiting(listener):
            return
        connection.settimeout(min(seconds - passed, HURRY_SECONDS))
        with contextlib.suppress(TimeoutError):
            piece = connection.recv(HEAD_BYTES)
            if not piece:
                return
            yield piece


def _has_others_waiting(listener: socket.socket) -> bool:
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return bool(poll.poll(0))


def _parse_names(head: bytes) -> list[str]:
    """Parse which metrics `?name[]=` requests; an empty list means all."""
    first, *rest = head.split(b"\r\n")
    line, headers = _LINE.fullmatch(first), [_HEADER.fullmatch(each) for each in rest]
    if line is None or None in headers:
        raise RefusedScrapeError(HTTPStatus.BAD_REQUEST, "this is not an HTTP/1.1 request")
    path, _, query = line[2].decode().partition("?")
    if path != "/metrics":
        raise RefusedScrapeError(HTTPStatus.NOT_FOUND, "the only path is /metrics")
    if line[1] not in (b"GET", b"HEAD"):
        raise RefusedScrapeError(
            HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are allowed", "Allow: GET, HEAD"
        )
    values = {each[1].lower(): each[2].strip() for each in headers if each}
    if values.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in values:
        raise RefusedScrapeError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a request must not have a body"
        )
    return parse_qs(query).get("name[]", [])
