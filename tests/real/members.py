"""
Members of a group in separate processes, on real brokers.

Messages are numbered, and each handled message is a line in a file: the member, the time by a clock
of that member, the broker, the queue, the offset and the number.
"""

import collections
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self

from coordinator.sessions import HeldQueues
from mq_client.blocking import Client
from mq_client.choosers import To
from mq_client.messages import Message
from mq_client.values import MessageQueue
from sandbox.waiting import wait_for
from tests.followers import Members

SOON_SECONDS = 2.0
"""A queue is read again within a session's length plus this time."""


class Line(NamedTuple):
    """A message that was handled."""

    member: str
    at: float
    broker: str
    queue: int
    offset: int
    number: int


class Scene:
    """A coordinator, and followers with their output."""

    def __init__(self, client: Client, followers: Members) -> None:
        self.coordinator = coordinator = followers.coordinator
        self.client = client
        self.followers = followers
        self.out = followers.folder / "handled"
        self.sent = 0
        self._lines: list[Line] = []
        self._read_bytes = 0
        self.queues = [
            MessageQueue(coordinator.topic, broker, each)
            for broker in ("broker-a", "broker-b")
            for each in range(2)
        ]

    def start(self, name: str, *more: str) -> subprocess.Popen[bytes]:
        return self.followers.start(name, *more, OUT=str(self.out))

    def start_all(
        self, owners: Mapping[str, Sequence[tuple[str, str]]]
    ) -> dict[str, subprocess.Popen[bytes]]:
        """Start members with their queues, and wait until no member has a lent queue."""
        self.coordinator.publish(owners)
        started = {name: self.start(name) for name in owners}
        settled = HeldQueues(sessions=len(owners), granted_queues=len(self.queues))
        held = wait_for(lambda: self.coordinator.held, lambda held: held == settled)
        assert held == settled, self.followers.logs()
        return started

    def log(self, name: str) -> Path:
        return self.followers.log(name)

    def lines(self) -> list[Line]:
        """Read the new lines; return all lines."""
        if self.out.exists():
            with self.out.open("rb") as out:
                out.seek(self._read_bytes)
                new = out.read()
            new = new[: new.rfind(b"\n") + 1]
            self._read_bytes += len(new)
            for line in new.decode().splitlines():
                member, at, broker, queue, offset, number = line.split()
                self._lines.append(
                    Line(member, float(at), broker, int(queue), int(offset), int(number))
                )
        return [*self._lines]

    def numbers(self) -> list[int]:
        return [line.number for line in self.lines()]

    def send(self, count: int) -> None:
        """Send the next numbers to all queues in turn."""
        for queue in self.queues:
            mine = [
                Message(queue.topic, str(each).encode())
                for each in range(self.sent, self.sent + count)
                if self.queues[each % len(self.queues)] == queue
            ]
            if mine:
                self.client.send(mine, To(queue))
        self.sent += count

    def wait_for(self, is_so: Callable[[list[Line]], bool]) -> list[Line]:
        found = wait_for(self.lines, is_so, pause_seconds=0.05)
        assert is_so(found), self.followers.logs()
        return found

    def wait_for_all(self) -> list[Line]:
        return self.wait_for(lambda lines: len({line.number for line in lines}) == self.sent)

    def twice(self) -> list[Line]:
        """List the lines of numbers that were handled before."""
        seen: set[int] = set()
        found = []
        for line in self.lines():
            if line.number in seen:
                found.append(line)
            seen.add(line.number)
        return found


BOTH = {"a": [("broker-a", "0-1")], "b": [("broker-b", "0-1")]}


def read_by(lines: Sequence[Line], member: str) -> list[Line]:
    return [line for line in lines if line.member == member]


def assert_order_is_kept(lines: Sequence[Line]) -> None:
    """Check that each member handled the messages of each queue in the order of their offsets."""
    by_queue: dict[tuple[str, str, int], list[int]] = collections.defaultdict(list)
    for line in lines:
        by_queue[line.member, line.broker, line.queue].append(line.offset)
    for offsets in by_queue.values():
        assert offsets == sorted(offsets)


def by_queue(lines: Sequence[Line]) -> dict[tuple[str, int], list[Line]]:
    """Return the lines of each queue, in the order of time."""
    found: dict[tuple[str, int], list[Line]] = collections.defaultdict(list)
    for line in lines:
        found[line.broker, line.queue].append(line)
    return found


def takeovers(lines: Sequence[Line], since: float) -> dict[tuple[str, int], float]:
    """Measure how long no message of a queue was handled before another member took over."""
    found: dict[tuple[str, int], float] = {}
    for queue, each in by_queue(lines).items():
        for before, after in pairwise(each):
            if before.member != after.member and after.at > since:
                found.setdefault(queue, after.at - before.at)
    return found


class Stream:
    """Sends numbered messages until the block ends."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _send(self) -> None:
        while not self._end.wait(0.05):
            self._scene.send(20)


def check_that_a_late_commit_is_put_right(scene: Scene) -> None:
    """
    Set an offset back, as a late commit of a former holder does, and check that it is corrected.

    The first time, the queue stays with its holder. The second time, it moves at once.
    """
    scene.start_all({"a": [*BOTH["a"], ("broker-b", "0")], "b": [("broker-b", "1")]})
    scene.send(40)
    scene.wait_for_all()
    check_that_all_is_committed(scene)
    _commit_late(scene)
    check_that_all_is_committed(scene)
    _commit_late(scene)
    before = scene.coordinator.released
    scene.coordinator.publish({"a": BOTH["b"], "b": BOTH["a"]})
    assert wait_for(lambda: scene.coordinator.released - before, lambda count: count == 3) == 3
    scene.send(40)
    lines = scene.wait_for_all()
    assert "b" in {each.member for each in by_queue(lines)["broker-a", 0]}
    assert scene.twice() == []
    check_that_all_is_committed(scene)


def _commit_late(scene: Scene) -> None:
    scene.client.commit(scene.coordinator.group, {scene.queues[0]: 3})


def check_that_all_is_committed(scene: Scene) -> None:
    """Wait until the group's offset of each queue is the one after the last handled message."""
    group = scene.coordinator.group
    handled = by_queue(scene.lines())
    ends = {queue: max(line.offset for line in handled[queue.broker, queue.id]) + 1
            for queue in scene.queues}  # fmt: skip

    def find_committed() -> dict[MessageQueue, int | None]:
        return {queue: scene.client.find_committed(group, queue) for queue in scene.queues}

    found = wait_for(find_committed, lambda offsets: offsets == ends)
    assert found == ends, scene.followers.logs()


class Offsets:
    """Watches the group's committed offsets until the block ends, and notes each decrease."""

    def __init__(self, scene: Scene) -> None:
        self.backwards: list[tuple[MessageQueue, int, int]] = []
        self._scene = scene
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        last: dict[MessageQueue, int] = {}
        while not self._end.wait(0.02):
            for queue in self._scene.queues:
                offset = self._scene.client.find_committed(self._scene.coordinator.group, queue)
                if offset is None:
                    continue
                if offset < last.get(queue, 0):
                    self.backwards.append((queue, last[queue], offset))
                last[queue] = offset
