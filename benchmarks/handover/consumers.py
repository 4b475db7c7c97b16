"""
Plays events with consumers that write down what they consume: a line of JSON for each batch.

    {"ms": 1700000000009, "broker": "broker-a", "queue": 0,
     "numbers": [7, 8], "stored": [1700000000000, 1700000000002]}

Each consumer has a seat, which is a lasting name, as the pods of a StatefulSet have. A consumer
that replaces a killed consumer gets the seat of the killed consumer. A queue counts as moved when
it goes to another seat.
"""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks.handover import scene, sender
from benchmarks.handover.effects import Consumed, Sent
from mq_client.values import MessageQueue
from sandbox import process
from sandbox.node.shop import SHOP, wait_patiently

SetQueues = Callable[[int], None]
"""Changes how many queues the topic has on each broker."""
_STEADY_SECONDS = 3.0
"""Consumption counts as steady if it was regular for this long."""
_STEADY_NUMBERS = 2 * _STEADY_SECONDS * sender.A_SECOND
"""
The limit for the difference between the highest and the lowest number consumed lately. A backlog,
or reading messages again, causes a larger difference.
"""
_LATELY = 10_000
"""How many of the last batches to examine: more than are consumed in _STEADY_SECONDS."""
_PATIENCE_SECONDS = 300.0


class _Said(NamedTuple):
    """A batch that one process consumed."""

    seat: str
    consumed: Consumed


class _Log:
    """Reads the file of one process."""

    def __init__(self, file: Path, topic: str) -> None:
        self._file = file
        self._topic = topic
        self._begun = 0

    def read_news(self) -> Iterator[_Said]:
        """Read what the process has consumed since the last call."""
        with self._file.open("rb") as log:
            log.seek(self._begun)
            said = log.read()
        whole = said[: said.rfind(b"\n") + 1]
        self._begun += len(whole)
        reader = self._file.name
        for line in whole.splitlines():
            if line.startswith(b'{"ms"'):  # the JVM may print lines too
                found = json.loads(line)
                queue = MessageQueue(self._topic, found["broker"], found["queue"])
                stored = [ms / 1000 for ms in found["stored"]]
                consumed = Consumed(found["ms"] / 1000, queue, found["numbers"], stored, reader)
                yield _Said(reader.partition(".")[0], consumed)


class Crew(Protocol):
    """The processes of the consumers. Seats are named after the topic, such as `topic-0`."""

    def scale(self, count: int) -> None:
        """Run this number of consumers, in the first seats."""

    def kill(self, seat: str) -> None:
        """Kill the consumer in a seat; another process takes the seat."""


class Consumers:
    """A running group of consumers."""

    def __init__(
        self,
        crew: Crew,
        set_queues: SetQueues,
        topic: str,
        folder: Path,
        struck: contextlib.ExitStack,
        queues: int,
    ) -> None:
        """Keep the consumers, and the folder where they write what they consume."""
        self._crew = crew
        self._set_queues = set_queues
        self._topic = topic
        self._folder = folder
        self._struck = struck
        self._logs: dict[Path, _Log] = {}
        self._said: list[_Said] = []
        self._there = self._list_seats(scene.CONSUMERS)
        """The seats of the consumers that should be running."""
        self._queues = queues

    def join(self) -> None:
        """Start another consumer."""
        self._scale(scene.CONSUMERS + 1)

    def leave(self) -> None:
        """Let the last consumer shut down."""
        self._scale(scene.CONSUMERS)

    def kill(self) -> None:
        """Kill a consumer, which is then started again."""
        seat = min(self._there)
        count = len(self._list_files(seat))
        self._crew.kill(seat)
        wait_patiently(lambda: self._list_files(seat), lambda now: len(now) > count)
        self.await_steady()

    def strike(self, fault: scene.Fault) -> None:
        """Apply a fault to a consumer, and wait until the others consume its queues."""
        struck = max(self._there)
        self._struck.enter_context(fault(SHOP, struck))
        self._there = self._there - {struck}
        self.await_steady()

    def recover(self) -> None:
        """End the fault."""
        self._struck.close()
        self._there = self._list_seats(scene.CONSUMERS)
        self.await_steady()

    def add_queues(self) -> None:
        """Add queues."""
        self._set_queues(scene.MORE_QUEUES)
        self._queues = scene.BROKERS_COUNT * scene.MORE_QUEUES
        self.await_steady()

    def await_steady(self) -> None:
        """Wait until each queue has one reader, and each reader has its share of the queues."""
        begun = time.time()
        if not wait_patiently(lambda: self._is_steady(begun), bool, _PATIENCE_SECONDS):
            raise process.SandboxError(
                f"{self._topic}: {sorted(self._there)} do not share the queues after "
                f"{_PATIENCE_SECONDS:g} s"
            )

    def finish(self, sent: Sent) -> None:
        """Wait until all messages are consumed, with a time limit; then stop all consumers."""
        wait_patiently(self._read_numbers, lambda it: sent.sure <= it)
        self._crew.scale(0)

    def find_owners(self) -> Mapping[MessageQueue, str]:
        """Find the seat that consumed each queue last."""
        self._look()
        in_order = sorted(self._said, key=lambda each: each.consumed.at)
        return {each.consumed.queue: each.seat for each in in_order}

    def list_consumed(self) -> Iterable[Consumed]:
        """List what the consumers have written."""
        self._look()
        return [each.consumed for each in self._said]

    def _list_seats(self, count: int) -> set[str]:
        return {f"{self._topic}-{number}" for number in range(count)}

    def _scale(self, count: int) -> None:
        self._crew.scale(count)
        self._there = self._list_seats(count)
        self.await_steady()

    def _list_files(self, seat: str = "*") -> list[Path]:
        return sorted(self._folder.glob(f"{seat}.*"))

    def _look(self) -> None:
        for file in self._list_files():
            log = self._logs.setdefault(file, _Log(file, self._topic))
            self._said.extend(log.read_news())

    def _read_numbers(self) -> set[int]:
        self._look()
        return {number for each in self._said for number in each.consumed.numbers}

    def _is_steady(self, begun: float) -> bool:
        """
        Whether consumption is steady.

        It is steady if lately each queue had one reader, each reader had its share of the queues,
        and no old message was consumed.
        """
        self._look()
        since = time.time() - _STEADY_SECONDS
        if since < begun:
            return False  # earlier lines may come from a killed consumer in the same seat
        lately = [each for each in self._said[-_LATELY:] if each.consumed.at > since]
        numbers = [number for each in lately for number in each.consumed.numbers]
        readers = {(each.consumed.queue, each.seat) for each in lately}
        shares = Counter(seat for _, seat in readers)
        # The newest reads come first, and older ones replace them. So the first read of each queue
        # in the window remains.
        first_at = {each.consumed.queue: each.consumed.at for each in reversed(lately)}
        if not first_at or max(first_at.values()) > since + _STEADY_SECONDS / 2:
            return False  # a consumer that has just started reads the backlog
        return (
            len(readers) == len({queue for queue, _ in readers}) == self._queues
            and shares.keys() == self._there
            and max(shares.values()) - min(shares.values()) <= 1
            and max(numbers) - min(numbers) < _STEADY_NUMBERS
        )
