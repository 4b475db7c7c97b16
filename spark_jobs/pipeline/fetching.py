"""
The tasks that pull: how a batch is cut into them, and what one does on its executor.

A slot's queues are dealt to as many tasks as its executor has cores. Queues of a slot that is empty
go to the executors of the others meanwhile: left to Spark, their tasks would also run on a new one
that is not warm, and the whole batch would wait for its start.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam

from mq_client.errors import UnavailableError
from mq_client.filters import Filter
from mq_client.messages import Unreadable
from mq_client.values import MessageQueue
from spark_jobs import fetch, planning, schema
from spark_jobs.options import Reading
from spark_jobs.pipeline.executors import Executor, ExecutorTask
from spark_jobs.planning import Range

Row = tuple[str, str, int, int, int]
"""A range: topic, broker, queue, from, up to."""


class Spec(msgspec.Struct, frozen=True):
    """What one task pulls, and the executor that was meant to."""

    slot: str | None
    executor: str | None
    ranges: list[Row]


class Tally(msgspec.Struct):
    """What the tasks of a job did."""

    rows: dict[str, int] = {}
    """By slot."""
    bytes: int = 0
    misplaced: int = 0
    """Tasks that ran on another executor than they were meant for."""
    tasks: int = 0
    offsets: int = 0
    """That were to be read. Where nothing is filtered or lost, each gave a row."""
    gaps: list[Row] = []
    """Offsets that were lost, of batches that may pass over them."""
    unreadable: list[Row] = []
    """Of messages that are there and cannot be read, where they go to the dead letters."""

    @property
    def lost(self) -> list[Range]:
        """What was lost; a task that runs again tells of it again."""
        return planning.merged(map(_range, self.gaps))

    def unreadable_in(self, ranges: Sequence[Range]) -> list[Range]:
        """Tell which messages in these ranges cannot be read."""
        spans = {each.queue: each for each in ranges}
        return [
            each
            for each in planning.merged(map(_range, self.unreadable))
            if (span := spans.get(each.queue)) and span.start <= each.start < span.stop
        ]


class Tallies(AccumulatorParam[Tally]):
    """Adds tallies up."""

    def zero(self, value: Tally) -> Tally:
        """Begin with nothing."""
        return Tally()

    def addInPlace(self, value1: Tally, value2: Tally) -> Tally:  # noqa: N802  # Spark's name
        """Add one to another."""
        for slot, rows in value2.rows.items():
            value1.rows[slot] = value1.rows.get(slot, 0) + rows
        value1.bytes += value2.bytes
        value1.misplaced += value2.misplaced
        value1.tasks += value2.tasks
        value1.offsets += value2.offsets
        value1.gaps += value2.gaps
        value1.unreadable += value2.unreadable
        return value1


@dataclass(frozen=True)
class Fetcher:
    """What a task needs beside its spec; goes to executors."""

    reading: Reading
    wanted: Filter
    tally: Accumulator[Tally]
    is_skipping: bool = False
    """Whether it passes over what is lost, for somebody has asked for that."""
    has_dead_letters: bool = False
    """Whether messages that cannot be read are told of, and go there."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pull what the specs say."""
        for batch in batches:
            for text in batch["value"].to_pylist():
                yield from self._pull(msgspec.json.decode(text, type=Spec))

    def _pull(self, spec: Spec) -> Iterator[pa.RecordBatch]:
        rows = size = 0
        gaps: list[Range] = []
        unreadable: list[Unreadable] = []
        for batch in fetch.fetch(
            list(map(_range, spec.ranges)),
            self.reading.cluster,
            self.reading.group,
            self.wanted,
            allow_gaps=self.is_skipping or not self.reading.fail_on_data_loss,
            include_properties=self.reading.include_properties,
            gaps=gaps if self.is_skipping else None,
            unreadable=unreadable if self.has_dead_letters else None,
        ):
            rows += batch.num_rows
            size += batch.nbytes
            yield batch
        is_misplaced = spec.executor is not None and spec.executor != this_executor()
        counted = {spec.slot or "": rows}
        lost, broken = list(map(_row, gaps)), list(map(_broken_row, unreadable))
        offsets = sum(map(_size, map(_range, spec.ranges)))
        self.tally.add(Tally(counted, size, int(is_misplaced), 1, offsets, lost, broken))


