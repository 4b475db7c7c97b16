"""Silent, too slow and too talkative connections cost little and do not harm other connections."""

import asyncio
import contextlib
import gc
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime

import pytest

from evenkeel.cluster.members import certificate_store, certificates
from evenkeel.members import connections, server
from evenkeel.members.coordination import Coordination
from evenkeel.members.doors import TokenDoor

SOON = 0.2
"""In seconds. The real limits are 5."""
PATH = "/v1/groups/shop/billing/members/a"
GOOD = b"Authorization: Bearer secret\r\n"


@pytest.fixture(scope="module")
def tls() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of the server and of a client that trusts it."""
    made = certificates.renew(None, ["localhost"], datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate_store.load(context, made)
    return context, ssl.create_default_context(cadata=made.authorities)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "OPEN_SECONDS", SOON)
    monkeypatch.setattr(connections, "FIRST_HEAD_SECONDS", SOON)
    monkeypatch.setattr(server, "BODY_SECONDS", SOON)


def play(story: Callable[[int], Awaitable[None]], tls: ssl.SSLContext | None = None) -> None:
    """Play a story with a server that knows no group."""

    async def run() -> None:
        coordination = Coordination(lambda key: None)
        listening = server.open_port(0)
        async with server.serve(coordination, TokenDoor("secret"), listening, tls) as port:
            await story(port)

    asyncio.run(run())


@contextlib.asynccontextmanager
async def connect(
    port: int, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    name = "localhost" if tls else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def write_request(body: bytes, headers: bytes = GOOD) -> bytes:
    length = b"Content-Length: %d\r\n" % len(body)
    return b"POST %s HTTP/1.1\r\nHost: it\r\n%s%s\r\n%s" % (PATH.encode(), length, headers, body)


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, str]:
    """Read an answer's status and reason."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
    body = json.loads(await reader.readexactly(length))
    return int(head.split()[1]), body["reason"]


async def is_served(port: int, tls: ssl.SSLContext | None = None) -> bool:
    async with connect(port, tls) as (reader, writer):
        writer.write(write_request(b'{"session": "s", "number": 1}'))
        return await read_answer(reader) == (404, "NoSuchGroup")


def test_headers_that_never_end_are_cut_off(tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    async def story(port: int) -> None:
        async with connect(port, tls[1]) as (reader, writer):
            writer.write(b"POST / HTTP/1.1\r\nX: ")
            with contextlib.suppress(OSError):  # the connection is reset, or just ends
                assert await reader.read() == b""
        assert await is_served(port, tls[1])

    play(story, tls[0])


def test_a_handshake_that_never_ends_is_cut_off(
    tls: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async def story(port: int) -> None:
        async with connect(port) as (reader, writer):
            writer.write(b"\x16\x03\x01")
            with contextlib.suppress(OSError):
                assert await reader.read() == b""
        async with connect(port) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            with contextlib.suppress(OSError):
                await reader.read()
        assert await is_served(port, tls[1])

    play(story, tls[0])


def test_a_body_that_never_ends_is_refused() -> None:
    async def story(port: int) -> None:
        async with connect(port) as (reader, writer):
            writer.write(write_request(b"x" * 100)[:-50])
            assert await read_answer(reader) == (408, "SlowBody")

    play(story)


def test_ten_megabytes_of_json_are_refused_without_being_read() -> None:
    async def story(port: int) -> None:
        async with connect(port) as (reader, writer):
            writer.write(write_request(b"[" * 10_000_000))
            assert await read_answer(reader) == (413, "BadRequest")
        assert await is_served(port)

    play(story)


@pytest.mark.parametrize(
    "headers", [b"", b"Authorization: Basic c2VjcmV0\r\n", b"Authorization: Bearer\r\n",
                b"Authorization: Bearer other\r\n", b"Authorization: Bearer \xff\r\n"],
)  # fmt: skip
def test_without_the_token_not_even_the_body_is_read(headers: bytes) -> None:
    async def story(port: int) -> None:
        async with connect(port) as (reader, writer):
            writer.write(write_request(b"x" * 100, headers)[:-50])
            assert await read_answer(reader) == (403, "Forbidden")

    play(story)


def test_headers_that_are_too_long_are_refused() -> None:
    async def story(port: int) -> None:
        async with connect(port) as (reader, writer):
            writer.write(write_request(b"", b"Authorization: Bearer %s\r\n" % (b"x" * 100_000)))
            assert (await reader.readline()).split()[1] == b"400"
        assert await is_served(port)

    play(story)


def test_a_flood_of_connections_takes_no_place_from_those_who_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten times the allowed number connect, while an earlier request is still incomplete."""
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 50)
    monkeypatch.setattr(connections, "FIRST_HEAD_SECONDS", 60.0)
    monkeypatch.setattr(server, "BODY_SECONDS", 60.0)

    async def story(port: int) -> None:
        async with contextlib.AsyncExitStack() as opened, connect(port) as (reader, writer):
            request = write_request(b'{"session": "s", "number": 1}')
            writer.write(request[:-1])
            await asyncio.sleep(SOON)
            flood = [await opened.enter_async_context(connect(port)) for _ in range(500)]
            assert await is_served(port)
            writer.write(request[-1:])
            assert await read_answer(reader) == (404, "NoSuchGroup")
            await asyncio.sleep(0)
            still = [each for each, _ in flood if not each.at_eof()]
            assert len(still) <= 50

    play(story)


@pytest.mark.parametrize("turns", range(6))
def test_the_end_leaves_no_connection_open_whenever_it_comes(turns: int) -> None:
    async def story(port: int) -> None:
        for _ in range(10):
            await asyncio.sleep(0)  # until the server waits for connections
        opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for each in opened:
            each.close()

    play(story)
    gc.collect()  # pytest fails the test if a socket was left open


LIMITS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
from evenkeel.members.connections import allow_open_files
print(allow_open_files(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "allowed"), [(1024, 9000, 8192), (1024, 4096, 4096), (1024, 1024, 1024)]
)
def test_as_many_connections_may_be_open_as_the_machine_allows(
    soft: int, hard: int, allowed: int
) -> None:
    """Container runtimes begin with 1,024 open files, which is too few for 2,000 members."""
    command = [sys.executable, "-c", LIMITS, str(soft), str(hard)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(allowed), str(allowed)]
