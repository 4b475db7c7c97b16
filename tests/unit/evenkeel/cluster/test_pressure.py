"""Requests that the operator must not repeat all the time."""

import asyncio
import logging
import socket

import pytest
from prometheus_client import CollectorRegistry

from evenkeel import manifests
from evenkeel.cluster import rate_limiter, secrets
from evenkeel.cluster.api.api_client import ApiRequest, Document
from evenkeel.cluster.api.api_errors import AwayError, ForbiddenError, NotFoundError
from evenkeel.cluster.drivers import driver_start
from evenkeel.cluster.events import event_writer
from evenkeel.cluster.events.event_writer import EventWriter
from evenkeel.cluster.rate_limiter import RateLimiter
from evenkeel.cluster.secrets import Secrets
from evenkeel.cluster.serving.probes import serve
from evenkeel.control.groups.group_status import Notice
from evenkeel.objects import Key

KEY = Key("shop", "acl")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Api:
    """An API with one Secret, whose version is the number of its reads."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None

    async def get(self, path: str) -> Document:
        self.asked += 1
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return {"data": self.asked}


def test_a_secret_is_read_once_for_all_who_ask_within_a_minute() -> None:
    async def body() -> None:
        api, clock = Api(), Clock()
        found = Secrets(api, clock)  # type: ignore[arg-type]  # it calls nothing else
        assert await asyncio.gather(*(found.get(KEY) for _ in range(1000))) == [{"data": 1}] * 1000
        clock.now = secrets.KEPT_SECONDS - 1
        assert await found.get(KEY) == {"data": 1}
        clock.now = secrets.KEPT_SECONDS
        assert await found.get(KEY) == {"data": 2}
        found.doubt(KEY)
        clock.now += secrets.MISSING_SECONDS
        assert await found.get(KEY) == {"data": 3}

    asyncio.run(body())


@pytest.mark.parametrize("error", [NotFoundError("none"), ForbiddenError("no right")])
def test_a_secret_that_is_missing_is_looked_for_again_after_seconds(error: Exception) -> None:
    async def body() -> None:
        api, clock = Api(), Clock()
        found = Secrets(api, clock)  # type: ignore[arg-type]
        api.error = error
        for _ in range(3):
            with pytest.raises(type(error)):
                await found.get(KEY)
        assert api.asked == 1
        api.error = None
        clock.now = secrets.MISSING_SECONDS
        assert await found.get(KEY) == {"data": 2}

    asyncio.run(body())


def test_an_api_server_that_does_not_answer_is_asked_again() -> None:
    async def body() -> None:
        api = Api()
        found = Secrets(api, Clock())  # type: ignore[arg-type]
        api.error = AwayError("nobody answers")
        with pytest.raises(AwayError):
            await found.get(KEY)
        api.error = None
        assert await found.get(KEY) == {"data": 2}

    asyncio.run(body())


def test_what_happens_on_and_on_is_told_once_a_minute_with_how_often_it_was_held_back() -> None:
    it = RateLimiter()
    assert [it.let_through("x", 0.0) for _ in range(rate_limiter.AT_ONCE)] == [
        0
    ] * rate_limiter.AT_ONCE
    assert [it.let_through("x", 1.0) for _ in range(5)] == [None] * 5
    assert it.let_through("y", 1.0) == 0
    assert it.let_through("x", 61.0) == 5
    assert it.let_through("x", 62.0) is None
    assert it.let_through("x", 3600.0) == 1


def test_only_so_many_things_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limiter, "MOST_KEPT", 3)
    it = RateLimiter()
    for each in range(10):
        it.let_through(each, 0.0)
    assert len(it._told) == 3


def test_events_of_one_reason_are_braked_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rate_limiter, "AT_ONCE", 2)
    group = manifests.read_group(
        {
            "metadata": {"name": "readers", "namespace": "shop", "uid": "7"},
            "spec": {"topics": [{"name": "orders"}], "consumers": {"static": [{"id": "a"}]}},
        }
    )
    told: list[str] = []

    class Events:
        async def ask_unfenced(self, request: ApiRequest) -> None:
            assert request.body is not None
            told.append(request.body["message"])

    async def body() -> None:
        events = EventWriter(Events())  # type: ignore[arg-type]
        events.start()
        for number in range(50):
            events.announce(group, Notice("BackingOff", f"attempt {number}"))
        events.announce(group, Notice("Rebalanced", "epoch 2"))
        await events.stop()

    asyncio.run(body())
    assert told == ["attempt 0", "attempt 1", "epoch 2"]
    assert event_writer.MOST_WAITING > 50


def test_a_refused_pod_is_refused_in_the_same_words_each_time() -> None:
    def text(name: str) -> str:
        words = f'POST /api/v1/namespaces/shop/pods: pods "{name}" is forbidden: no privileged pods'
        return driver_start.mask_random_name(words, "orders-executor-")

    assert text("orders-executor-x7k2p") == text("orders-executor-bcdfg")
    assert 'pods "orders-executor-*" is forbidden' in text("orders-executor-x7k2p")
    assert "orders-executor-template" in text("orders-executor-template")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_probes_are_answered_by_ipv4_and_by_ipv6(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    if host == "::1" and not _has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")

    async def body() -> bytes:
        async with serve(0, CollectorRegistry(), str, str):
            port = int(caplog.messages[-1].rpartition(" ")[2])
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: it\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer

    with caplog.at_level(logging.INFO):
        assert asyncio.run(body()).startswith(b"HTTP/1.1 200 ")


def test_where_there_is_no_ipv6_the_port_is_open_for_ipv4(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    test_probes_are_answered_by_ipv4_and_by_ipv6("127.0.0.1", caplog)


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True
