"""
A data source without a broker: it returns the same rows, made in advance, again and again.

It does only what any source in Python must do: hand over Arrow batches of this schema.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.pull import messages, ours
from mq_client import pulling
from spark_jobs import schema

FORMAT = "synthetic"
A_BATCH = pulling.MOST_MESSAGES
"""The number of rows that one of our pulls returns."""
_BORN_US = 1_700_000_000_000_000


class Synthetic(DataSource):
    """Options: `topic`, `queues`, and `messages` per queue."""

    @classmethod
    def name(cls) -> str:
        """Tell Spark the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of our source."""
        return schema.make_ddl(include_properties=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make a reader for these options."""
        topic, queues = self.options["topic"], int(self.options["queues"])
        return _Reader(
            [_Queue(topic, each, int(self.options["messages"])) for each in range(queues)]
        )


@dataclass
class _Queue(InputPartition):
    topic: str
    id: int
    messages: int


class _Reader(DataSourceReader):
    def __init__(self, queues: list[_Queue]) -> None:
        self._queues = queues

    def partitions(self) -> Sequence[InputPartition]:
        return self._queues

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Queue)
        made = _make_batch(partition.topic, partition.id)
        place = made.schema.get_field_index("queue_offset")
        for first in range(0, partition.messages, A_BATCH):
            batch = made.slice(0, min(A_BATCH, partition.messages - first))
            offsets = pc.add(batch.column(place), pa.scalar(first, pa.int64()))
            yield batch.set_column(place, batch.schema.field(place), offsets)


@functools.cache
def _make_batch(topic: str, queue: int) -> pa.RecordBatch:
    """Make the first batch of a queue, once per worker."""
    numbers = range(A_BATCH)
    time = pa.array([_BORN_US] * A_BATCH, schema.TIMESTAMP)
    columns = {
        "topic": pa.array([topic] * A_BATCH),
        "broker_name": pa.array([ours.BROKER] * A_BATCH),
        "queue_id": pa.array([queue] * A_BATCH, pa.int32()),
        "queue_offset": pa.array(numbers, pa.int64()),
        "msg_id": pa.array([f"{number:032X}" for number in numbers]),
        "keys": pa.array([f"key-{number}" for number in numbers]),
        "tags": pa.array(["bench"] * A_BATCH),
        "body": pa.array([bytes(messages.BODY_BYTES)] * A_BATCH),
        "born_timestamp": time,
        "store_timestamp": time,
        "reconsume_times": pa.array([0] * A_BATCH, pa.int32()),
    }
    return pa.RecordBatch.from_pydict(columns)
