"""
A minimal HTTP server for kubelets and Prometheus.

A connection may send one short request without a body, and gets one answer. Everything else is
refused with one line. If there are too many connections, the server closes one of them to make room
for the new one, but none whose request waits for its answer. So clients can do little harm, and
learn nothing about the server.
"""

import asyncio
import contextlib
import logging
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from enum import IntEnum
from http import HTTPStatus

log = logging.getLogger("evenkeel")
MOST_CONNECTIONS = 256
"""Maximum number of connections: more than all honest clients need."""
HEAD_BYTES = 8192
"""Limit of a request: its first line and its headers."""
HEAD_SECONDS = 5.0
ANSWER_SECONDS = 10.0
"""Time limit for sending the answer. Prometheus does not wait longer either."""
LINGER_SECONDS = 1.0
"""
How long the server waits for the client to close the connection. If the server closed the
connection while the client still sends, the client would not get the whole answer.
"""
PIECE_BYTES = 65536
METHODS = ("GET", "HEAD")
_LINE = re.compile(rb"([A-Za-z]+) (/[!-~]*) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t ]*([\t -~\x80-\xff]*)")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer to a request."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    """Additional headers."""


Page = Callable[[], Awaitable[HttpAnswer]]


class RefusedRequestError(Exception):
    """A request that is refused."""

    def __init__(self, status: HTTPStatus, why: str, **headers: str) -> None:
        """Build the answer from the reason."""
        super().__init__(why)
        self.answer = build_line(why, status, **headers)


def build_line(text: str, status: HTTPStatus = HTTPStatus.OK, **headers: str) -> HttpAnswer:
    """Build an answer of one line."""
    return HttpAnswer(f"{text}\n".encode(), status, headers=headers)


class _Stage(IntEnum):
    """The progress of a connection. Connections in a lower stage are closed first, oldest first."""

    ASKS = 0
    """The request is not complete."""
    ENDS = 1
    """The answer is sent, and the client has not closed the connection."""
    TAKES = 2
    """The answer is being sent."""
    WAITS = 3
    """The answer is being made. The connection is never closed for a new one."""


@dataclass(slots=True)
class _Connection:
    """An open connection."""

    task: asyncio.Task[None]
    stage: _Stage = _Stage.ASKS


class HttpServer:
    """Answers all connections."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        """Store the functions that make the pages. Each request calls the function of its page."""
        self._pages = pages
        self._connections: dict[StreamWriter, _Connection] = {}
        """The open connections, oldest first."""

    def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one connection from now on."""
        if len(self._connections) >= MOST_CONNECTIONS and not self._make_room():
            answer = build_line("too many connections", HTTPStatus.SERVICE_UNAVAILABLE)
            writer.write(_build_head(answer) + answer.body)
            writer.close()
            return
        task = asyncio.create_task(self._answer(reader, writer), name="a request")
        self._connections[writer] = _Connection(task)

        def drop(_: asyncio.Task[None]) -> None:
            self._connections.pop(writer, None)
            writer.transport.abort()

        task.add_done_callback(drop)

    def _make_room(self) -> bool:
        """Close one connection; return False if none may be closed."""
        writer, first = min(self._connections.items(), key=lambda each: each[1].stage)
        if first.stage is _Stage.WAITS:
            return False
        del self._connections[writer]
        first.task.cancel()
        return True

    def _set_stage(self, stage: _Stage, writer: StreamWriter) -> None:
        if writer in self._connections:
            self._connections[writer].stage = stage

    async def close(self) -> None:
        """End all connections."""
        served = [each.task for each in self._connections.values()]
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)

    async def _answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        method = "GET"
        try:
            asked = await _read_head(reader)
            if not asked:
                return
            self._set_stage(_Stage.WAITS, writer)
            method, target, headers = _parse_head(asked)
            answer = await self._find_page(method, target.partition("?")[0], headers)()
        except RefusedRequestError as refused:
            answer = refused.answer
        except Exception:
            log.exception("a request was not answered; this is a defect of Evenkeel")
            answer = build_line("this is a defect of Evenkeel", HTTPStatus.INTERNAL_SERVER_ERROR)
        with contextlib.suppress(OSError, TimeoutError):  # the client is gone, or does not read
            async with asyncio.timeout(ANSWER_SECONDS):
                self._set_stage(_Stage.TAKES, writer)
                await _send(writer, _build_head(answer))
                await _send(writer, b"" if method == "HEAD" else answer.body)
                self._set_stage(_Stage.ENDS, writer)
                await _end(reader, writer)

    def _find_page(self, method: str, path: str, headers: Mapping[str, str]) -> Page:
        if path not in self._pages:
            raise RefusedRequestError(
                HTTPStatus.NOT_FOUND, f"the only paths are {', '.join(self._pages)}"
            )
        if method not in METHODS:
            allowed = ", ".join(METHODS)
            raise RefusedRequestError(
                HTTPStatus.METHOD_NOT_ALLOWED, f"only {allowed}", Allow=allowed
            )
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            raise RefusedRequestError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a request must not have a body"
            )
        return self._pages[path]


async def _read_head(reader: StreamReader) -> bytes:
    """Read a request up to its body; empty if the client sends nothing."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            return await reader.readuntil(b"\r\n\r\n")
    except TimeoutError:
        raise RefusedRequestError(HTTPStatus.REQUEST_TIMEOUT, "the request took too long") from None
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return b""
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "the request is incomplete") from None
    except OSError:  # the client is gone
        return b""
    except asyncio.LimitOverrunError:
        if b"\r\n" in await reader.read(HEAD_BYTES):
            raise RefusedRequestError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long"
            ) from None
        raise RefusedRequestError(
            HTTPStatus.REQUEST_URI_TOO_LONG, "the first line is too long"
        ) from None


def _parse_head(asked: bytes) -> tuple[str, str, dict[str, str]]:
    """Parse the method, target and headers of a request."""
    first, *rest = asked.removesuffix(b"\r\n\r\n").split(b"\r\n")
    begin = _LINE.fullmatch(first)
    headers = [_HEADER.fullmatch(each) for each in rest]
    if begin is None or None in headers:
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "this is not an HTTP/1.1 request")
    pairs = [
        (each[1].decode().lower(), each[2].decode("latin-1").strip()) for each in headers if each
    ]
    if len({value for name, value in pairs if name == "content-length"}) > 1:
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "the request has more than one length")
    return begin[1].decode(), begin[2].decode(), dict(pairs)


def _build_head(answer: HttpAnswer) -> bytes:
    headers = {
        "Date": formatdate(usegmt=True),
        "Content-Type": answer.kind,
        "Content-Length": str(len(answer.body)),
        "Connection": "close",
        **answer.headers,
    }
    first = f"HTTP/1.1 {answer.status.value} {answer.status.phrase}"
    lines = [first, *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


async def _send(writer: StreamWriter, data: bytes) -> None:
    """Send in pieces, so that little is buffered."""
    for start in range(0, len(data), PIECE_BYTES):
        writer.write(data[start : start + PIECE_BYTES])
        await writer.drain()


async def _end(reader: StreamReader, writer: StreamWriter) -> None:
    writer.write_eof()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while await reader.read(HEAD_BYTES):
                pass
    writer.close()
    await writer.wait_closed()