@dataclass(frozen=True)
class UnreadablePuller:
    """Pulls messages that cannot be read once more, for the dead letters; goes to executors."""

    reading: Reading
    wanted: Filter

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give a row for each that the specs name: as it is stored, and what is wrong with it."""
        for batch in batches:
            for text in batch["value"].to_pylist():
                for row in msgspec.json.decode(text, type=Spec).ranges:
                    yield self._pull(_range(row))

    def _pull(self, part: Range) -> pa.RecordBatch:
        found: list[Unreadable] = []
        for _ in fetch.fetch(
            [part], self.reading.cluster, self.reading.group, self.wanted,
            allow_gaps=False, include_properties=False, unreadable=found,
        ):  # fmt: skip
            pass
        if not found:
            raise UnavailableError(f"{part.queue}: offset {part.start} could not be read before")
        return schema.unreadable(found, self.reading.include_properties)


def cut(
    ranges: Sequence[Range], owners: Mapping[MessageQueue, str], fillers: Mapping[str, Executor]
) -> list[ExecutorTask]:
    """Deal the ranges of a batch to tasks."""
    by_slot: dict[str, list[Range]] = {slot: [] for slot in fillers}
    orphans: list[Range] = []
    for each in ranges:
        by_slot.get(owners.get(each.queue, ""), orphans).append(each)
    if not fillers:
        return [_task(None, None, part) for part in _dealt(orphans, len(orphans))]
    loads = {slot: sum(map(_size, share)) for slot, share in by_slot.items()}
    for each in sorted(orphans, key=_size, reverse=True):
        least = min(loads, key=loads.__getitem__)
        by_slot[least].append(each)
        loads[least] += _size(each)
    return [
        _task(slot, fillers[slot], part)
        for slot, share in by_slot.items()
        for part in _dealt(share, fillers[slot].cores)
    ]


def _task(slot: str | None, where: Executor | None, part: Sequence[Range]) -> ExecutorTask:
    spec = Spec(slot, where.id if where else None, list(map(_row, part)))
    return ExecutorTask(msgspec.json.encode(spec).decode(), where)


def _row(part: Range) -> Row:
    return part.queue.topic, part.queue.broker, part.queue.id, part.start, part.stop


def _broken_row(found: Unreadable) -> Row:
    message = found.message
    return message.topic, message.broker, message.queue_id, found.first, found.stop


def _range(row: Row) -> Range:
    topic, broker, number, start, stop = row
    return Range(MessageQueue(topic, broker, number), start, stop)


def _size(part: Range) -> int:
    return part.stop - part.start


def _dealt(ranges: Sequence[Range], hands: int) -> list[list[Range]]:
    """Deal by size, the largest first, to whoever has least."""
    shares: list[list[Range]] = [[] for _ in range(min(hands, len(ranges)))]
    sizes = [0] * len(shares)
    for each in sorted(ranges, key=_size, reverse=True):
        least = sizes.index(min(sizes))
        shares[least].append(each)
        sizes[least] += _size(each)
    return shares


def this_executor() -> str | None:
    """Tell which executor this process belongs to; a worker inherits its environment."""
    told = os.environ.get("SPARK_EXECUTOR_ID")  # on Kubernetes
    seen = re.search(r"executorId=(\w+)", os.environ.get("SPARK_LOG_URL_STDERR", ""))
    return told or (seen[1] if seen else None)


def this_pod() -> str | None:
    """Tell which pod this process runs in, where executors are pods."""
    return os.environ.get("SPARK_EXECUTOR_POD_NAME")
