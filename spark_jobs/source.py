"""
The data source: `spark.readStream.format("rocketmq")`, `spark.read`, and the sinks of both kinds.

Spark keeps a reader in a Python process of the driver, where it plans, and sends a copy of it to
the executors, where it reads. So a reader holds no connection; it is made where it is used.
"""

import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from mq_client.blocking import Client
from mq_client.errors import NoBrokerError, UsageError
from mq_client.filters import Filter
from mq_client.values import MessageQueue
from spark_jobs import fetch, journal, options, planning, schema, sink
from spark_jobs.observing import TopicObserver
from spark_jobs.options import QueueEdge, Reading, StartOrEnd
from spark_jobs.planning import Limits, Loss, Range, SeenOffsets

log = logging.getLogger("evenkeel.source")


class RocketMQ(DataSource):
    """Messages of RocketMQ topics. Options and columns: docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        """Tell Spark the format's name."""
        return "rocketmq"

    def schema(self) -> str:
        """List the columns."""
        text = self.options.get("includeProperties", "false")
        return schema.ddl(include_properties=text.strip().lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a bounded part."""
        return _BoundedReader(options.reading(self.options, is_stream=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's
        """Read on and on."""
        return StreamReader(options.reading(self.options, is_stream=True))

    def writer(self, schema: StructType, overwrite: bool) -> sink.BoundedWriter:
        """Send the rows of a DataFrame."""
        if overwrite:
            raise UsageError(
                "a topic cannot be overwritten, only appended to: write with .mode('append')"
            )
        return sink.BoundedWriter(options.sending(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> sink.StreamWriter:  # noqa: N802
        """Send the rows of each micro-batch."""
        return sink.StreamWriter(options.sending(self.options), schema)


@dataclass
class _Part(InputPartition):
    """What one task reads."""

    range: Range
    wanted: Filter


def _read(part: _Part, reading: Reading) -> Iterator[pa.RecordBatch]:
    return fetch.fetch(
        [part.range],
        reading.cluster,
        reading.group,
        part.wanted,
        allow_gaps=not reading.fail_on_data_loss,
        include_properties=reading.include_properties,
    )


class _BoundedReader(DataSourceReader):
    """Reads from one place to another, both found when the query is planned."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def partitions(self) -> Sequence[InputPartition]:
        with self._reading.cluster.connect() as client:
            observer = TopicObserver(client, self._reading)
            seen = _all_of(observer.see())
            start = observer.place(self._reading.start, seen)
            end = observer.place(self._reading.end, seen)
        planning.check_ends("endAt", end, seen)
        found = planning.ranges(start, end)
        planning.check_readable(found, seen)
        _settle(planning.losses(start, seen), is_passed=not self._reading.fail_on_data_loss)
        return [_Part(each, self._reading.wanted) for each in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there is nothing to read, Spark asks for a part that it has made up.
        return _read(partition, self._reading) if isinstance(partition, _Part) else iter(())


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver, and reads their parts on executors."""

    def __init__(self, reading: Reading) -> None:
        """Ask nothing yet."""
        self._reading = reading
        self._is_bounded = False
        self._last: dict[MessageQueue, int] | None = None
        """Where all ends, for a query that reads what is there at its start and no more."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what belongs to the driver."""
        return {"_reading": self._reading}

    @functools.cached_property
    def _client(self) -> Client:
        return self._reading.cluster.connect()

    @functools.cached_property
    def _observer(self) -> TopicObserver:
        return TopicObserver(self._client, self._reading)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """
        Begin with no queue at all: the first batch journals where each one begins.

        Spark keeps no initial offset before the first batch is over, and asks for it anew when that
        batch runs again, when brokers may say something else or nothing.
        """
        return journal.Entry({}, self._reading.wanted, is_begun=False).written()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read up to what is there when the next batch is planned."""
        self._is_bounded = True

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802
        """
        Tell where the next batch ends.

        Topics that are read no more are set aside, with the places where they were left. One that
        is read again goes on there; as a new one, it is journaled before it is read.
        """
        entry = journal.read(start)
        at, back, aside = entry.parted(self._reading.reads)
        seen = self._observer.see(at | back, is_new=not entry.is_begun)
        if self._is_bounded:
            if self._last is None:
                self._last = {queue: ends.max for queue, ends in seen.queues.items()}
            seen = seen.up_to(self._last, at | back)
        back = self._resumed(back, seen)
        found = planning.losses(at | back, seen)
        _settle(found, is_passed=self._passes_over_losses(start))
        new = self._new(at | back, seen, entry.is_begun) | planning.settled(back, seen)
        end = planning.advance(at, seen, new, self._limits(at, seen))
        return journal.Entry(end, self._reading.wanted, aside).written()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """List a task's part for each queue with messages."""
        last = journal.read(end)
        found = planning.ranges(journal.read(start).offsets, last.offsets)
        return [_Part(each, last.wanted) for each in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Pull one part, on an executor."""
        assert isinstance(partition, _Part)
        return _read(partition, self._reading)

    def commit(self, end: dict[str, Any]) -> None:
        """Tell the brokers how far the group is, for those who watch its lag."""
        if self._reading.commits:
            heard = {
                queue: offset
                for queue, offset in journal.read(end).offsets.items()
                if self._reading.reads(queue.topic) and queue.broker not in self._observer.silent
            }
            for broker, error in self._observer.commit(heard).items():
                log.warning("the group's offsets on %s stay behind for now: %s", broker, error)

    def stop(self) -> None:
        """Close the connections."""
        self._client.close()

    def _passes_over_losses(self, start: dict[str, Any]) -> bool:
        """Whether a batch that begins there goes on behind what is lost."""
        return not self._reading.fail_on_data_loss

    def _limits(self, at: dict[MessageQueue, int], seen: SeenOffsets) -> Limits:
        reading = self._reading
        if reading.most_bytes is None:
            return Limits(reading.most_messages)
        waiting = {q: n for q, n in planning.waiting(at, seen).items() if n}
        places = {queue: max(at[queue], seen.queues[queue].min) for queue in waiting}
        sizes = self._observer.message_bytes(places)
        return Limits(reading.most_messages, reading.most_bytes, sizes)

    def _begin(self, seen: SeenOffsets) -> dict[MessageQueue, int]:
        """Tell where a query begins that has no checkpoint."""
        start = self._reading.start
        begin = self._observer.place(start, seen)
        planning.check_ends("startFrom", {queue: begin[queue] for queue in start.offsets}, seen)
        return begin

    def _new(
        self, at: Mapping[MessageQueue, int], seen: SeenOffsets, is_begun: bool
    ) -> dict[MessageQueue, int]:
        """Tell where queues begin that are not journaled yet."""
        if not is_begun:
            # Queues that were left out would be taken for new ones later, and read from the start.
            return self._begin(_by_masters(_all_of(seen)))
        queues = {
            queue: ends
            for queue, ends in seen.queues.items()
            if queue not in at and not seen.is_by_slave(queue)
        }
        is_group = self._reading.start.edge is QueueEdge.GROUP
        place = StartOrEnd(QueueEdge.GROUP if is_group else QueueEdge.EARLIEST)
        return self._observer.place(place, replace(seen, queues=queues)) if queues else {}

    def _resumed(self, back: dict[MessageQueue, int], seen: SeenOffsets) -> dict[MessageQueue, int]:
        """Go on where a topic was left, or further if others of the group have read on."""
        there = {queue: ends for queue, ends in seen.queues.items() if queue in back}
        if not there or not self._reading.commits:
            return back
        stands = self._observer.stands(replace(seen, queues=there))
        return back | {
            queue: max(back[queue], min(stand, there[queue].max)) for queue, stand in stands.items()
        }


def _all_of(seen: SeenOffsets) -> SeenOffsets:
    """Refuse to go on without the brokers that did not answer."""
    for error in seen.silent.values():
        raise error
    return seen


def _by_masters(seen: SeenOffsets) -> SeenOffsets:
    """Refuse to begin where only a slave has answered, which may not know the whole queue."""
    for topic, broker in sorted(seen.by_slave):
        raise NoBrokerError(
            f"{topic}@{broker}: its master is away, and where a new query begins is for it to say"
        )
    return seen


def _settle(found: list[Loss], *, is_passed: bool) -> None:
    if not is_passed:
        planning.refuse(found)
    for loss in found:
        log.warning("messages are lost: %s", loss)
