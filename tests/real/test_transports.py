"""Both clients on a bad network, in front of a real name server."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from mq_client import aio, blocking, errors, flows
from mq_client.commands.cluster import GetTopics
from mq_client.directory import Times
from mq_client.flows import Flow
from sandbox import jars, rocketmq
from tests.proxy import Proxy

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")

QUICK = Times(connect=2.0, answer=1.0)
Runs = Callable[[list[str], Callable[["Runner"], "Coroutine[Any, Any, None]"]], None]


class Runner:
    """Runs the same calls on either client."""

    def __init__(self, client: aio.Client | blocking.Client) -> None:
        self.client = client

    async def run(self, flow: Flow[Any]) -> Any:
        if isinstance(self.client, aio.Client):
            return await self.client.run(flow)
        return self.client.engine.run(flow)

    async def list_topics(self) -> list[str]:
        outcome = self.client.list_topics()
        return outcome if isinstance(outcome, list) else await outcome


def run_blocking(
    name_servers: list[str], test: Callable[[Runner], Coroutine[Any, Any, None]]
) -> None:
    with blocking.Client(name_servers, times=QUICK) as client:
        asyncio.run(test(Runner(client)))


def run_asyncio(
    name_servers: list[str], test: Callable[[Runner], Coroutine[Any, Any, None]]
) -> None:
    async def main() -> None:
        async with aio.Client(name_servers, times=QUICK) as client:
            await test(Runner(client))

    asyncio.run(main())


@pytest.fixture(params=[run_blocking, run_asyncio], ids=["blocking", "asyncio"])
def runs(request: pytest.FixtureRequest) -> Runs:
    chosen: Runs = request.param
    return chosen


@pytest.fixture(scope="module")
def name_server() -> Iterator[str]:
    with rocketmq.run(brokers=0) as mq:
        yield mq.name_server.address


@pytest.fixture
def proxy(name_server: str) -> Iterator[Proxy]:
    with Proxy(name_server) as relay:
        yield relay


def free_address() -> str:
    """Return an address where nothing listens: a proxy has listened there, and has ended."""
    with Proxy("127.0.0.1:1") as gone:
        return gone.address


def test_an_answer_that_never_comes_is_an_error_that_names_request_and_peer(
    runs: Runs, proxy: Proxy
) -> None:
    async def test(client: Runner) -> None:
        await client.list_topics()
        proxy.swallows = True
        with pytest.raises(errors.DeadlineError) as caught:
            await client.run(flows.ask(proxy.address, GetTopics(), 0.3))
        assert proxy.address in str(caught.value)
        assert "GET_ALL_TOPIC_LIST_FROM_NAMESERVER" in str(caught.value)

    runs([proxy.address], test)


def test_a_half_open_connection_is_given_up_and_the_next_request_gets_a_new_one(
    runs: Runs, proxy: Proxy
) -> None:
    async def test(client: Runner) -> None:
        await client.list_topics()
        proxy.swallows = True
        with pytest.raises(errors.DeadlineError):
            await client.run(flows.ask(proxy.address, GetTopics(), 0.3))
        proxy.swallows = False
        await client.list_topics()
        assert proxy.connections == 2

    runs([proxy.address], test)


def test_a_cut_connection_ends_the_wait_at_once(runs: Runs, proxy: Proxy) -> None:
    async def test(client: Runner) -> None:
        await client.list_topics()
        proxy.swallows = True
        cut = threading.Timer(0.2, proxy.cut)
        cut.start()
        with pytest.raises(errors.ConnectionLostError):
            await client.run(flows.ask(proxy.address, GetTopics(), 60))
        cut.join()

    runs([proxy.address], test)


def test_after_a_cut_the_next_request_works(runs: Runs, proxy: Proxy) -> None:
    async def test(client: Runner) -> None:
        before = await client.list_topics()
        proxy.cut()
        try:
            after = await client.list_topics()
        except (
            errors.NoNameServerError
        ):  # the client had not noticed the end of the old connection yet
            after = await client.list_topics()
        assert after == before

    runs([proxy.address], test)


def test_a_slow_network_delays_and_breaks_nothing(runs: Runs, proxy: Proxy) -> None:
    async def test(client: Runner) -> None:
        proxy.delay_seconds = 0.2
        begun = time.monotonic()
        await client.list_topics()
        assert time.monotonic() - begun >= 0.4

    runs([proxy.address], test)


def test_another_name_server_stands_in_and_is_asked_first_from_then_on(
    runs: Runs, proxy: Proxy
) -> None:
    async def test(client: Runner) -> None:
        await client.list_topics()
        assert client.client.directory.name_servers[0] == proxy.address

    runs([free_address(), proxy.address], test)


def test_when_no_name_server_answers_each_is_named(runs: Runs) -> None:
    addresses = [free_address(), free_address()]

    async def test(client: Runner) -> None:
        with pytest.raises(errors.NoNameServerError) as caught:
            await client.list_topics()
        assert all(address in str(caught.value) for address in addresses)

    runs(addresses, test)


def test_a_host_that_does_not_exist_is_an_error(runs: Runs) -> None:
    async def test(client: Runner) -> None:
        with pytest.raises(errors.NoNameServerError, match=r"nowhere\.invalid:9876"):
            await client.list_topics()

    runs(["nowhere.invalid:9876"], test)


def test_a_server_of_another_kind_is_told_at_once(runs: Runs) -> None:
    """A server that is not RocketMQ answers. Here, it sends the greeting of SSH."""

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)

        def greet() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                peer.recv(1)  # the client's request, or its end

        greeter = threading.Thread(target=greet)
        greeter.start()

        async def test(client: Runner) -> None:
            with pytest.raises(errors.NoNameServerError, match="is this the port of a RocketMQ"):
                await client.list_topics()

        runs([f"127.0.0.1:{server.getsockname()[1]}"], test)
        greeter.join()


def test_many_threads_share_one_connection(proxy: Proxy) -> None:
    with blocking.Client(proxy.address) as client:
        seen: list[list[str]] = []

        def ask() -> None:
            seen.extend(client.list_topics() for _ in range(50))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(seen) == 400
        assert proxy.connections == 1


def test_a_client_that_is_closed_lets_go_of_those_who_wait(proxy: Proxy) -> None:
    client = blocking.Client(proxy.address)
    client.list_topics()
    proxy.swallows = True
    threading.Timer(0.2, client.close).start()
    with pytest.raises(errors.MqError, match="closed"):
        client.engine.run(flows.ask(proxy.address, GetTopics(), 60))
    with pytest.raises(errors.ClosedError):
        client.list_topics()
