"""
One request over HTTP, and its answer as it is.

No redirect is followed: the credentials would go along, and the API server passes redirects of pods
on, to wherever the pod says. A pod's answer may also be long or slow, so size and time are limited.
"""

import http.client
import time
import urllib.request
from typing import NamedTuple

from evenkeel_cli.cluster.access import Access

PIECE_BYTES = 65536


class TooLongError(ValueError):
    """The answer is longer than its limit."""


class Answer(NamedTuple):
    """An answer of any status."""

    status: int
    content: bytes
    redirect: str | None
    """Where a redirect points; None for other answers."""


class _AnyStatus(urllib.request.HTTPErrorProcessor):
    """Passes every answer on: urllib follows a redirect only once this class made it an error."""

    def http_response(
        self, request: urllib.request.Request, response: http.client.HTTPResponse
    ) -> http.client.HTTPResponse:
        """Change nothing."""
        return response

    https_response = http_response


def opener(access: Access) -> urllib.request.OpenerDirector:
    """Make what opens connections to a cluster, by a proxy if there is one."""
    proxies = {"http": access.proxy, "https": access.proxy} if access.proxy else None
    return urllib.request.build_opener(
        _AnyStatus, urllib.request.HTTPSHandler(context=access.tls),
        urllib.request.ProxyHandler(proxies),
    )  # fmt: skip


def fetch(
    by: urllib.request.OpenerDirector,
    request: urllib.request.Request,
    seconds: float,
    most_bytes: int,
) -> Answer:
    """Ask once. Silence for so long, or an answer that takes longer in all, is an OSError."""
    until = time.monotonic() + seconds
    with by.open(request, timeout=seconds) as answer:
        content = _content(answer, until, seconds, most_bytes)
        redirect = answer.headers["Location"] if 300 <= answer.status < 400 else None
        return Answer(answer.status, content, redirect)


def _content(
    answer: http.client.HTTPResponse, until: float, seconds: float, most_bytes: int
) -> bytes:
    expected = answer.length  # None: until its end
    found = bytearray()
    while expected is None or len(found) < expected:
        piece = answer.read1(PIECE_BYTES)
        found += piece
        if len(found) > most_bytes:
            raise TooLongError(f"more than {most_bytes} bytes")
        if not piece and expected is None:
            break
        if not piece:
            raise http.client.IncompleteRead(bytes(found[:0]), expected)
        if time.monotonic() > until:
            raise TimeoutError(f"it takes more than {seconds:g} s")
    return bytes(found)
