"""The sandbox's real RocketMQ: servers that end and restart, and what they leave behind."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mq_client import decoding, errors
from mq_client.commands.cluster import GetRoute, GetRuntimeInfo
from mq_client.commands.pulling import Pull
from mq_client.commands.sending import Send
from mq_client.values import MessageQueue, Pulled, PullStatus
from sandbox import asking, jars, process, rocketmq
from tests.ending import ends

ROOT = Path(__file__).parents[2]
UP = [sys.executable, "-m", "sandbox", "rocketmq", "up"]
PATIENCE_SECONDS = 120.0


@pytest.fixture(scope="module", autouse=True)
def _jars() -> None:
    if jars.find_java() is None:
        pytest.skip("NO REAL ROCKETMQ: there is no Java here (17 or newer)")


@pytest.fixture(scope="module")
def shared() -> Iterator[rocketmq.RocketMq]:
    with rocketmq.run(brokers=2) as mq:
        yield mq


@pytest.fixture
def mq(shared: rocketmq.RocketMq) -> rocketmq.RocketMq:
    """Two brokers. They run again if the last test has stopped them."""
    for broker in shared.brokers.values():
        if not broker.is_running:
            broker.restart()
    return shared


@pytest.fixture
def topic(mq: rocketmq.RocketMq, request: pytest.FixtureRequest) -> str:
    """A topic that no other test uses, with two queues on each of both brokers."""
    name = request.node.name
    mq.create_topics({name: 2})
    return str(name)


def holders(mq: rocketmq.RocketMq, topic: str) -> dict[str, str]:
    return {broker: address for broker, _, address in mq.name_server.list_addresses(topic)}


def send(broker: rocketmq.Broker, topic: str, body: bytes) -> None:
    """Send to queue 0."""
    now = time.time_ns() // 1_000_000
    asking.ask(broker.address, Send("test", MessageQueue(topic, broker.name, 0), body, "", now))


def pull(broker: rocketmq.Broker, topic: str) -> Pulled:
    """Pull the first message of queue 0, and wait up to 2 s for it."""
    return asking.ask(broker.address, Pull("test", topic, 0, 0, 1, 1 << 20, 2_000))


def received(broker: rocketmq.Broker, topic: str) -> bytes:
    """Wait for the first message of queue 0; return its body."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (answer := pull(broker, topic)).status is not PullStatus.FOUND:
        assert time.monotonic() < deadline, answer.remark
    return next(decoding.decode(answer.body, broker=broker.name)).body


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [*map(int, children), *(deep for one in children for deep in descendants(int(one)))]


def data_folder(pids: list[int]) -> Path:
    """Find RocketMQ's data folder in the command line of one of its processes."""
    words = b"\0".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids).split(b"\0")
    home = next(word for word in words if word.startswith(b"-Duser.home="))
    return Path(home.decode().partition("=")[2]).parent


def test_two_brokers_answer_and_stand_in_the_route_at_once(mq: rocketmq.RocketMq) -> None:
    assert list(mq.brokers) == ["broker-a", "broker-b"]
    assert holders(mq, rocketmq.CLUSTER) == {n: b.address for n, b in mq.brokers.items()}
    assert not mq.slaves


