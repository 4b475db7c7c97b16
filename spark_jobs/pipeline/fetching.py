"""
Divides a batch into tasks, and pulls the messages of a task on its executor.

A slot's queues are divided among as many tasks as its executor has cores. While a slot is empty,
its queues go to the executors of other slots. If Spark chose the executors, it would also choose
executors that are not warm yet, and the whole batch would wait until they have started.
"""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam

from mq_client.errors import UnavailableError
from mq_client.filters import Filter
from mq_client.messages import Unreadable
from mq_client.values import MASTER_ID, BrokerRoute, MessageQueue
from spark_jobs import connections, fetch, planning, schema
from spark_jobs.journal import Row, read_range, write_range
from spark_jobs.options import Reading
from spark_jobs.pipeline.executors import Executor, ExecutorTask
from spark_jobs.planning import Range

NO_ADDRESSES: Mapping[str, str] = {}


class Spec(msgspec.Struct, frozen=True):
    """What one task pulls, and the executor that it was sent to."""

    slot: str | None
    executor: str | None
    ranges: list[Row]
    attempt: int = 0
    """The attempt of a batch to which the task belongs."""
    is_skipping: bool = False
    """Whether the user asked to skip lost messages."""
    addresses: dict[str, str] = {}
    """The last address of each broker. A new process cannot know those that routes have lost."""


class Tally(msgspec.Struct):
    """What the tasks of a job did."""

    rows: dict[str, int] = {}
    """Pulled rows, by slot."""
    bytes: int = 0
    misplaced: int = 0
    """Tasks that ran on an executor other than the one to which they were sent."""
    tasks: int = 0
    offsets: int = 0
    """Offsets that tasks had to read. Each gives a row, unless its message is filtered or lost."""
    gaps: list[Row] = []
    """Offsets of lost messages that batches have skipped on request."""
    unreadable: dict[int, list[Row]] = {}
    """
    Offsets of messages that cannot be read, by the attempt of a batch: another attempt may read
    them from another broker. Empty if the job has no dead letters.
    """

    ended: dict[int, dict[str, int]] = {}
    """By the attempt of a batch: how many queues of each broker ended tasks have pulled."""

    @property
    def lost(self) -> list[Range]:
        """The lost offsets, each of them once: a task that runs again reports them again."""
        return planning.merge(map(read_range, self.gaps))

    def find_unreadable(self, attempt: int) -> list[Range]:
        """Find the offsets whose messages this attempt could not read."""
        return planning.merge(map(read_range, self.unreadable.get(attempt, ())))


class Tallies(AccumulatorParam[Tally]):
    """Adds up tallies."""

    def zero(self, value: Tally) -> Tally:
        """Make an empty tally."""
        return Tally()

    def addInPlace(self, value1: Tally, value2: Tally) -> Tally:  # noqa: N802  # Spark's name
        """Add the second tally to the first, and return the first."""
        for slot, rows in value2.rows.items():
            value1.rows[slot] = value1.rows.get(slot, 0) + rows
        value1.bytes += value2.bytes
        value1.misplaced += value2.misplaced
        value1.tasks += value2.tasks
        value1.offsets += value2.offsets
        value1.gaps += value2.gaps
        for attempt, counts in value2.ended.items():
            known = value1.ended.setdefault(attempt, {})
            for broker, count in counts.items():
                known[broker] = known.get(broker, 0) + count
        for attempt, found in value2.unreadable.items():
            value1.unreadable.setdefault(attempt, []).extend(found)
        return value1


@dataclass(frozen=True)
class Fetcher:
    """Pulls the messages of tasks. Spark sends this object to the executors."""

    reading: Reading
    wanted: Filter
    tally: Accumulator[Tally]
    has_dead_letters: bool = False
    """Whether to report messages that cannot be read, so that they go to the dead letters."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pull the messages that the specs ask for."""
        for batch in batches:
            for text in batch["value"].to_pylist():
                yield from self._pull(msgspec.json.decode(text, type=Spec))

    def _pull(self, spec: Spec) -> Iterator[pa.RecordBatch]:
        rows = size = 0
        gaps: list[Range] = []
        unreadable: list[Unreadable] = []
        ranges = _begin_spec(spec, self.reading)
        for batch in fetch.fetch(
            ranges,
            self.reading.cluster,
            self.reading.group,
            self.wanted,
            allow_gaps=spec.is_skipping or not self.reading.fail_on_data_loss,
            include_properties=self.reading.include_properties,
            gaps=gaps if spec.is_skipping else None,
            unreadable=unreadable if self.has_dead_letters else None,
        ):
            rows += batch.num_rows
            size += batch.nbytes
            yield batch
        is_misplaced = spec.executor is not None and spec.executor != find_own_executor()
        counted = {spec.slot or "": rows}
        lost = list(map(write_range, gaps))
        offsets = sum(map(_count_offsets, ranges))
        broken = {spec.attempt: list(map(_make_unreadable_row, unreadable))} if unreadable else {}
        self.tally.add(
            Tally(
                rows=counted, bytes=size, misplaced=int(is_misplaced), tasks=1,
                offsets=offsets, gaps=lost, unreadable=broken,
                ended={spec.attempt: dict(Counter(row[1] for row in spec.ranges))},
            )
        )  # fmt: skip


