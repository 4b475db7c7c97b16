"""Which requests a job's driver answers on its port, and which it refuses."""

import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence

import pytest

from sandbox import ports
from spark_jobs.pipeline import scrapes

PATIENCE_SECONDS = 30.0


def everything(names: Sequence[str]) -> bytes:
    return b"keel 1.0\n" + "".join(f"{name} 1.0\n" for name in names).encode()


@pytest.fixture
def serve() -> Iterator[Callable[[scrapes.Write], int]]:
    """Serve on a free port."""
    with contextlib.ExitStack() as claims:

        def start(write: scrapes.Write) -> int:
            claim = ports.claim()
            claims.callback(claim.release)
            scrapes.serve(claim.port, write)
            return claim.port

        yield start


def said(port: int, request: bytes, *, end: bool = False) -> tuple[int, list[str], bytes]:
    """Send a request, and read the whole answer."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as connection:
        connection.sendall(request)
        if end:
            connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *headers = head.decode().split("\r\n")
    return int(first.split(" ")[1]), headers, body


def test_metrics_are_shown_to_get_and_measured_for_head(
    serve: Callable[[scrapes.Write], int],
) -> None:
    port = serve(everything)
    code, headers, body = said(port, b"GET /metrics HTTP/1.1\r\nHost: it\r\n\r\n")
    assert (code, body) == (200, b"keel 1.0\n")
    assert "Content-Type: text/plain; version=0.0.4; charset=utf-8" in headers
    assert "Connection: close" in headers
    code, measured, nothing = said(port, b"HEAD /metrics HTTP/1.1\r\n\r\n")
    assert (code, nothing) == (200, b"")
    assert "Content-Length: 9" in measured


def test_some_metrics_can_be_asked_for_by_name(serve: Callable[[scrapes.Write], int]) -> None:
    _, _, body = said(serve(everything), b"GET /metrics?name[]=a&name%5B%5D=b HTTP/1.1\r\n\r\n")
    assert body == b"keel 1.0\na 1.0\nb 1.0\n"


REFUSALS = {
    "another path": (b"GET / HTTP/1.1\r\n\r\n", 404),
    "a path below": (b"GET /metrics/ HTTP/1.1\r\n\r\n", 404),
    "another method": (b"POST /metrics HTTP/1.1\r\nContent-Length: 1\r\n\r\na", 405),
    "a body": (b"GET /metrics HTTP/1.1\r\nContent-Length: 1\r\n\r\na", 413),
    "a huge body": (b"GET /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
    "a body in chunks": (b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", 413),
    "a long line": (b"GET /" + b"x" * 100_000, 414),
    "a long header": (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 100_000, 431),
    "many headers": (b"GET /metrics HTTP/1.1\r\n" + b"X: x\r\n" * 10_000 + b"\r\n", 431),
    "no protocol": (b"hello\r\n\r\n", 400),
    "another protocol": (b"GET /metrics HTTP/2.0\r\n\r\n", 400),
    "a folded header": (b"GET /metrics HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 400),
}


@pytest.mark.parametrize(("request_", "code"), REFUSALS.values(), ids=REFUSALS)
def test_all_else_is_refused_in_one_line(
    serve: Callable[[scrapes.Write], int],
    request_: bytes,
    code: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = serve(everything)
    found, headers, body = said(port, request_)
    assert found == code
    assert body.endswith(b"\n")
    assert body.count(b"\n") == 1
    assert len(body) < 80
    assert ("Allow: GET, HEAD" in headers) == (code == 405)
    assert not [each for each in headers if each.startswith("Server")]
    assert said(port, b"GET /metrics HTTP/1.1\r\n\r\n")[0] == 200
    assert not caplog.records


def test_half_a_request_is_refused(serve: Callable[[scrapes.Write], int]) -> None:
    assert said(serve(everything), b"GET /metrics HT", end=True)[0] == 408


def test_slow_ones_take_no_place_for_long(
    serve: Callable[[scrapes.Write], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrapes, "HEAD_SECONDS", 0.2)
    port = serve(everything)
    with contextlib.ExitStack() as silent:
        for _ in range(3 * scrapes.THREADS):
            silent.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS))
        assert said(port, b"GET /metrics HTTP/1.1\r\n\r\n")[0] == 200


@pytest.mark.parametrize("begun", [b"", b"GET /met"], ids=["silent", "half a request"])
def test_slow_ones_are_sent_away_where_others_wait(
    serve: Callable[[scrapes.Write], int], monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    """Otherwise a few slow clients could keep Prometheus out for minutes."""
    monkeypatch.setattr(scrapes, "HEAD_SECONDS", 3600.0)
    monkeypatch.setattr(scrapes, "HURRY_SECONDS", 0.02)
    port = serve(everything)
    with contextlib.ExitStack() as slow:
        for _ in range(3 * scrapes.THREADS):
            connection = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
            slow.enter_context(connection).sendall(begun)
        assert said(port, b"GET /metrics HTTP/1.1\r\n\r\n")[0] == 200


def test_whoever_does_not_take_the_answer_is_dropped(
    serve: Callable[[scrapes.Write], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrapes, "ANSWER_SECONDS", 0.1)
    asked = b"GET /metrics HTTP/1.1\r\n\r\n"
    port = serve(lambda names: b"x" * 50_000_000)
    with contextlib.ExitStack() as idle:
        for _ in range(scrapes.THREADS):
            connection = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
            idle.enter_context(connection).sendall(asked)
        assert said(port, b"HEAD /metrics HTTP/1.1\r\n\r\n")[0] == 200


def test_a_defect_is_told_to_the_log_and_to_nobody_else(
    serve: Callable[[scrapes.Write], int], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(names: Sequence[str]) -> bytes:
        raise ValueError("of the inside")

    port = serve(broken)
    for _ in range(2 * scrapes.THREADS):
        code, _, body = said(port, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert (code, body) == (500, b"this is a defect of Evenkeel\n")
    assert "of the inside" in caplog.text