def test_everything_but_the_port_for_slaves_is_bound_to_loopback(mq: rocketmq.RocketMq) -> None:
    ports = [
        int(server.address.partition(":")[2]) for server in (mq.name_server, *mq.brokers.values())
    ]
    listening = [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    listening += [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    hosts = {host for _, local, _, state, *_ in listening if state == "0A"
             for host, _, port in [local.partition(":")] if int(port, 16) in ports}  # fmt: skip
    assert hosts == {"0000000000000000FFFF00000100007F"}


def test_topics_are_on_all_brokers_or_on_those_asked_for(mq: rocketmq.RocketMq) -> None:
    mq.create_topics({"on-all": 8, "on-all-too": 4})
    mq.create_topics({"on-b": 2}, brokers=["broker-b"])
    assert set(holders(mq, "on-all")) == {"broker-a", "broker-b"}
    assert set(holders(mq, "on-b")) == {"broker-b"}
    route = asking.ask(mq.name_server.address, GetRoute("on-all-too"))
    assert [broker.write_queues for broker in route.brokers] == [4, 4]


def test_a_topic_that_rocketmq_refuses_is_an_error(mq: rocketmq.RocketMq) -> None:
    with pytest.raises(errors.AnswerError, match=r"no/name .*contains illegal"):
        mq.create_topics({"no/name": 1})


def test_sending_makes_no_topic(mq: rocketmq.RocketMq) -> None:
    with pytest.raises(errors.TopicUnknownError, match="not exist"):
        send(mq.brokers["broker-a"], "a-typo", b"lost")


def test_a_killed_broker_leaves_the_route_and_comes_back_with_its_data(
    mq: rocketmq.RocketMq, topic: str
) -> None:
    broker = mq.brokers["broker-a"]
    address, pid = broker.address, broker.pid
    send(broker, topic, b"kept")
    assert received(broker, topic) == b"kept"
    broker.kill()
    assert not broker.is_running
    assert ends(pid)
    broker.restart()
    assert broker.address == address
    assert holders(mq, topic)["broker-a"] == address
    assert received(broker, topic) == b"kept"


def test_a_broker_moves_to_another_port_with_its_data(mq: rocketmq.RocketMq, topic: str) -> None:
    broker = mq.brokers["broker-b"]
    old = broker.address
    send(broker, topic, b"moved")
    broker.move()
    assert broker.address != old
    assert holders(mq, topic)["broker-b"] == broker.address
    assert received(broker, topic) == b"moved"


def test_brokers_stand_in_the_route_of_a_name_server_that_came_back(
    mq: rocketmq.RocketMq, topic: str
) -> None:
    before = holders(mq, topic)
    mq.name_server.kill()
    with pytest.raises(errors.ConnectionLostError, match="refused"):
        holders(mq, topic)
    assert all(broker.is_running for broker in mq.brokers.values())
    mq.name_server.restart()
    assert holders(mq, topic) == before


def test_a_stopped_broker_has_ended_by_itself(mq: rocketmq.RocketMq) -> None:
    broker = mq.brokers["broker-a"]
    broker.stop()
    assert not broker.is_running
    assert "Shutdown hook over" in broker.log.read_text()


def test_two_sandboxes_live_side_by_side(mq: rocketmq.RocketMq, topic: str) -> None:
    with rocketmq.run(brokers=1) as other:
        assert other.brokers["broker-a"].address != mq.brokers["broker-a"].address
        assert holders(other, topic) == {}
    assert set(holders(mq, topic)) == {"broker-a", "broker-b"}


def test_a_slave_serves_what_its_master_had() -> None:
    with rocketmq.run(brokers=1, slaves=1) as mq:
        mq.create_topics({"copied": 1})
        master, slave = mq.brokers["broker-a"], mq.slaves["broker-a-slave-1"]
        send(master, "copied", b"copied")
        assert received(slave, "copied") == b"copied"
        master.kill()
        assert received(slave, "copied") == b"copied"
        assert mq.name_server.list_addresses(rocketmq.CLUSTER) == {("broker-a", 1, slave.address)}


def test_a_broker_that_refuses_its_properties_is_reported_with_its_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "_keep_log", lambda log: tmp_path / log.name)
    refused = {"brokerRole": "SLAVE"}
    with (
        pytest.raises(
            process.PartNotReadyError, match=r"(?s)broker-a ended.*brokerId must be > 0"
        ) as caught,
        rocketmq.run(brokers=1, properties=refused),
    ):
        pytest.fail("it started")
    assert str(tmp_path / "broker-a.log") in str(caught.value)


def test_a_broker_whose_port_is_taken_is_reported_long_before_the_time_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        began = time.monotonic()
        port = {"haListenPort": str(taken.getsockname()[1])}
        with (
            pytest.raises(
                process.PartNotReadyError, match=r"(?s)broker-a .*Address already in use"
            ),
            rocketmq.run(brokers=1, properties=port),
        ):
            pytest.fail("it started")
    assert time.monotonic() - began < PATIENCE_SECONDS / 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_command_tells_where_all_is_and_leaves_nothing(number: signal.Signals) -> None:
    """The command continues when its standard input ends, because services have no input."""
    with subprocess.Popen(
        [*UP, "--brokers", "1"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as command:
        assert command.stdout is not None
        told = json.loads(command.stdout.readline())
        assert list(told) == ["nameServer", "brokers"]
        assert asking.ask(told["brokers"]["broker-a"], GetRuntimeInfo())
        assert asking.ask(told["nameServer"], GetRoute(rocketmq.CLUSTER)).brokers
        started = descendants(command.pid)
        folder = data_folder(started)
        assert folder.is_dir()
        command.send_signal(number)
        assert command.wait(PATIENCE_SECONDS) == (-9 if number == signal.SIGKILL else 0)
    assert len(started) == 5  # two Java processes, their two guards, and the guard of the folder
    assert all(ends(pid) for pid in started)
    assert not folder.exists()


def test_the_command_ends_as_well_while_it_starts() -> None:
    with subprocess.Popen(UP, cwd=ROOT, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        while not (started := [pid for pid in descendants(command.pid) if is_java(pid)]):
            assert command.poll() is None
        folder = data_folder(started)
        command.terminate()
        assert command.wait(PATIENCE_SECONDS) == 0
        assert command.stdout.read() == ""
    assert all(ends(pid) for pid in started)
    assert not folder.exists()


def is_java(pid: int) -> bool:
    try:
        return b"-Duser.home=" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_a_command_that_cannot_start_says_why() -> None:
    refused = subprocess.run(
        [*UP, "--property", "brokerRole=SLAVE"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert "Slave's brokerId must be > 0" in refused.stderr
    assert "Traceback" not in refused.stderr
