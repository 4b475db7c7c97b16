"""Reads topics with Spark: as a batch, as a stream up to the current ends, or continuously."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from mq_client import blocking, errors
from mq_client.choosers import To
from mq_client.commands.base import Request
from mq_client.commands.cluster import DeleteTopic, ForgetTopic
from mq_client.frames import Frame
from mq_client.messages import Message, StoredMessage
from mq_client.pulling import Position
from mq_client.values import MessageQueue
from sandbox import asking
from sandbox.rocketmq import RocketMq
from sandbox.waiting import wait_for

WAIT_SECONDS = 120
SLOW = "Python worker failed to connect back."
"""Spark gives a new Python process 10 s, which a busy machine may exceed."""
MOST_STARTS = 20
"""How often a query is started for which Spark could not start Python in time."""


def send(
    client: blocking.Client, queue: MessageQueue, *bodies: bytes, tags: str | None = None
) -> None:
    client.send([Message(queue.topic, body, tags=tags) for body in bodies], To(queue))


def ends_at(client: blocking.Client, topic: str, count: int) -> None:
    """Wait until the brokers show all messages that were sent, which takes a moment."""

    def total() -> int:
        return sum(queue.max for queue in client.list_offsets(topic).values())

    assert wait_for(total, lambda found: found == count) == count


def list_stored(client: blocking.Client, topic: str, count: int) -> list[StoredMessage]:
    """Read all messages of a topic, queue by queue."""
    ends_at(client, topic, count)
    ends = client.list_offsets(topic)
    positions = [Position(queue, 0, each.max) for queue, each in ends.items() if each.max]
    found = [
        message for batch in client.read("readers", positions) for message in batch.to_messages()
    ]
    return sorted(found, key=lambda each: (each.broker, each.queue_id, each.queue_offset))


@dataclass(frozen=True, slots=True)
class ResetOffset(Request[bytes]):
    """Ask a broker to reset a group's offset. The answer to the next pull reports the reset."""

    code: ClassVar[int] = 222
    name: ClassVar[str] = "INVOKE_BROKER_TO_RESET_OFFSET"
    topic: str
    group: str
    queue_id: int
    offset: int
    timestamp: int = 0
    is_force: bool = True

    def read(self, answer: Frame) -> bytes:
        """Return the queues whose offset was reset."""
        return bytes(answer.body)


def delete(rocketmq: RocketMq, topic: str) -> None:
    for broker in rocketmq.brokers.values():
        # A broker without a timer wheel reports an error after it has done everything.
        with contextlib.suppress(errors.UnexpectedError):
            asking.ask(broker.address, DeleteTopic(topic))
    asking.ask(rocketmq.name_server.address, ForgetTopic(topic))


@dataclass
class Batches:
    """
    The rows of a stream, batch by batch, without the batches that have no rows.

    The object is also the stream's sink, which Spark calls for each batch.

    The first batch of a new query has no rows: it only writes to the log where queues begin.
    """

    rows: list[list[Row]] = field(default_factory=list)
    before: Callable[[int], None] = lambda _: None

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Keep a batch, after calling `before` with the number of earlier batches."""
        rows = frame.collect()
        if rows:
            self.before(len(self.rows))
            self.rows.append(rows)

    @property
    def bodies(self) -> list[bytes]:
        """All bodies, sorted."""
        return bodies(row for batch in self.rows for row in batch)

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.rows]


def bodies(rows: Iterator[Row] | list[Row]) -> list[bytes]:
    return sorted(bytes(row.body) for row in rows)


@dataclass
class Source:
    spark: SparkSession
    name_servers: str
    folder: Path

    def rows(self, **options: str) -> list[Row]:
        """Read as a batch."""
        reader = self.spark.read.format("rocketmq").option("nameServers", self.name_servers)
        return reader.options(**options).load().collect()

    def stream(self, **options: str) -> DataFrame:
        reader = self.spark.readStream.format("rocketmq").option("nameServers", self.name_servers)
        return reader.options(**options).load()

    def run(self, before: Callable[[int], None] = lambda _: None, /, **options: str) -> Batches:
        """Continue at the test's checkpoint, up to the current ends of the queues."""
        batches = Batches(before=before)
        self.finish(self.stream(**options).writeStream.foreachBatch(batches))
        return batches

    def finish(self, writer: DataStreamWriter) -> None:
        """Write all current rows. If Spark could not start a query in time, start it again."""
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        for left in reversed(range(MOST_STARTS)):
            query = writer.trigger(availableNow=True).start()
            try:
                assert query.awaitTermination(WAIT_SECONDS), "the query does not end"
                return
            except StreamingQueryException as error:
                if not left or SLOW not in str(error):
                    raise
            finally:
                query.stop()

    @contextlib.contextmanager
    def running(self, **options: str) -> Iterator[tuple[Batches, StreamingQuery]]:
        """Continue at the test's checkpoint until the block ends."""
        batches = Batches()
        writer = self.stream(**options).writeStream.foreachBatch(batches)
        query = writer.option("checkpointLocation", str(self.folder / "checkpoint")).start()
        try:
            yield batches, query
        finally:
            query.stop()
