"""How the operator treats name servers that accept connections and never answer."""

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from evenkeel.control import brokers
from evenkeel.control.brokers import Brokers, ClusterAddress
from evenkeel.control.provisioning.closing_queues import Quiet
from evenkeel.control.provisioning.conversation import TopicWish
from evenkeel.control.provisioning.steps import QueueCounts
from evenkeel.control.topics.topic_status import ReadFailure
from mq_client.acl import Credentials
from mq_client.values import Lag


@pytest.fixture
def silent() -> Iterator[ClusterAddress]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield ClusterAddress((f"127.0.0.1:{server.getsockname()[1]}",))


@pytest.mark.parametrize("what", ["route", "provision"])
def test_nobody_waits_for_ever_for_who_does_not_answer(
    what: str, silent: ClusterAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client alone would retry for ever."""
    monkeypatch.setattr(brokers, "ANSWER_SECONDS", 0.05)

    async def asked() -> object:
        found = Brokers()
        try:
            if what == "route":
                return await found.fetch_route(silent, "orders")
            task = TopicWish("orders", QueueCounts(4, 4, 6), list, Quiet())
            return await found.provision(silent, task)
        finally:
            await found.close()

    answer = asyncio.run(asked())
    assert isinstance(answer, ReadFailure)
    assert "within 0.05 s" in answer.message


def test_a_client_of_credentials_that_have_changed_is_closed_once_it_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise each rotation of a Secret would leave connections with old credentials open."""
    closed, now = list[str](), [0.0]

    class Client:
        def __init__(self, _: object, credentials: Credentials, tls: object) -> None:
            self._secret = credentials.secret_key

        async def measure_lag(self, group: str, topic: str) -> list[Lag]:
            return []

        async def close(self) -> None:
            closed.append(self._secret)

    monkeypatch.setattr(brokers, "Client", Client)

    async def asked() -> None:
        found = Brokers(lambda: now[0])
        before, after = (ClusterAddress(("mq:1",), Credentials("key", it)) for it in ("old", "new"))
        for at, cluster in ((0.0, before), (1.0, after), (brokers.IDLE_SECONDS, after)):
            now[0] = at
            await found.fetch_lags(cluster, "billing", "orders")
        assert closed == []
        now[0] = brokers.IDLE_SECONDS + 0.5
        await found.fetch_lags(after, "billing", "orders")
        await found.fetch_lags(after, "billing", "orders")
        await found.close()

    asyncio.run(asked())
    assert sorted(closed) == ["new", "old"]


def test_what_is_no_rocketmq_is_not_quoted() -> None:
    """A Topic may name any address, and users must not read what other servers say there."""
    secret = b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\npassword=hunter2\n"
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(secret)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()

        async def asked() -> object:
            found = Brokers()
            try:
                return await found.fetch_route(ClusterAddress((address,)), "orders")
            finally:
                await found.close()

        told = asyncio.run(asked())
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert isinstance(told, ReadFailure)
    assert "is this the port of a RocketMQ broker or name server?" in told.message
    assert "password" not in told.message
    assert len(told.message) < 500
