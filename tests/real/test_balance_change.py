"""A group changes from queues to messages and back, while messages arrive, with both stores."""

import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mq_client.blocking import Client
from mq_client.choosers import RoundRobin
from mq_client.messages import Message
from sandbox import jars
from sandbox.rocketmq import RocketMq
from sandbox.waiting import wait_for
from tests.real import member_pages

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")

MANIFESTS = """\
apiVersion: evenkeel.dev/v1alpha1
kind: Topic
metadata: {{name: orders}}
spec: {{topic: {topic}, nameServers: ["{name_server}"]}}
---
apiVersion: evenkeel.dev/v1alpha1
kind: ConsumerGroup
metadata: {{name: billing}}
spec:
  group: g-{topic}
  topics: [{{name: orders}}]
  balance: {balance}
  messages: {{invisibleTime: 10s, backoff: 1s, ordered: {ordered}}}
  consumers:
    members: {{session: 2s}}
"""
HANDLER = """
import os

OUT = open(f"out-{os.getpid()}", "a", buffering=1)
failed = set()


def handle(messages):
    numbers = [int(message.body) for message in messages]
    new = {number for number in numbers if number % 50 == 7} - failed
    if new:
        failed.update(new)
        raise ValueError(f"{new}: not yet")
    OUT.write("".join(f"{number}\\n" for number in numbers))
"""
QUIET_SECONDS = 16.0
"""Longer than an invisible time, and than a broker needs to let a message come again."""


@dataclass
class Sending:
    """Sends numbered messages until it is stopped."""

    address: str
    topic: str
    sent: int = 0
    may_send: threading.Event = field(default_factory=threading.Event)
    """While it is not set, nothing is sent."""
    _end: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Sending":
        self.may_send.set()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._end.set()
        self.may_send.set()
        self._thread.join()

    def _send(self) -> None:
        chooser = RoundRobin()
        with Client(self.address) as client:
            while not self._end.wait(0.005):
                self.may_send.wait()
                client.send([Message(self.topic, b"%d" % self.sent)], chooser)
                self.sent += 1


class Way(NamedTuple):
    """How the members of a group read."""

    balance: str
    is_ordered: bool = False


BY_QUEUE, BY_MESSAGE, IN_ORDER = Way("Queues"), Way("Messages"), Way("Messages", is_ordered=True)


@dataclass(frozen=True)
class Scene:
    """A group, and what the handlers of its two members have done."""

    folder: Path
    topic: str
    address: str

    def describe(self, way: Way) -> str:
        return MANIFESTS.format(
            topic=self.topic, name_server=self.address, balance=way.balance,
            ordered=str(way.is_ordered).lower(),
        )  # fmt: skip

    def change(self, way: Way) -> None:
        """Change the file, and wait until members may read in the new way."""
        (self.folder / "part").write_text(self.describe(way))
        (self.folder / "part").replace(self.folder / "members.yaml")
        found = wait_for(self.read_way, lambda found: found == way)
        assert found == way, f"{self.read_status()} {self.read_logs()}"

    def read_way(self) -> Way:
        """Read how members may read now. A file leaves out values that are the default."""
        found = self.read_status()
        return Way(found.get("balance", "Queues"), found.get("ordered", False))

    def read_status(self) -> dict[str, Any]:
        """Read the group's status."""
        found = json.loads((self.folder / ".evenkeel" / "status.json").read_text())
        status: dict[str, Any] = next(
            each["status"] for each in found if each["kind"] == "ConsumerGroup"
        )
        return status

    def read_numbers(self) -> list[int]:
        return [int(n) for out in self.folder.glob("out-*") for n in out.read_text().split()]

    def wait_for_more(self, count: int) -> None:
        before = len(self.read_numbers())
        assert wait_for(self.read_numbers, lambda found: len(found) >= before + count), (
            self.read_logs()
        )

    def read_logs(self) -> str:
        return "\n".join((self.folder / name).read_text() for name in ("run", "one", "two"))


@pytest.fixture
def scene(
    popping_mq: RocketMq, unique_name: str, tmp_path: Path, members_port: int
) -> Iterator[Scene]:
    popping_mq.create_topics({unique_name: 4})
    (tmp_path / "shop.py").write_text(HANDLER)
    found = Scene(tmp_path, unique_name, popping_mq.name_server.address)
    member = [
        sys.executable, "-m", "follower", "shop:handle", "--group", "default/billing",
        "--coordinator", f"http://127.0.0.1:{members_port}",
        "--token-file", ".evenkeel/members.token",
    ]  # fmt: skip
    with member_pages.play(tmp_path, found.describe(BY_QUEUE), members_port, member):
        yield found


def test_nothing_is_lost_or_handled_twice_while_the_balance_changes(scene: Scene) -> None:
    """The handler fails once with some messages, so some come again after each change."""
    with Sending(scene.address, scene.topic) as sending:
        scene.wait_for_more(200)
        for way, is_idle in (
            (BY_MESSAGE, False),
            (BY_QUEUE, False),
            (IN_ORDER, False),
            (BY_MESSAGE, True),
            (IN_ORDER, True),
            (BY_MESSAGE, False),
            (IN_ORDER, False),
            (BY_QUEUE, True),
        ):
            if is_idle:  # the requests of members wait at the broker
                sending.may_send.clear()
                missing = wait_for(
                    lambda: sending.sent - len({*scene.read_numbers()}), lambda count: count <= 0
                )
                assert missing <= 0, scene.read_logs()
            scene.change(way)
            sending.may_send.set()
            scene.wait_for_more(400)
        sending.stop()
        everything = Counter(range(sending.sent))
        wait_for(scene.read_numbers, lambda found: {*found} == {*everything})
        # What comes again would come now.
        wait_for(scene.read_numbers, lambda found: len(found) > sending.sent, QUIET_SECONDS)
        found = Counter(scene.read_numbers())
        lost, twice = everything - found, found - everything
        assert not lost, f"{sorted(lost)[:20]} of {sending.sent}: {scene.read_logs()}"
        assert not twice, f"{sorted(twice)[:20]} of {sending.sent}: {scene.read_logs()}"
