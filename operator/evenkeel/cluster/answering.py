"""
Answers by HTTP, as little of it as kubelets and Prometheus need.

A connection brings one request, short, soon and without a body, and gets one answer; everything
else is refused in a line. Where there are too many, the oldest makes room for the newest. So who
reaches the port can hold up little, and learns nothing of what answers.
"""

import asyncio
import contextlib
import logging
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus

log = logging.getLogger("evenkeel")
MOST_CONNECTIONS = 16
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
class Answer:
    """What is said to a request."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    """More of them."""


Page = Callable[[], Awaitable[Answer]]


class RefusedError(Exception):
    """A request that gets no page."""

    def __init__(self, status: HTTPStatus, why: str, **headers: str) -> None:
        """Say why in a few words."""
        super().__init__(why)
        self.answer = line(why, status, **headers)


def line(text: str, status: HTTPStatus = HTTPStatus.OK, **headers: str) -> Answer:
    """Answer with one line."""
    return Answer(f"{text}\n".encode(), status, headers=headers)


class Desk:
    """Serves whoever connects."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        """Each page is made when it is asked for."""
        self._pages = pages
        self._served: dict[asyncio.Task[None], None] = {}
        """Who is served now, the oldest first."""

    def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one connection from now on."""
        if len(self._served) >= MOST_CONNECTIONS:
            oldest = next(iter(self._served))
            del self._served[oldest]
            oldest.cancel()
        task = asyncio.create_task(self._talk(reader, writer), name="a request")
        self._served[task] = None

        def over(task: asyncio.Task[None]) -> None:
            self._served.pop(task, None)
            writer.transport.abort()

        task.add_done_callback(over)

    async def close(self) -> None:
        """End all connections."""
        served = list(self._served)
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)

    async def _talk(self, reader: StreamReader, writer: StreamWriter) -> None:
        method = "GET"
        try:
            asked = await _head(reader)
            if not asked:
                return
            method, target, headers = _understood(asked)
            answer = await self._page(method, target.partition("?")[0], headers)()
        except RefusedError as refused:
            answer = refused.answer
        except Exception:
            log.exception("a request is not answered; this is a defect of Evenkeel")
            answer = line("this is a defect of Evenkeel", HTTPStatus.INTERNAL_SERVER_ERROR)
        with contextlib.suppress(OSError, TimeoutError):  # it is gone, or does not take its answer
            async with asyncio.timeout(ANSWER_SECONDS):
                await _send(writer, _head_of(answer))
                await _send(writer, b"" if method == "HEAD" else answer.body)
                await _end(reader, writer)

    def _page(self, method: str, path: str, headers: Mapping[str, str]) -> Page:
        if path not in self._pages:
            raise RefusedError(HTTPStatus.NOT_FOUND, f"there are only {', '.join(self._pages)}")
        if method not in METHODS:
            allowed = ", ".join(METHODS)
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, f"only {allowed}", Allow=allowed)
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "no request has a body here")
        return self._pages[path]


async def _head(reader: StreamReader) -> bytes:
    """Read a request up to its body; nothing if nobody asks."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            return await reader.readuntil(b"\r\n\r\n")
    except TimeoutError:
        raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, "the request took too long") from None
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return b""
        raise RefusedError(HTTPStatus.BAD_REQUEST, "this is half a request") from None
    except OSError:  # it has gone
        return b""
    except asyncio.LimitOverrunError:
        if b"\r\n" in await reader.read(HEAD_BYTES):
            raise RefusedError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long"
            ) from None
        raise RefusedError(HTTPStatus.REQUEST_URI_TOO_LONG, "the first line is too long") from None


def _understood(asked: bytes) -> tuple[str, str, dict[str, str]]:
    """Tell method, target and headers of a request."""
    first, *rest = asked.removesuffix(b"\r\n\r\n").split(b"\r\n")
    begin = _LINE.fullmatch(first)
    headers = [_HEADER.fullmatch(each) for each in rest]
    if begin is None or None in headers:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "this is no request by HTTP/1.1")
    said = {each[1].decode().lower(): each[2].decode("latin-1").strip() for each in headers if each}
    return begin[1].decode(), begin[2].decode(), said


def _head_of(answer: Answer) -> bytes:
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
