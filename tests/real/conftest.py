"""
Provides a real RocketMQ and a real Kubernetes API for all tests of this folder.

If there is no JDK, or something cannot be downloaded or built, tests are skipped and say why.
"""

import contextlib
import itertools
import re
from collections.abc import Iterator

import pytest

from contract.kinds import parts
from evenkeel import crds
from mq_client import blocking, values
from sandbox import debian, jars, kubernetes, ports, postgres, rocketmq, s3
from sandbox.waiting import wait_for
from tests.real import java_client

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The processes of a test end soon, so Java need not optimize the code that it runs."""
TOPIC_QUEUES = 2
ZONES = {"broker-a": "zone-a", "broker-b": "zone-b"}
_numbers = itertools.count(1)


@pytest.fixture(scope="session", autouse=True)
def _quick_java() -> Iterator[None]:
    """Make every Java process of a test start fast, even if another program starts the process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", QUICK_JAVA)
        yield


@pytest.fixture(scope="session", name="rocketmq")
def _rocketmq() -> Iterator[rocketmq.RocketMq]:
    """Two brokers, each in a zone. The whole run shares them: leave them as they were."""
    with contextlib.ExitStack() as running:
        try:
            mq = running.enter_context(rocketmq.run(brokers=2, zones=ZONES))
        except jars.JarsError as error:
            pytest.skip(f"NO REAL ROCKETMQ: {error}")
        yield mq


@pytest.fixture(scope="module", params=rocketmq.POP_STORES)
def popping_mq(request: pytest.FixtureRequest) -> Iterator[rocketmq.RocketMq]:
    """A broker that can pop, with each store in turn."""
    properties = rocketmq.POP_STORES[request.param]
    with rocketmq.run(1, properties=properties, java_options=[rocketmq.POP_MEMORY]) as mq:
        yield mq


@pytest.fixture(scope="session")
def postgres_address() -> Iterator[str]:
    """The address of a database that the whole run shares. Drop tables before you create them."""
    with contextlib.ExitStack() as running:
        try:
            yield running.enter_context(postgres.run())
        except debian.NoDebianError as error:
            pytest.skip(f"NO REAL POSTGRESQL: {error}")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[s3.S3Server]:
    """A store with one bucket, which the whole run shares. Write only below a name of your own."""
    with contextlib.ExitStack() as running:
        try:
            server = running.enter_context(s3.run("rows"))
        except jars.JarsError as error:
            pytest.skip(f"NO REAL S3: {error}")
        patch = running.enter_context(pytest.MonkeyPatch.context())
        for name, text in server.environment.items():
            patch.setenv(name, text)
        yield server


@pytest.fixture(scope="session", name="kubernetes")
def _kubernetes() -> Iterator[kubernetes.Cluster]:
    """An API server with our kinds, which the whole run shares."""
    with contextlib.ExitStack() as running:
        try:
            cluster = running.enter_context(kubernetes.run())
        except jars.JarsError as error:
            pytest.skip(f"NO REAL KUBERNETES: {error}")
        for kind in crds.KINDS:
            made = cluster.admin.ask("POST", DEFINITIONS, crds.build_definition(kind))
            assert made.status == 201, made.body
            path = f"/apis/{parts.GROUP}/{parts.VERSION}/{kind.plural}"
            found = wait_for(
                lambda path=path: cluster.admin.ask("GET", path),  # type: ignore[misc]
                lambda answer: answer.status == 200,
            )
            assert found.status == 200
        yield cluster


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
    """A name that only this test uses."""
    words = re.sub(r"\W+", "_", request.node.name.removeprefix("test_"))
    return f"{next(_numbers)}-{words[:40]}"


@pytest.fixture
def topic(rocketmq: rocketmq.RocketMq, unique_name: str) -> str:
    """A topic of two queues on both brokers."""
    rocketmq.create_topics({unique_name: TOPIC_QUEUES})
    return unique_name


@pytest.fixture
def queue(topic: str) -> values.MessageQueue:
    """One of the topic's queues; neither its broker nor its number is the first."""
    return values.MessageQueue(topic, "broker-b", 1)


@pytest.fixture
def members_port() -> Iterator[int]:
    """A port for a coordinator. No other process takes the port meanwhile."""
    claimed = ports.claim()
    yield claimed.port
    claimed.release()


@pytest.fixture
def group(unique_name: str) -> str:
    return f"group-{unique_name}"
