"""
Plays events with jobs that Evenkeel runs: executors in pods, and a sink of files.

A job with batches and a flow play the same events.
"""

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks.handover import manifests, scene
from benchmarks.handover.effects import Consumed, Outcome, Sent
from mq_client.blocking import Client
from mq_client.values import MessageQueue
from sandbox import process, sinks
from sandbox.node.shop import GROUPS, PATIENTLY, SHOP, TOPICS, Shop, ShopGroup, wait_patiently
from sandbox.statuses import find_owners

NAME = "Spark job"
ABOUT = """a ConsumerGroup with a job, trigger 0.2 s, a lane for each slot, and a file
  sink. A message counts as read when its batch is complete.
"""
CUT_SECONDS = 120.0
DRIVER, DRIVER_CUT = "the driver is killed", "the driver is cut off"
_STEADY_BATCHES = 2
"""Consumption counts as steady after this number of batches with messages of each queue."""


class SparkJob:
    """A running job."""

    def __init__(self, shop: Shop, topic: str, struck: contextlib.ExitStack) -> None:
        """Keep what `start` has started."""
        self._shop = shop
        self._topic = topic
        self._group = ShopGroup(shop, topic)
        self._struck = struck
        self._read: dict[Path, tuple[float, list[sinks.Row]]] = {}

    def join(self) -> None:
        """Add an executor."""
        self._scale(scene.CONSUMERS + 1)

    def leave(self) -> None:
        """Remove an executor."""
        self._scale(scene.CONSUMERS)

    def kill(self) -> None:
        """Kill an executor; Spark replaces it."""
        slot, pod = min(self._group.find_executors().items())
        self._shop.node.faults.kill(SHOP, pod)
        self._await_another(slot, pod)

    def strike(self, fault: scene.Fault) -> None:
        """Apply a fault to the executor of the last slot; Spark replaces it when it notices."""
        slot, pod = max(self._group.find_executors().items())
        self._struck.enter_context(fault(SHOP, pod))
        self._await_another(slot, pod)

    def recover(self) -> None:
        """End the fault; Spark may have replaced the executor by now."""
        self._struck.close()
        self.await_steady()

    def add_queues(self) -> None:
        """Add queues."""
        count = scene.MORE_QUEUES
        epoch = self._group.read_status()["epoch"]
        provision = {"readQueues": count, "writeQueues": count}
        self._shop.patch(TOPICS, self._topic, {"provision": provision})
        self._group.wait_until(lambda it: it["epoch"] > epoch)
        self.await_steady()

    def kill_driver(self) -> None:
        """Kill the driver; the operator starts another one."""
        before = self._group.report()["driver"]
        self._shop.node.faults.kill(SHOP, self._group.driver)
        self._group.wait_for_another_driver(before)
        self.await_steady()

    def cut_driver_off(self) -> None:
        """Cut the driver off from the network for a while."""
        with self._shop.node.faults.cut_off(SHOP, self._group.driver):
            time.sleep(CUT_SECONDS)
        self.await_steady()

    def await_steady(self) -> None:
        """Wait until the job follows the newest epoch, and reads all queues."""
        self._group.wait_until_settled()
        begun = time.time()
        if not wait_patiently(lambda: self.is_steady(begun), bool):
            raise process.SandboxError(f"{self._topic}: no batches have messages of all queues")

    def finish(self, sent: Sent) -> None:
        """Consume the rest, end the job, and check that each offset gave a row."""
        wait_patiently(self._read_numbers, lambda it: sent.sure <= it)
        report = self._group.report()
        rows = sum(report["rows"].values())
        if rows != report["offsets"]:
            raise process.SandboxError(f"{self._topic}: {rows} rows of {report['offsets']} offsets")
        self._shop.kubectl("-n", SHOP, "delete", GROUPS, self._topic, PATIENTLY)

    def find_owners(self) -> Mapping[MessageQueue, str]:
        """Read the assignment that is published."""
        found = find_owners(self._group.read_status())
        return {MessageQueue(self._topic, *queue): owner for queue, owner in found.items()}

    def list_consumed(self) -> Iterator[Consumed]:
        """Read the sink. Rows count as consumed when their batch is complete."""
        for end, rows in self.make_rows():
            found: dict[tuple[MessageQueue, str], list[sinks.Row]] = defaultdict(list)
            for row in rows:
                found[self.find_queue(row), row["reader"]].append(row)
            for (queue, reader), read in found.items():
                numbers = [int(row["body"]) for row in read]
                yield Consumed(end, queue, numbers, [row["stored"] / 1000 for row in read], reader)

    def is_steady(self, begun: float) -> bool:
        """Whether several batches have ended since `begun` that have messages of each queue."""
        batches: Counter[MessageQueue] = Counter()
        for end, rows in self.make_rows():
            if end > begun:
                batches.update({self.find_queue(row) for row in rows})
        owners = self.find_owners()
        return bool(owners) and all(batches[queue] >= _STEADY_BATCHES for queue in owners)

    def find_queue(self, row: sinks.Row) -> MessageQueue:
        """Find the queue of a row."""
        return MessageQueue(self._topic, row["broker_name"], int(row["queue_id"]))

    def _read_numbers(self) -> set[int]:
        return {int(row["body"]) for _, rows in self.make_rows() for row in rows}

    def make_rows(self) -> Iterator[tuple[float, list[sinks.Row]]]:
        """Read all batches, each with the time when it was complete."""
        for done in self._list_batches():
            if done not in self._read:
                self._read[done] = sinks.read_batch(done)
        yield from self._read.values()

    def _list_batches(self) -> list[Path]:
        return sinks.list_finished(self._shop.folder / self._topic)

    def _scale(self, executors: int) -> None:
        before = self._group.read_status()
        self._group.scale(executors)
        self._group.wait_until_settled_with(executors, since=before)
        self.await_steady()

    def _await_another(self, slot: str, pod: str) -> None:
        self._group.wait_until_replaced(slot, pod)
        self.await_steady()


EVENTS: Mapping[str, Callable[[Shop, SparkJob], None]] = {
    **scene.EVENTS,
    DRIVER: lambda _, side: side.kill_driver(),
    DRIVER_CUT: lambda _, side: side.cut_driver_off(),
}


def apply_manifests(shop: Shop, topic: str, file: str) -> None:
    """Create a topic and a group from a manifest, and wait until the topic exists."""
    shop.apply(
        manifests.fill(
            file,
            NAME=topic,
            QUEUES=scene.QUEUES,
            CONSUMERS=scene.CONSUMERS,
            LANES=scene.CONSUMERS + 1,
            TRIGGER="200ms",
        )
    )
    shop.wait_until_made(topic)


@contextlib.contextmanager
def start(shop: Shop, client: Client, topic: str) -> Iterator[SparkJob]:
    """Create a topic and a group, and let them run until the context is left."""
    del client  # the operator makes the topic
    apply_manifests(shop, topic, "job.yaml")
    with contextlib.ExitStack() as struck:
        yield SparkJob(shop, topic, struck)


def play(shop: Shop, topic: str) -> Outcome:
    """Play all events once."""
    return scene.play(shop, topic, start, EVENTS)
