"""
The data source `rocketmq`: readers for streams and bounded reads, and sinks for both.

A reader plans in a Python process of the driver. Spark sends copies of the reader to the executors,
and these copies read the messages. So a copy carries no connection: each process opens its own.
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
from spark_jobs.planning import BatchLimits, Deal, Loss, Range, SeenOffsets

log = logging.getLogger("evenkeel.source")


class RocketMQ(DataSource):
    """Messages of RocketMQ topics. Options and columns: docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "rocketmq"

    def schema(self) -> str:
        """List the columns."""
        text = self.options.get("includeProperties", "false")
        return schema.make_ddl(include_properties=text.strip().lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of a bounded read."""
        return _BoundedReader(options.parse_reading(self.options, is_stream=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's
        """Make the reader of a stream."""
        return StreamReader(options.parse_reading(self.options, is_stream=True))

    def writer(self, schema: StructType, overwrite: bool) -> sink.BoundedWriter:
        """Make the writer of a DataFrame."""
        if overwrite:
            raise UsageError(
                "a topic cannot be overwritten, only appended to: write with .mode('append')"
            )
        return sink.BoundedWriter(options.parse_sending(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> sink.StreamWriter:  # noqa: N802
        """Make the writer of micro-batches."""
        return sink.StreamWriter(options.parse_sending(self.options), schema)


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
    """Reads from a start to an end. Both are determined when the query is planned."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def partitions(self) -> Sequence[InputPartition]:
        with self._reading.cluster.connect() as client:
            observer = TopicObserver(client, self._reading)
            seen = require_all(observer.observe())
            start = observer.find_offsets(self._reading.start, seen)
            end = observer.find_offsets(self._reading.end, seen)
        planning.check_ends("endAt", end, seen)
        found = planning.plan_ranges(start, end)
        planning.check_readable(found, seen)
        _handle_losses(
            planning.find_losses(start, seen), is_passed=not self._reading.fail_on_data_loss
        )
        return [_Part(each, self._reading.wanted) for each in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # If there is nothing to read, Spark passes a partition of its own.
        return _read(partition, self._reading) if isinstance(partition, _Part) else iter(())


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver, and reads their partitions on executors."""

    def __init__(self, reading: Reading) -> None:
        """Send no request yet."""
        self._reading = reading
        self._is_bounded = False
        self._last: dict[MessageQueue, int] | None = None
        """Where the queues ended when the query began, if the query must stop there."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the state of the driver."""
        return {"_reading": self._reading}

    @functools.cached_property
    def _client(self) -> Client:
        return self._reading.cluster.connect()

    @functools.cached_property
    def _observer(self) -> TopicObserver:
        return TopicObserver(self._client, self._reading)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """
        Begin without any queue: the first batch writes the begin of each queue to the offset log.

        Spark does not store the initial offset before the first batch is committed, and asks for it
        again if that batch runs again. By then brokers may report other offsets, or be down.
        """
        return journal.Entry({}, self._reading.wanted, is_begun=False).write()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read only up to the ends that the queues have when the next batch is planned."""
        self._is_bounded = True

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802
        """
        Find where the next batch ends.

        Topics that are no longer read stay in the offset log, as inactive, with their last offsets.
        A topic that is read again continues at these offsets. Like a new topic, it is read only
        after an entry of the log has its offsets.
        """
        is_skipping = not self._reading.fail_on_data_loss
        return self.find_end(journal.read(start), is_skipping=is_skipping).write()

    def find_end(
        self,
        entry: journal.Entry,
        deal: Deal = planning.deal_to_one,
        *,
        is_skipping: bool,
        needs_all: bool = False,
    ) -> journal.Entry:
        """
        Find where the batches after this entry end.

        With `is_skipping`, losses are no error. With `needs_all`, the masters of all queues must
        answer.
        """
        at, back, aside = entry.divide(self._reading.reads)
        seen = whole = self._observer.observe(at | back, is_new=not entry.is_begun)
        if needs_all:
            require_masters(require_all(whole))
        back = self._resume(back, whole)
        new = self._find_new(at | back, whole, entry.is_begun)
        if self._is_bounded:
            if self._last is None:
                self._last = self._find_last(whole)
            seen = whole.cut_at(self._last, at | back | new)
        _handle_losses(planning.find_losses(at | back, seen), is_passed=is_skipping)
        new |= planning.skip_losses(back, seen)
        end = planning.advance(at, seen, new, self._make_limits(at, seen), deal)
        return journal.Entry(end, self._reading.wanted, aside)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Make a partition for each queue with messages."""
        last = journal.read(end)
        found = planning.plan_ranges(journal.read(start).offsets, last.offsets)
        return [_Part(each, last.wanted) for each in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Pull one partition, on an executor."""
        assert isinstance(partition, _Part)
        return _read(partition, self._reading)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the group's offsets to the brokers, so that the group's lag is visible."""
        if self._reading.commits:
            reachable = {
                queue: offset
                for queue, offset in journal.read(end).offsets.items()
                if self._reading.reads(queue.topic) and queue.broker not in self._observer.silent
            }
            for broker, error in self._observer.commit(reachable).items():
                log.warning(
                    "the group's offsets on %s cannot be updated for now: %s", broker, error
                )

    def stop(self) -> None:
        """Close the connections."""
        self._client.close()

    def _make_limits(self, at: dict[MessageQueue, int], seen: SeenOffsets) -> BatchLimits:
        reading = self._reading
        if reading.most_bytes is None:
            return BatchLimits(reading.most_messages)
        waiting = {q: n for q, n in planning.count_readable(at, seen).items() if n}
        begins = {queue: max(at[queue], seen.queues[queue].min) for queue in waiting}
        sizes = self._observer.estimate_message_bytes(begins)
        return BatchLimits(reading.most_messages, reading.most_bytes, sizes)

    def _find_last(self, seen: SeenOffsets) -> dict[MessageQueue, int]:
        """Find where a bounded query ends: at the current ends of the queues."""
        return {queue: ends.max for queue, ends in seen.queues.items()}

    def _find_begin(self, seen: SeenOffsets) -> dict[MessageQueue, int]:
        """Find where a query without a checkpoint begins."""
        start = self._reading.start
        begin = self._observer.find_offsets(start, seen)
        planning.check_ends("startFrom", {queue: begin[queue] for queue in start.offsets}, seen)
        return begin

    def _find_new(
        self, at: Mapping[MessageQueue, int], seen: SeenOffsets, is_begun: bool
    ) -> dict[MessageQueue, int]:
        """Find where the new queues begin, which are not in the offset log yet."""
        if not is_begun:
            # If a queue were left out now, it would count as new later, and be read from its start.
            return self._find_begin(require_masters(require_all(seen)))
        queues = {
            queue: ends
            for queue, ends in seen.queues.items()
            if queue not in at and not seen.is_by_slave(queue)
        }
        is_group = self._reading.start.edge is QueueEdge.GROUP
        edge = StartOrEnd(QueueEdge.GROUP if is_group else QueueEdge.EARLIEST)
        return self._observer.find_offsets(edge, replace(seen, queues=queues)) if queues else {}

    def _resume(self, back: dict[MessageQueue, int], seen: SeenOffsets) -> dict[MessageQueue, int]:
        """Return where a topic continues: its last offsets, or later if others have read on."""
        there = {queue: ends for queue, ends in seen.queues.items() if queue in back}
        if not there or not self._reading.commits:
            return back
        committed = self._observer.read_committed(replace(seen, queues=there))
        return back | {
            queue: max(back[queue], min(offset, there[queue].max))
            for queue, offset in committed.items()
        }


def require_all(seen: SeenOffsets) -> SeenOffsets:
    """Raise the error of a broker that did not answer."""
    for error in seen.silent.values():
        raise error
    return seen


def require_masters(seen: SeenOffsets) -> SeenOffsets:
    """Refuse to begin if only a slave has answered, because it may not have the whole queue."""
    for topic, broker in sorted(seen.by_slave):
        raise NoBrokerError(
            f"{topic}@{broker}: its master is down, and only a master knows where a query begins"
        )
    return seen


def _handle_losses(found: list[Loss], *, is_passed: bool) -> None:
    if not is_passed:
        planning.refuse_losses(found)
    for loss in found:
        log.warning("messages are lost: %s", loss)
