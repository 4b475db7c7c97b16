"""Brokers that require signed requests, and use TLS."""

import asyncio
import ssl
from collections.abc import Iterator

import pytest
import trustme

from mq_client import aio, blocking, errors
from mq_client.acl import Credentials
from mq_client.choosers import RoundRobin
from mq_client.commands.cluster import GetRuntimeInfo
from mq_client.flows import ask
from mq_client.messages import Message
from mq_client.pulling import Position
from mq_client.values import TopicConfig
from sandbox import jars, rocketmq
from tests.real.secured import KEEPER, SECURED, tls_options

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def secured(
    authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[rocketmq.RocketMq]:
    """A broker and a name server that accept TLS and plain connections."""
    place = tmp_path_factory.mktemp("tls")
    options = tls_options(authority, place)
    with rocketmq.run(
        brokers=1, properties=SECURED, java_options=options, credentials=KEEPER
    ) as mq:
        yield mq


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def test_a_known_caller_makes_topics_sends_and_reads_over_tls(
    secured: rocketmq.RocketMq, authority: trustme.CA
) -> None:
    tls = trusting(authority)
    with blocking.Client(secured.name_server.address, credentials=KEEPER, tls=tls) as client:
        client.put_topics([TopicConfig("sealed", 1, 1), TopicConfig("other", 1, 1)])
        bodies = [bytes([number]) * 5000 for number in range(100)]
        sent = client.send([Message("sealed", body) for body in bodies], RoundRobin())
        reader = client.read("readers", [Position(sent.queue, 0, stop=len(bodies))])
        assert [m.body for batch in reader for m in batch.to_messages()] == bodies


def test_asyncio_speaks_tls_as_well(secured: rocketmq.RocketMq, authority: trustme.CA) -> None:
    async def ask_topics() -> list[str]:
        tls = trusting(authority)
        async with aio.Client(secured.name_server.address, tls=tls) as client:
            return await client.list_topics()

    assert "SELF_TEST_TOPIC" in asyncio.run(ask_topics())


def test_a_certificate_that_nobody_vouches_for_is_refused(secured: rocketmq.RocketMq) -> None:
    tls = ssl.create_default_context()
    with (
        blocking.Client(secured.name_server.address, tls=tls) as client,
        pytest.raises(errors.NoNameServerError, match=r"(?i)certificate verify failed"),
    ):
        client.list_topics()


@pytest.mark.parametrize(
    "credentials", [None, Credentials("keeper", "wrong"), Credentials("stranger", "x")], ids=str
)
def test_others_are_told_that_they_may_not(
    secured: rocketmq.RocketMq, credentials: Credentials | None
) -> None:
    with blocking.Client(secured.name_server.address, credentials=credentials) as client:
        flow = ask(secured.brokers["broker-a"].address, GetRuntimeInfo(), 5)
        with pytest.raises(errors.NotPermittedError, match="access key"):
            client.engine.run(flow)