@dataclass(frozen=True)
class UnreadablePuller:
    """Pulls unreadable messages again, for the dead letters. Spark sends this to executors."""

    reading: Reading
    wanted: Filter

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Make a row for each message in the specs, with its stored body and its error."""
        for batch in batches:
            for text in batch["value"].to_pylist():
                for part in _begin_spec(msgspec.json.decode(text, type=Spec), self.reading):
                    yield self._pull(part)

    def _pull(self, part: Range) -> pa.RecordBatch:
        found: list[Unreadable] = []
        for _ in fetch.fetch(
            [part], self.reading.cluster, self.reading.group, self.wanted,
            allow_gaps=False, include_properties=False, unreadable=found,
        ):  # fmt: skip
            pass
        if not found:
            raise UnavailableError(
                f"{part.queue}: offset {part.start}, which could not be read, can be read now"
            )
        return schema.make_unreadable_rows(found, self.reading.include_properties)


def plan_tasks(
    ranges: Sequence[Range],
    owners: Mapping[MessageQueue, str],
    filled: Mapping[str, Executor],
    helpers: Collection[str] = (),
    attempt: int = 0,
    *,
    is_skipping: bool = False,
    addresses: Mapping[str, str] = NO_ADDRESSES,
) -> list[ExecutorTask]:
    """
    Divide the ranges of a batch among tasks; `filled` has the executor of each filled slot.

    Queues whose slot is empty go to the slots in `helpers`. If there are none, they go to any slot.
    """
    by_slot: dict[str, list[Range]] = {slot: [] for slot in filled}
    orphans: list[Range] = []
    for each in ranges:
        by_slot.get(owners.get(each.queue, ""), orphans).append(each)

    def make_task(
        slot: str | None, executor: Executor | None, part: Sequence[Range]
    ) -> ExecutorTask:
        name = executor.id if executor else None
        brokers = {each.queue.broker for each in part}
        known = {name: addresses[name] for name in brokers if name in addresses}
        spec = Spec(slot, name, list(map(write_range, part)), attempt, is_skipping, known)
        return ExecutorTask(msgspec.json.encode(spec).decode(), executor)

    if not filled:
        return [make_task(None, None, part) for part in _divide(orphans, len(orphans))]
    loads = {slot: sum(map(_count_offsets, by_slot[slot])) for slot in helpers or by_slot}
    for each in sorted(orphans, key=_count_offsets, reverse=True):
        least = min(loads, key=loads.__getitem__)
        by_slot[least].append(each)
        loads[least] += _count_offsets(each)
    return [
        make_task(slot, filled[slot], part)
        for slot, share in by_slot.items()
        for part in _divide(share, filled[slot].cores)
    ]


def _begin_spec(spec: Spec, reading: Reading) -> list[Range]:
    """Tell this process's client the spec's addresses; return the ranges."""
    ranges = list(map(read_range, spec.ranges))
    directory = connections.get_client(reading.cluster).directory
    for topic, broker in {(each.queue.topic, each.queue.broker) for each in ranges}:
        if address := spec.addresses.get(broker):
            directory.note_unlisted(topic, BrokerRoute(broker, "", {MASTER_ID: address}, 0, 0, 0))
    return ranges


def _make_unreadable_row(found: Unreadable) -> Row:
    message = found.message
    return message.topic, message.broker, message.queue_id, found.first, found.stop


def _count_offsets(part: Range) -> int:
    return part.stop - part.start


def _divide(ranges: Sequence[Range], count: int) -> list[list[Range]]:
    """Divide ranges, the largest first: each goes to the share that is smallest so far."""
    shares: list[list[Range]] = [[] for _ in range(min(count, len(ranges)))]
    sizes = [0] * len(shares)
    for each in sorted(ranges, key=_count_offsets, reverse=True):
        least = sizes.index(min(sizes))
        shares[least].append(each)
        sizes[least] += _count_offsets(each)
    return shares


def find_own_executor() -> str | None:
    """Return the id of this process's executor, from the environment variables."""
    on_kubernetes = os.environ.get("SPARK_EXECUTOR_ID")
    elsewhere = re.search(r"executorId=(\w+)", os.environ.get("SPARK_LOG_URL_STDERR", ""))
    return on_kubernetes or (elsewhere[1] if elsewhere else None)


def find_own_pod() -> str | None:
    """Return the name of this process's pod, if executors are pods."""
    return os.environ.get("SPARK_EXECUTOR_POD_NAME")
