"""
Sends one HTTP request and returns the answer with any status.

Redirects are not followed. The API server passes on the answers of pods, and a pod may redirect to
any address. A client that follows the redirect would send the credentials to that address. A pod's
answer may also be long or slow, so size and time are limited.
"""

import http.client
import time
import urllib.request
from typing import NamedTuple

from evenkeel_cli.cluster.access import ServerAccess

PIECE_BYTES = 65536


class TooLongError(ValueError):
    """The answer is longer than its limit."""


class FetchedAnswer(NamedTuple):
    """An answer with any status."""

    status: int
    content: bytes
    redirect: str | None
    """The target of a redirect; None for other answers."""


class _AnyStatus(urllib.request.HTTPErrorProcessor):
    """Returns every answer as it is. So urllib neither follows redirects nor raises errors."""

    def http_response(
        self, request: urllib.request.Request, response: http.client.HTTPResponse
    ) -> http.client.HTTPResponse:
        """Return the answer as it is."""
        return response

    https_response = http_response


def make_opener(access: ServerAccess) -> urllib.request.OpenerDirector:
    """Make an opener for a cluster, through its proxy if it has one."""
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
) -> FetchedAnswer:
    """Send a request once. Raise an OSError if the answer takes longer than `seconds`."""
    until = time.monotonic() + seconds
    with by.open(request, timeout=seconds) as answer:
        content = _read_content(answer, until, seconds, most_bytes)
        redirect = answer.headers["Location"] if 300 <= answer.status < 400 else None
        return FetchedAnswer(answer.status, content, redirect)


def _read_content(
    answer: http.client.HTTPResponse, until: float, seconds: float, most_bytes: int
) -> bytes:
    expected = answer.length  # if None, read until the connection closes
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
            raise TimeoutError(f"the answer takes more than {seconds:g} s")
    return bytes(found)
