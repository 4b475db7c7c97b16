"""Plays events with a job that runs as a flow, with the pods and faults of a job with batches."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator

from benchmarks.handover import job, scene
from benchmarks.handover.effects import Consumed, Outcome
from benchmarks.handover.job import SparkJob
from mq_client.blocking import Client
from mq_client.values import MessageQueue
from sandbox import sinks
from sandbox.node.shop import Shop

NAME = "Spark flow"
ABOUT = """a ConsumerGroup with a job with `engine: Flow`, and a file sink. A message
  counts as read when the function receives it.
"""


class SparkFlow(SparkJob):
    """A running flow. Its function notes in each row when it has received the message."""

    def list_consumed(self) -> Iterator[Consumed]:
        """Read the sink."""
        found: dict[tuple[float, MessageQueue, str], list[sinks.Row]] = defaultdict(list)
        for _, rows in self.make_rows():
            for row in rows:
                found[row["at"], self.find_queue(row), row["reader"]].append(row)
        for (at, queue, reader), read in found.items():
            numbers = [int(row["body"]) for row in read]
            yield Consumed(at, queue, numbers, [row["stored"] / 1_000_000 for row in read], reader)

    def is_steady(self, begun: float) -> bool:
        """Whether every queue has been read since `begun`."""
        lately = (row for _, rows in self.make_rows() for row in rows if row["at"] > begun)
        return {self.find_queue(row) for row in lately} == self.find_owners().keys()


@contextlib.contextmanager
def start(shop: Shop, client: Client, topic: str) -> Iterator[SparkFlow]:
    """Create a topic and a group, and let them run until the context is left."""
    del client  # the operator makes the topic
    job.apply_manifests(shop, topic, "flow.yaml")
    with contextlib.ExitStack() as struck:
        yield SparkFlow(shop, topic, struck)


def play(shop: Shop, topic: str) -> Outcome:
    """Play all events once."""
    return scene.play(shop, topic, start, job.EVENTS)
