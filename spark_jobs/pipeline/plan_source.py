"""
A streaming source that carries plans, not messages, through Spark's offset log.

It plans as the rocketmq source does, and journals the epoch of the assignment beside the offsets.
So a batch that is run again has the epoch, the filter and the ranges that it had the first time.

Spark keeps the source in a process of its own. What it plans reaches the driver as a file, written
when Spark asks for the batch's partitions: as rows it would take a task, and an executor that
lives, before the batch's own tasks can be made.
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
from spark_jobs.pipeline.assignments import InFiles, replace_file
from spark_jobs.planning import Loss, Range, SeenOffsets
from spark_jobs.source import StreamReader

log = logging.getLogger("evenkeel.job")
FORMAT = "evenkeel-plan"
STOPPING = "stopping"
"""A file of this name in the run's folder: no batch begins any more."""
COMMITTED = "committed.json"
"""Where the checkpoint stands when the run begins."""
PLAN = "plan.json"
"""What the batch reads that begins now."""


class PlanSource(DataSource):
    """Options: those of the rocketmq source, those of a job, and where the run's folder is."""

    @classmethod
    def name(cls) -> str:
        """Tell Spark the format's name."""
        return FORMAT

    def schema(self) -> str:
        """No row is ever read."""
        return "nothing string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's
        """Plan on and on."""
        given = dict(self.options)
        assignments, run, skip = (given.pop(name) for name in ("assignments", "run", "skip"))
        return PlanReader(options.reading(given, is_stream=True), assignments, run, skip)


class PlanReader(StreamReader):
    """Plans as its parent does; Spark keeps it in a process of its own."""

    def __init__(self, reading: options.Reading, assignments: str, run: str, skip: str) -> None:
        """Ask nothing yet."""
        super().__init__(reading)
        self._assignments = InFiles(assignments, "")
        self._run = Path(run)
        self._skip = skip
        self._begun = 0.0

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Begin with no queue, and with nobody's assignment."""
        return {"epoch": 0, "group": self._reading.group, **super().initialOffset()}

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802
        """Tell where the next batch ends, and whose assignment it follows."""
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
            epoch = self._assignments.latest().epoch
        except UsageError:
            epoch = 0  # the driver tells of it
        return {
            "epoch": max(epoch, start["epoch"]),
            "group": self._reading.group,
            **skipping.journaled(self._skip, start),
            **super().latestOffset(start, limit),
        }

    def _passes_over_losses(self, start: dict[str, Any]) -> bool:
        return super()._passes_over_losses(start) or skipping.is_open(
            self._skip, skipping.known(start)
        )

    def _begin(self, seen: SeenOffsets) -> dict[MessageQueue, int]:
        """Begin where the job says, but only in a group's first run; else where it stands."""
        begin = super()._begin(seen)
        stands = self._observer.stands(seen)
        known = {queue.topic for queue in stands}
        for topic in sorted(known):
            log.warning(
                "%s: this checkpoint is new, and the group is not. It goes on where the brokers "
                "know it to be; what it has read beyond that comes again",
                topic,
            )
        return {
            queue: stands.get(queue, seen.queues[queue].min) if queue.topic in known else at
            for queue, at in begin.items()
        }

    def _new(
        self, at: Mapping[MessageQueue, int], seen: SeenOffsets, is_begun: bool
    ) -> dict[MessageQueue, int]:
        """Begin where the group stands, for a queue may have been closed, and be open again."""
        found = super()._new(at, seen, is_begun)
        if not is_begun or not found:
            return found
        new = {queue: seen.queues[queue] for queue in found}
        stands = self._observer.stands(replace(seen, queues=new))
        return found | {
            queue: min(max(stand, new[queue].min), new[queue].max)
            for queue, stand in stands.items()
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Leave the plan for the driver."""
        plan = {"start": start, "end": end, "begun": self._begun or time.time()}
        replace_file(self._run / PLAN, json.dumps(plan).encode())
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        """Give no row."""
        return iter(())

    def commit(self, end: dict[str, Any]) -> None:
        """Leave it to the driver, which knows sooner."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What one micro-batch reads."""

    epoch: int
    ranges: Sequence[Range]
    wanted: Filter
    end: dict[MessageQueue, int]
    begun: float
    """When the brokers were asked, in seconds since 1970."""
    skip_before: str
    """For what the job has passed over losses last, when the batch begins."""
    skip: str
    """The same when it has ended."""
    turned_back: Sequence[Loss]
    """Queues that it leaves, or sets back, for what they held is lost."""


def committed(run: Path) -> tuple[dict[MessageQueue, int], int]:
    """Tell where the checkpoint stood when the run began, and its epoch; nowhere before that."""
    file = run / COMMITTED
    if not file.exists():
        return {}, 0
    written = json.loads(file.read_bytes())
    return journal.read(written).offsets, written["epoch"]


def take_plan(run: Path) -> BatchPlan:
    """Take what the source has planned for the batch that begins."""
    file = run / PLAN
    written = json.loads(file.read_bytes())
    file.unlink()  # a batch must not find the plan of another
    start, end = journal.read(written["start"]), journal.read(written["end"])
    return BatchPlan(
        written["end"]["epoch"],
        planning.ranges(start.offsets, end.offsets),
        end.wanted,
        end.offsets,
        written["begun"],
        skipping.known(written["start"]),
        skipping.known(written["end"]),
        planning.turned_back(start.aside | start.offsets, end.aside | end.offsets),
    )
