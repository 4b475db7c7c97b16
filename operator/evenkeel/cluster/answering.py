"""
Answers by HTTP, as little of it as kubelets and Prometheus need.

A connection brings one request, short, soon and without a body, and gets one answer; everything
else is refused in a line. Where there are too many, the one that has been silent longest makes room
for the newest, and who has asked is answered. So who reaches the port can hold up little, and
learns nothing of what answers.
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
"""More than come at once from all that probe honestly: each counts until its request is read."""
HEAD_BYTES = 8192
"""Of a request: its first line and its headers."""
HEAD_SECONDS = 5.0
ANSWER_SECONDS = 10.0
"""For taking the answer; Prometheus does not wait longer either."""
LINGER_SECONDS = 1.0
"""For the other side to end first: else what it still sends would undo the answer."""
PIECE_BYTES = 65536
METHODS = ("GET", "HEAD")
_LINE = re.compile(rb"([A-Za-z]+) (/[!-~]*) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t ]*([\t -~\x80-\xff]*)")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What is said to a request."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    """More of them."""


Page = Callable[[], Awaitable[HttpAnswer]]


class RefusedRequestError(Exception):
    """A request that gets no page."""

    def __init__(self, status: HTTPStatus, why: str, **headers: str) -> None:
        """Say why in a few words."""
        super().__init__(why)
        self.answer = line(why, status, **headers)


def line(text: str, status: HTTPStatus = HTTPStatus.OK, **headers: str) -> HttpAnswer:
    """Answer with one line."""
    return HttpAnswer(f"{text}\n".encode(), status, headers=headers)


class _Stage(IntEnum):
    """How far a connection is: the lowest makes room first, of the same the oldest."""

    ASKS = 0
    """Its request is not complete."""
    ENDS = 1
    """It has its answer, and does not end."""
    TAKES = 2
    """Its answer is sent, as fast as it takes it."""
    WAITS = 3
    """For its page: it never makes room."""


class Desk:
    """Serves whoever connects."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        """Each page is made when it is asked for."""
        self._pages = pages
        self._served: dict[StreamWriter, tuple[_Stage, asyncio.Task[None]]] = {}
        """Who is served now, the oldest first."""

    def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one connection from now on."""
        if len(self._served) >= MOST_CONNECTIONS and not self._make_room():
            answer = line("too many ask at once", HTTPStatus.SERVICE_UNAVAILABLE)
            writer.write(_head_of(answer) + answer.body)
            writer.close()
            return
        task = asyncio.create_task(self._talk(reader, writer), name="a request")
        self._served[writer] = _Stage.ASKS, task

        def over(_: asyncio.Task[None]) -> None:
            self._served.pop(writer, None)
            writer.transport.abort()

        task.add_done_callback(over)

    def _make_room(self) -> bool:
        """End one connection, if there is one that may be."""
        first = min(self._served, key=lambda each: self._served[each][0])
        stage, task = self._served[first]
        if stage is _Stage.WAITS:
            return False
        del self._served[first]
        task.cancel()
        return True

    def _reach(self, stage: _Stage, writer: StreamWriter) -> None:
        if writer in self._served:
            self._served[writer] = stage, self._served[writer][1]

    async def close(self) -> None:
        """End all connections."""
        served = [task for _, task in self._served.values()]
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)

    async def _talk(self, reader: StreamReader, writer: StreamWriter) -> None:
        method = "GET"
        try:
            asked = await _head(reader)
            if not asked:
                return
            self._reach(_Stage.WAITS, writer)
            method, target, headers = _understood(asked)
            answer = await self._page(method, target.partition("?")[0], headers)()
        except RefusedRequestError as refused:
            answer = refused.answer
        except Exception:
            log.exception("a request is not answered; this is a defect of Evenkeel")
            answer = line("this is a defect of Evenkeel", HTTPStatus.INTERNAL_SERVER_ERROR)
        with contextlib.suppress(OSError, TimeoutError):  # it is gone, or does not take its answer
            async with asyncio.timeout(ANSWER_SECONDS):
                self._reach(_Stage.TAKES, writer)
                await _send(writer, _head_of(answer))
                await _send(writer, b"" if method == "HEAD" else answer.body)
                self._reach(_Stage.ENDS, writer)
                await _end(reader, writer)

    def _page(self, method: str, path: str, headers: Mapping[str, str]) -> Page:
        if path not in self._pages:
            raise RefusedRequestError(
                HTTPStatus.NOT_FOUND, f"there are only {', '.join(self._pages)}"
            )
        if method not in METHODS:
            allowed = ", ".join(METHODS)
            raise RefusedRequestError(
                HTTPStatus.METHOD_NOT_ALLOWED, f"only {allowed}", Allow=allowed
            )
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            raise RefusedRequestError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "no request has a body here"
            )
        return self._pages[path]


async def _head(reader: StreamReader) -> bytes:
    """Read a request up to its body; nothing if nobody asks."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            return await reader.readuntil(b"\r\n\r\n")
    except TimeoutError:
        raise RefusedRequestError(HTTPStatus.REQUEST_TIMEOUT, "the request took too long") from None
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return b""
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "this is half a request") from None
    except OSError:  # it has gone
        return b""
    except asyncio.LimitOverrunError:
        if b"\r\n" in await reader.read(HEAD_BYTES):
            raise RefusedRequestError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long"
            ) from None
        raise RefusedRequestError(
            HTTPStatus.REQUEST_URI_TOO_LONG, "the first line is too long"
        ) from None


def _understood(asked: bytes) -> tuple[str, str, dict[str, str]]:
    """Tell method, target and headers of a request."""
    first, *rest = asked.removesuffix(b"\r\n\r\n").split(b"\r\n")
    begin = _LINE.fullmatch(first)
    headers = [_HEADER.fullmatch(each) for each in rest]
    if begin is None or None in headers:
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "this is no request by HTTP/1.1")
    pairs = [
        (each[1].decode().lower(), each[2].decode("latin-1").strip()) for each in headers if each
    ]
    if len({value for name, value in pairs if name == "content-length"}) > 1:
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "this has more than one length")
    return begin[1].decode(), begin[2].decode(), dict(pairs)


def _head_of(answer: HttpAnswer) -> bytes:
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
    """Send as fast as it is taken: what waits here is small."""
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
