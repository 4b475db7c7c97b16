"""
A real RocketMQ for all tests of this folder, and a new topic and group for each.

Where there is no JDK, or its libraries cannot be fetched, the tests are skipped and say so.
"""

import contextlib
import itertools
import re
from collections.abc import Iterator

import pytest

from mq_client import blocking, values
from sandbox import jars, rocketmq
from tests.real import java_client

TOPIC_QUEUES = 2
_numbers = itertools.count(1)


@pytest.fixture(scope="session", name="rocketmq")
def _rocketmq() -> Iterator[rocketmq.RocketMq]:
    """Two brokers, shared by the whole run: leave them as they were."""
    with contextlib.ExitStack() as running:
        try:
            mq = running.enter_context(rocketmq.started(brokers=2))
        except jars.JarsError as error:
            pytest.skip(f"NO REAL ROCKETMQ: {error}")
        yield mq


@pytest.fixture(scope="module")
def java(rocketmq: rocketmq.RocketMq) -> Iterator[java_client.JavaClient]:
    """RocketMQ's own client."""
    with contextlib.ExitStack() as running:
        try:
            client = java_client.JavaClient(rocketmq.name_server.address)
        except jars.JarsError as error:
            pytest.skip(f"NOT COMPARED WITH ROCKETMQ'S CLIENT: {error}")
        yield running.enter_context(client)


@pytest.fixture
def client(rocketmq: rocketmq.RocketMq) -> Iterator[blocking.Client]:
    with blocking.Client(rocketmq.name_server.address) as opened:
        yield opened


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> str:
    """A name for whatever only this test uses."""
    words = re.sub(r"\W+", "_", request.node.name.removeprefix("test_"))
    return f"{next(_numbers)}-{words[:40]}"


@pytest.fixture
def topic(rocketmq: rocketmq.RocketMq, unique_name: str) -> str:
    """A topic of two queues on both brokers."""
    rocketmq.create_topics({unique_name: TOPIC_QUEUES})
    return unique_name


@pytest.fixture
def queue(topic: str) -> values.Queue:
    """One of the topic's queues; neither its broker nor its number is the first."""
    return values.Queue(topic, "broker-b", 1)


@pytest.fixture
def group(unique_name: str) -> str:
    return f"group-{unique_name}"
