"""A group by message that keeps the order of each queue, with both stores."""

import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from mq_client.blocking import Client
from mq_client.choosers import ByKey
from mq_client.messages import Message
from mq_client.values import GroupConfig
from sandbox import jars, java_follower
from sandbox.rocketmq import RocketMq
from sandbox.waiting import wait_for
from tests.coordinating import Coordinator
from tests.followers import Followers

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")

HERE = Path(__file__).parent
BROKER, QUEUES, BATCH = "broker-a", 4, 4
MESSAGES, KEYS, AHEAD = 10_000, 50, 500
JAVA_OPTIONS = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m"]
HANDLER = """
import os

OUT = os.open(os.environ["OUT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def handle(messages):
    for each in messages:
        line = f"{os.environ['NAME']} {each.queue_id} {each.queue_offset} {each.body.decode()}\\n"
        os.write(OUT, line.encode())
"""


class Line(NamedTuple):
    """A message that somebody has handled."""

    name: str
    queue: int
    offset: int
    key: str
    number: int


@dataclass
class Orders:
    """Numbered messages of some keys, and what the members have handled, in this order."""

    followers: Followers
    address: str
    out: Path
    sent: int = 0
    _is_over: threading.Event = field(default_factory=threading.Event)
    _sender: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._sender = threading.Thread(target=self._send)

    @property
    def coordinator(self) -> Coordinator:
        return self.followers.coordinator

    def start(self, name: str) -> None:
        self.followers.start(name, OUT=str(self.out))

    def start_java(self) -> subprocess.Popen[bytes]:
        """Start a consumer that pops all queues, although others hold them."""
        libraries = jars.fetch_classpath(java_follower.CLIENT)
        classes = jars.compile_sources([HERE / "PopInOrder.java"], libraries)
        with Client(self.address) as client:
            route = client.find_route(self.coordinator.topic)
        (broker,) = route.brokers
        command = [
            str(jars.find_java()), *JAVA_OPTIONS, f"-Duser.home={self.out.parent}",
            "-cp", os.pathsep.join([str(classes), libraries]), "PopInOrder", self.address,
            self.coordinator.topic, self.coordinator.group, str(QUEUES), BROKER,
            str(broker.master), str(self.out),
        ]  # fmt: skip
        return subprocess.Popen(command)

    def own(self, **owners: str) -> None:
        """Let members own these queues."""
        self.coordinator.publish({name: [(BROKER, ids)] for name, ids in owners.items()})

    def begin_to_send(self) -> None:
        self._sender.start()

    def stop_sending(self) -> None:
        self._is_over.set()
        if self._sender.is_alive():
            self._sender.join()

    def _send(self) -> None:
        """Send each key to one queue, and never be far ahead of the members."""
        with Client(self.address) as client:
            while not self._is_over.is_set():
                if self.sent % 100 == 0 and self.sent >= len(self.read_lines()) + AHEAD:
                    self._is_over.wait(0.05)
                    continue
                key = f"k{self.sent % KEYS}"
                message = Message(self.coordinator.topic, f"{key} {self.sent}".encode())
                client.send([message], ByKey(key))
                self.sent += 1

    def read_lines(self) -> list[Line]:
        text = self.out.read_text() if self.out.exists() else ""
        found = (line.split() for line in text.splitlines())
        return [
            Line(name, int(queue), int(offset), key, int(number))
            for name, queue, offset, key, number in found
        ]

    def wait_for(self, count: int, name: str = "") -> list[Line]:
        """Wait until so many more messages are handled, by this member if it has a name."""

        def find() -> int:
            return sum(name in ("", line.name) for line in self.read_lines())

        before = find()
        found = wait_for(find, lambda now: now >= before + count)
        assert found >= before + count, self.followers.logs()
        return self.read_lines()


@pytest.fixture
def orders(popping_mq: RocketMq, unique_name: str, tmp_path: Path) -> Iterator[Orders]:
    popping_mq.create_topics({unique_name: QUEUES})
    (tmp_path / "shop.py").write_text(HANDLER)
    address, group = popping_mq.name_server.address, f"g-{unique_name}"
    with Client(address) as client:
        client.put_group(GroupConfig(group))
    settings = {"invisibleTime": "10s", "batch": BATCH, "ordered": True}
    with Coordinator(address, unique_name, group, "20s", messages=settings) as coordinator:
        followers = Followers(coordinator, tmp_path, "shop:handle")
        found = Orders(followers, address, tmp_path / "out")
        try:
            yield found
        finally:
            followers.kill()
            found.stop_sending()


def find_repeats(lines: list[Line]) -> list[Line]:
    """Check that no message is handled before an earlier one of its queue. Find the repeats."""
    ends: Counter[int] = Counter()
    last: dict[str, int] = {}
    repeats = []
    for line in lines:
        assert line.offset <= ends[line.queue], f"{line}: {ends[line.queue]} is not handled yet"
        if line.offset < ends[line.queue]:
            repeats.append(line)
        else:
            ends[line.queue] += 1
            assert line.number > last.get(line.key, -1), line
            last[line.key] = line.number
    return repeats


def test_the_order_of_each_queue_survives_joins_leaves_kills_and_a_client_that_nobody_told(
    orders: Orders,
) -> None:
    orders.own(a="0-1", b="2-3")
    orders.start("a")
    orders.start("b")
    orders.begin_to_send()
    orders.wait_for(400, "b")
    orders.start("c")
    orders.own(a="0", b="2-3", c="1")
    orders.wait_for(250, "c")
    orders.own(b="1-2", c="0,3")
    orders.followers.running["a"].terminate()
    assert orders.followers.running["a"].wait(300) == 0
    lines = orders.wait_for(300)
    assert not find_repeats(lines), "nobody has died yet"
    java = orders.start_java()
    try:
        lines = orders.wait_for(40, "java")
    finally:
        java.kill()
        java.wait()
    assert not find_repeats(lines), "the broker lends a queue to one of them at a time"
    orders.wait_for(300)
    orders.followers.running["b"].kill()
    orders.coordinator.end("b")
    orders.own(c="0-3")
    orders.wait_for(500, "c")
    orders.start("d")
    orders.followers.running["c"].send_signal(signal.SIGSTOP)
    orders.own(d="0-3")
    orders.wait_for(200, "d")
    orders.followers.running["c"].send_signal(signal.SIGCONT)
    sent = wait_for(lambda: orders.sent, lambda count: count >= MESSAGES)
    assert sent >= MESSAGES, orders.followers.logs()
    orders.stop_sending()
    everything = {*range(orders.sent)}
    lines = wait_for(orders.read_lines, lambda lines: {line.number for line in lines} == everything)
    assert {line.number for line in lines} == everything, orders.followers.logs()
    repeats = find_repeats(lines)
    # For each queue, `b` and `c` may have handled one call without an acknowledgement.
    assert len(repeats) <= 1 + BATCH * (2 + QUEUES), repeats
