"""
A streaming source that sends plans, not messages, through Spark's offset log.

It plans as the rocketmq source does, and writes the epoch of the assignment to the log with the
offsets. So a batch that runs again has the same epoch, filter and ranges.

Spark runs the source in another process. Its plan reaches the driver as a file, which is written
when Spark asks for the partitions of the batch. If the plan were a row, a task on a live executor
would have to read it before the tasks of the batch can be made.
"""

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from mq_client.errors import UsageError
from mq_client.filters import Filter
from mq_client.values import MessageQueue
from spark_jobs import journal, options, planning
from spark_jobs.pipeline import skipping
from spark_jobs.pipeline.assignments import FileAssignments, replace_file
from spark_jobs.planning import Loss, Range, SeenOffsets
from spark_jobs.source import StreamReader

log = logging.getLogger("evenkeel.job")
FORMAT = "evenkeel-plan"
STOPPING = "stopping"
"""While the run's folder has a file of this name, no batch begins."""
COMMITTED = "committed.json"
"""The file with the offsets and the epoch of the checkpoint when the run begins."""
PLAN = "plan.json"
"""The file that says what the next batch reads."""


class PlanSource(DataSource):
    """Takes the options of the rocketmq source, those of a job, and the run's folder."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return a schema. Spark requires one, although no row is ever read."""
        return "nothing string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's
        """Make the reader that plans the batches."""
        given = dict(self.options)
        assignments, run, skip = (given.pop(name) for name in ("assignments", "run", "skip"))
        return PlanReader(options.parse_reading(given, is_stream=True), assignments, run, skip)


class PlanReader(StreamReader):
    """Plans as `StreamReader` does. Spark runs it in a separate process, not in the driver."""

    def __init__(self, reading: options.Reading, assignments: str, run: str, skip: str) -> None:
        """Send no request yet."""
        super().__init__(reading)
        self._assignments = FileAssignments(assignments, "")
        self._run = Path(run)
        self._skip = skip
        self._begun = 0.0

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Begin without a queue and without an assignment."""
        return {"epoch": 0, "group": self._reading.group, **super().initialOffset()}

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802
        """Find where the next batch ends, and which assignment it follows."""
        self._begun = time.time()
        if not {"group", "epoch"} <= start.keys():
            raise UsageError("this checkpoint was not written by a pinned job: choose another")
        if not (self._run / COMMITTED).exists():
            replace_file(self._run / COMMITTED, json.dumps(start).encode())
        if (self._run / STOPPING).exists():
            return start
        if start["group"] != self._reading.group:
            raise UsageError(
                f"the checkpoint belongs to the group {start['group']!r}, not to "
                f"{self._reading.group!r}: choose another checkpoint"
            )
        try:
            epoch = self._assignments.read_latest().epoch
        except UsageError:
            epoch = 0  # the driver reports the error
        return {
            "epoch": max(epoch, start["epoch"]),
            "group": self._reading.group,
            **skipping.make_journal_entry(self._skip, start),
            **super().latestOffset(start, limit),
        }

    def _skips_losses(self, start: dict[str, Any]) -> bool:
        return super()._skips_losses(start) or skipping.is_open(
            self._skip, skipping.read_last_used(start)
        )

    def _find_begin(self, seen: SeenOffsets) -> dict[MessageQueue, int]:
        """Begin at the group's committed offsets, or at the start in the options if it has none."""
        begin = super()._find_begin(seen)
        stands = self._observer.read_committed(seen)
        known = {queue.topic for queue in stands}
        for topic in sorted(known):
            log.warning(
                "%s: this checkpoint is new, but the group is not. The job continues at the "
                "brokers' offsets; messages after these are read again",
                topic,
            )
        return {
            queue: stands.get(queue, seen.queues[queue].min) if queue.topic in known else at
            for queue, at in begin.items()
        }

    def _find_new(
        self, at: Mapping[MessageQueue, int], seen: SeenOffsets, is_begun: bool
    ) -> dict[MessageQueue, int]:
        """Begin at the group's offsets in new queues, which may have been closed and reopened."""
        found = super()._find_new(at, seen, is_begun)
        if not is_begun or not found:
            return found
        new = {queue: seen.queues[queue] for queue in found}
        stands = self._observer.read_committed(replace(seen, queues=new))
        return found | {
            queue: min(max(stand, new[queue].min), new[queue].max)
            for queue, stand in stands.items()
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Write the plan to a file for the driver."""
        plan = {"start": start, "end": end, "begun": self._begun or time.time()}
        replace_file(self._run / PLAN, json.dumps(plan).encode())
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        """Yield no row."""
        return iter(())

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the driver commits the offsets itself, and earlier."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What one micro-batch reads."""

    epoch: int
    ranges: Sequence[Range]
    wanted: Filter
    end: dict[MessageQueue, int]
    begun: float
    """When planning began, in seconds since 1970."""
    skip_before: str
    """The last `skip` value that was carried out before this batch."""
    skip: str
    """The last `skip` value that was carried out before or in this batch."""
    turned_back: Sequence[Loss]
    """Queues that this batch drops, or reads again from an earlier offset, because of losses."""

    def may_skip(self, skip: str) -> bool:
        """Whether this batch may skip losses in a job with this `skip` value."""
        return skipping.is_open(skip, self.skip_before)

    def uses_up(self, skip: str) -> bool:
        """Whether this batch was planned with this `skip` value: its commit uses the value up."""
        return self.may_skip(skip) and self.skip == skip


def read_committed(run: Path) -> tuple[dict[MessageQueue, int], int]:
    """Read the offsets and the epoch that the checkpoint had when the run began."""
    file = run / COMMITTED
    if not file.exists():
        return {}, 0
    written = json.loads(file.read_bytes())
    return journal.read(written).offsets, written["epoch"]


def take_plan(run: Path) -> BatchPlan:
    """Read and remove the plan of the batch that begins."""
    file = run / PLAN
    written = json.loads(file.read_bytes())
    file.unlink()  # no other batch may read it
    start, end = journal.read(written["start"]), journal.read(written["end"])
    return BatchPlan(
        written["end"]["epoch"],
        planning.plan_ranges(start.offsets, end.offsets),
        end.wanted,
        end.offsets,
        written["begun"],
        skipping.read_last_used(written["start"]),
        skipping.read_last_used(written["end"]),
        planning.find_turned_back(start.aside | start.offsets, end.aside | end.offsets),
    )
