"""
Their side: RocketMQ's push consumers, each a process of its own, which say what they consume.

As in a deployment with names that stay, a consumer that replaces a killed one has its seat; a queue
moves when it goes to another seat.
"""

import contextlib
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import peers
from benchmarks.handover import scene, sender
from benchmarks.handover.effects import Consumed
from mq_client.blocking import Client
from mq_client.values import Queue
from sandbox import process
from sandbox.waiting import eventually

NAME = "DefaultMQPushConsumer"
HEAP = "128m"
_SOURCES = Path(__file__).parent / "peers" / "jvm"
_STEADY_SECONDS = 3.0
"""All has been as it should be for so long."""
_STEADY_NUMBERS = 2 * _STEADY_SECONDS * sender.A_SECOND
"""Whoever reads older messages as well still catches up, or reads them again."""
_LATELY = 10_000
"""More messages than are sent in that time."""
_PATIENCE_SECONDS = 240.0
_SECONDS_TO_LEAVE = 30.0


class _Read(NamedTuple):
    """Who consumed what."""

    consumer: str
    consumed: Consumed


class Consumer:
    """One process, and what it has said so far."""

    def __init__(self, name: str, seat: int, running: process.Process, topic: str) -> None:
        """Take what `Theirs` has started."""
        self.name = name
        self.seat = seat
        self.process = running
        self._topic = topic
        self._begun = 0

    def news(self) -> Iterator[_Read]:
        """Tell what it has consumed since last time."""
        with self.process.log.open("rb") as log:
            log.seek(self._begun)
            said = log.read()
        whole = said[: said.rfind(b"\n") + 1]
        self._begun += len(whole)
        for line in whole.splitlines():
            if line.startswith(b'{"ms"'):  # the JVM may have something to say as well
                found = json.loads(line)
                queue = Queue(self._topic, found["broker"], found["queue"])
                yield _Read(self.name, Consumed(found["ms"] / 1000, queue, found["numbers"]))


class Theirs:
    """A group at work."""

    def __init__(
        self, client: Client, topic: str, command: Sequence[str], place: process.Folder
    ) -> None:
        """Nobody is there yet."""
        self._client = client
        self._topic = topic
        self._command = command
        self._place = place
        self._started: list[Consumer] = []
        self._there: list[Consumer] = []
        """Those that should consume now, the oldest first."""
        self._reads: list[_Read] = []
        self._queues = scene.QUEUES

    def begin(self) -> None:
        """Start the first consumers."""
        for seat in range(scene.CONSUMERS):
            self._start(seat)
        self._await_steady()

    def join(self) -> None:
        """Start one more."""
        self._start(scene.CONSUMERS)
        self._await_steady()

    def leave(self) -> None:
        """Let it shut down."""
        self._there.pop().process.stop(_SECONDS_TO_LEAVE)
        self._await_steady()

    def kill(self) -> None:
        """Kill the oldest; as Kubernetes would, start another one at once."""
        killed = self._there.pop(0)
        killed.process.kill()
        self._start(killed.seat)
        self._await_steady()

    def freeze(self) -> None:
        """Stop the oldest until the others consume its queues."""
        self._frozen = self._there.pop(0)
        os.kill(self._frozen.process.pid, signal.SIGSTOP)
        self._await_steady()

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self._frozen.process.pid, signal.SIGCONT)
        self._there.append(self._frozen)
        self._await_steady()

    def add_queues(self) -> None:
        """Have more queues."""
        scene.add_queues(self._client, self._topic)
        self._queues = scene.MORE_QUEUES
        self._await_steady()

    def finish(self, sent: int) -> None:
        """Wait until all was consumed, or for a while; then let all shut down."""
        eventually(self._seen, lambda seen: len(seen) == sent)
        for consumer in self._there:
            consumer.process.stop(_SECONDS_TO_LEAVE)

    def owners(self) -> Mapping[Queue, str]:
        """Tell in which seat each queue was consumed last."""
        self._look()
        seats = {consumer.name: f"seat {consumer.seat}" for consumer in self._started}
        in_order = sorted(self._reads, key=lambda each: each.consumed.at)
        return {each.consumed.queue: seats[each.consumer] for each in in_order}

    def consumed(self) -> Iterable[Consumed]:
        """Tell what they have said."""
        self._look()
        return [each.consumed for each in self._reads]

    def _start(self, seat: int) -> None:
        name = f"consumer-{len(self._started)}"
        running = process.Process(name, self._command, self._place, {})
        consumer = Consumer(name, seat, running, self._topic)
        self._started.append(consumer)
        self._there.append(consumer)

    def _look(self) -> None:
        for consumer in self._started:
            self._reads.extend(consumer.news())

    def _seen(self) -> set[int]:
        self._look()
        return {number for each in self._reads for number in each.consumed.numbers}

    def _await_steady(self) -> None:
        if not eventually(self._is_steady, bool, _PATIENCE_SECONDS):
            raise process.NotReadyError(
                f"the consumers do not share the queues after {_PATIENCE_SECONDS:g} s",
                self._there[-1].process.log,
            )

    def _is_steady(self) -> bool:
        """Whether lately each queue had one reader, each reader its share, and nothing old."""
        self._look()
        since = time.time() - _STEADY_SECONDS
        lately = [each for each in self._reads[-_LATELY:] if each.consumed.at > since]
        numbers = [number for each in lately for number in each.consumed.numbers]
        readers = {(each.consumed.queue, each.consumer) for each in lately}
        shares = Counter(consumer for _, consumer in readers)
        return (
            len(readers) == len({queue for queue, _ in readers}) == self._queues
            and shares.keys() == {consumer.name for consumer in self._there}
            and max(shares.values()) - min(shares.values()) <= 1
            and max(numbers) - min(numbers) < _STEADY_NUMBERS
        )


@contextlib.contextmanager
def started(name_server: str, client: Client, topic: str) -> Iterator[Theirs]:
    """Run a group until left."""
    arguments = ("Push", name_server, topic, f"group-{topic}")
    command = peers.jvm(_SOURCES, [peers.ROCKETMQ], HEAP, *arguments)
    with process.folder("evenkeel-handover-") as place:
        yield Theirs(client, topic, command, place)
