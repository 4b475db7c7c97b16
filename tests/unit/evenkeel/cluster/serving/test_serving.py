"""Which requests the operator answers on its port, and which it refuses."""

import asyncio
import contextlib
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry, Gauge, Metric
from prometheus_client.registry import Collector

from evenkeel.cluster.serving import http_server
from evenkeel.cluster.serving.probes import serve
from evenkeel.errors import EvenkeelError
from sandbox import ports

PATIENCE_SECONDS = 30.0


@pytest.fixture
def port() -> Iterator[int]:
    claim = ports.claim()
    yield claim.port
    claim.release()


def registry(*collectors: Collector) -> CollectorRegistry:
    made = CollectorRegistry()
    Gauge("keel", "Whether it is even", registry=made).set(1)
    for each in collectors:
        made.register(each)
    return made


@asynccontextmanager
async def open_port(
    port: int,
    shown: CollectorRegistry | None = None,
    why_not_ready: Callable[[], str] = str,
    why_sick: Callable[[], str] = str,
) -> AsyncIterator[None]:
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        serve(port, shown or registry(), why_not_ready, why_sick),
    ):
        yield


async def said(port: int, request: bytes) -> bytes:
    """Send a request, and read the whole answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


async def page(port: int, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    return parts(await said(port, f"{method} {path} HTTP/1.1\r\nHost: it\r\n\r\n".encode()))


def parts(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    version, code, _ = first.split(" ", 2)
    assert version == "HTTP/1.1"
    return int(code), dict(each.split(": ", 1) for each in rest), body


def test_a_port_that_is_taken_is_one_sentence() -> None:
    async def body(port: int) -> None:
        async with serve(port, CollectorRegistry(), str, str):
            pytest.fail("two have the same port")

    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EvenkeelError, match=f"port {port} cannot be opened: .*--port"):
            asyncio.run(body(port))


def test_any_free_port_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with serve(0, CollectorRegistry(), str, str):
            told = re.search(r"answering on port (\d+)", caplog.text)
            assert told is not None
            code, _, _ = await page(int(told[1]), "/healthz")
            assert code == 200

    with caplog.at_level("INFO"):
        asyncio.run(body())


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz", "/metrics?name=any"])
def test_a_page_is_shown_to_get_and_measured_for_head(port: int, path: str) -> None:
    async def body() -> None:
        async with open_port(port):
            code, headers, text = await page(port, path)
            assert code == 200
            assert int(headers["Content-Length"]) == len(text) > 0
            assert headers["Connection"] == "close"
            same, measured, nothing = await page(port, path, "HEAD")
            assert (same, nothing) == (200, b"")
            assert measured["Content-Length"] == headers["Content-Length"]

    asyncio.run(body())


def test_metrics_are_in_the_format_that_prometheus_asks_for(port: int) -> None:
    async def body() -> None:
        async with open_port(port):
            _, headers, text = await page(port, "/metrics")
            assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert b"\nkeel 1.0\n" in text

    asyncio.run(body())


def test_health_and_readiness_tell_what_is_wrong(port: int) -> None:
    async def body() -> None:
        not_ready, sick = "the pods cannot be\nlisted", "the last list is 400 s old"
        async with open_port(port, why_not_ready=lambda: not_ready, why_sick=lambda: sick):
            assert (await page(port, "/healthz"))[::2] == (503, f"{sick}\n".encode())
            assert (await page(port, "/readyz"))[::2] == (503, b"the pods cannot be listed\n")

    asyncio.run(body())


REFUSALS = {
    "another path": (b"GET / HTTP/1.1\r\n\r\n", 404),
    "a path below": (b"GET /metrics/x HTTP/1.1\r\n\r\n", 404),
    "a path around": (b"GET /x/../metrics HTTP/1.1\r\n\r\n", 404),
    "another method": (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
    "an unknown method": (b"BREW /healthz HTTP/1.1\r\n\r\n", 405),
    "a body": (b"GET /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 413),
    "a huge body": (b"GET /healthz HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
    "two lengths": (
        b"GET /healthz HTTP/1.1\r\nContent-Length: 5\r\ncontent-length: 0\r\n\r\nabcde",
        400,
    ),
    "a body in chunks": (b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", 413),
    "a long line": (b"GET /" + b"x" * 100_000, 414),
    "a long header": (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 100_000, 431),
    "many headers": (b"GET /metrics HTTP/1.1\r\n" + b"X: x\r\n" * 10_000 + b"\r\n", 431),
    "no protocol": (b"hello\r\n\r\n", 400),
    "another protocol": (b"GET /metrics HTTP/2.0\r\n\r\n", 400),
    "a handshake of TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "no path": (b"GET metrics HTTP/1.1\r\n\r\n", 400),
    "a folded header": (b"GET /metrics HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 400),
    "a header with a zero": (b"GET /metrics HTTP/1.1\r\nA: \x00\r\n\r\n", 400),
}


@pytest.mark.parametrize(("request_", "code"), REFUSALS.values(), ids=REFUSALS)
def test_all_else_is_refused_in_one_line(
    port: int, request_: bytes, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with open_port(port):
            found, headers, text = parts(await said(port, request_))
            assert found == code
            assert text.endswith(b"\n")
            assert text.count(b"\n") == 1
            assert len(text) < 80
            assert ("Allow" in headers) == (code == 405)
            assert "Server" not in headers
            assert (await page(port, "/healthz"))[0] == 200

    asyncio.run(body())
    assert not caplog.records


def test_head_of_a_page_that_is_none_has_no_body(port: int) -> None:
    async def body() -> None:
        async with open_port(port):
            code, _, text = await page(port, "/", "HEAD")
            assert (code, text) == (404, b"")

    asyncio.run(body())


def test_half_a_request_is_refused_and_none_is_no_trouble(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with open_port(port):
            for sent, expected in ((b"GET /metrics HT", 400), (b"", None)):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(sent)
                writer.write_eof()
                answer = await reader.read()
                assert (parts(answer)[0] if answer else None) == expected
                writer.close()

    asyncio.run(body())
    assert not caplog.records


def test_a_request_that_does_not_end_is_dropped(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.05)

    async def body() -> None:
        async with open_port(port):
            assert parts(await said(port, b"GET /metrics HTTP/1.1\r\nHost:"))[0] == 408

    asyncio.run(body())


class Long(Collector):
    """A page that is larger than the buffers of a connection."""

    def collect(self) -> Iterable[Metric]:
        return [Metric("long", "x" * 20_000_000, "gauge")]


def test_whoever_does_not_take_the_answer_is_dropped(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "ANSWER_SECONDS", 0.1)
    ended = asyncio.Event()
    send = http_server._send

    async def watched(writer: asyncio.StreamWriter, data: bytes) -> None:
        try:
            await send(writer, data)
        except asyncio.CancelledError:
            ended.set()
            raise

    monkeypatch.setattr(http_server, "_send", watched)

    async def body() -> None:
        async with open_port(port, registry(Long())):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
            writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            await ended.wait()
            with contextlib.suppress(ConnectionError):
                assert len(await reader.read()) < 20_000_000
            writer.close()
            assert (await page(port, "/healthz"))[0] == 200

    asyncio.run(body())


def test_a_long_answer_arrives_whole(port: int) -> None:
    async def body() -> None:
        async with open_port(port, registry(Long())):
            _, headers, text = await page(port, "/metrics")
            assert len(text) == int(headers["Content-Length"]) > 20_000_000

    asyncio.run(body())


def test_where_too_many_are_connected_the_longest_silent_makes_room(port: int) -> None:
    async def body() -> None:
        async with open_port(port):
            silent = [
                await asyncio.open_connection("127.0.0.1", port)
                for _ in range(http_server.MOST_CONNECTIONS)
            ]
            for _ in range(3):
                assert (await page(port, "/readyz"))[0] == 200
            with contextlib.suppress(ConnectionError):
                assert await silent[0][0].read() == b""
            assert not silent[-1][0].at_eof()
            for _, writer in silent:
                writer.close()

    asyncio.run(body())


def test_all_of_many_who_ask_at_once_are_answered(port: int) -> None:
    async def body() -> None:
        async with open_port(port):
            found = await asyncio.gather(*(page(port, "/healthz") for _ in range(200)))
            assert [code for code, _, _ in found] == [200] * 200

    asyncio.run(body())


class Held:
    """A page that is not ready until the test sets `go_on`."""

    def __init__(self) -> None:
        self.asked = asyncio.Semaphore(0)
        self.go_on = asyncio.Event()

    async def page(self) -> http_server.HttpAnswer:
        self.asked.release()
        await self.go_on.wait()
        return http_server.build_line("ok")


def test_who_has_asked_makes_no_room_for_the_silent(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 3)

    async def body() -> None:
        held = Held()
        desk = http_server.HttpServer({"/healthz": held.page})
        server = await asyncio.start_server(desk.serve, "127.0.0.1", port)
        async with asyncio.timeout(PATIENCE_SECONDS), server:
            first = asyncio.create_task(page(port, "/healthz"))
            await held.asked.acquire()
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
            for reader, _ in silent[:4]:
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
            others = [asyncio.create_task(page(port, "/healthz")) for _ in range(2)]
            for _ in others:
                await held.asked.acquire()
            assert (await page(port, "/healthz"))[0] == 503  # all three requests are in flight
            held.go_on.set()
            assert [(await each)[0] for each in (first, *others)] == [200, 200, 200]
            for _, writer in silent:
                writer.close()
            await desk.close()

    asyncio.run(body())


class Slow(Collector):
    """A slow collector that counts its calls and notes their thread."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def collect(self) -> Iterable[Metric]:
        self.threads.append(threading.get_ident())
        return [Metric("slow", "x" * 1_000_000, "gauge")]


def test_metrics_are_gathered_on_the_event_loop_and_once_for_all_who_ask_meanwhile(
    port: int,
) -> None:
    slow = Slow()

    async def body() -> None:
        async with open_port(port, registry(slow)):
            answers = await asyncio.gather(*(page(port, "/metrics") for _ in range(4)))
            assert {code for code, _, _ in answers} == {200}
            assert set(slow.threads) == {threading.get_ident()}
            before = len(slow.threads)
            await page(port, "/metrics")
            assert len(slow.threads) == before + 1

    asyncio.run(body())


class Many(Collector):
    """A collector that notes, before each metric, how often other tasks ran."""

    def __init__(self) -> None:
        self.turns = 0
        self.seen: list[int] = []

    def collect(self) -> Iterable[Metric]:
        for number in range(5):
            self.seen.append(self.turns)
            yield Metric(f"m{number}", "one of many", "gauge")

    def describe(self) -> Iterable[Metric]:
        return ()


def test_others_have_their_turn_while_metrics_are_gathered(port: int) -> None:
    many = Many()

    async def take_turns() -> None:
        while True:
            many.turns += 1
            await asyncio.sleep(0)

    async def body() -> None:
        async with open_port(port, registry(many)):
            other = asyncio.create_task(take_turns())
            await page(port, "/metrics")
            other.cancel()

    asyncio.run(body())
    assert len(set(many.seen)) == 5


class Broken(Collector):
    """A collector that can be registered, but always fails when it is collected."""

    def collect(self) -> Iterable[Metric]:
        raise ValueError("of the inside")

    def describe(self) -> Iterable[Metric]:
        return ()


def test_a_defect_is_told_to_the_log_and_to_nobody_else(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with open_port(port, registry(Broken())):
            code, _, text = await page(port, "/metrics")
            assert (code, text) == (500, b"this is a defect of Evenkeel\n")
            assert (await page(port, "/healthz"))[0] == 200

    asyncio.run(body())
    (told,) = caplog.records
    assert told.exc_info
    assert "of the inside" in str(told.exc_info[1])


def test_the_end_of_serving_ends_all_connections(port: int) -> None:
    async def body() -> None:
        async with open_port(port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /")
            await page(port, "/healthz")  # so that the other request is served as well
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()

    asyncio.run(body())
