"""
A streaming source that carries plans, not messages, through Spark's offset log.

It plans as the rocketmq source does, and journals the epoch of the assignment beside the offsets.
So a batch that is run again has the epoch, the filter and the ranges that it had the first time.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from mq_client.errors import UsageError
from mq_client.filters import Filter
from mq_client.values import Queue
from spark_jobs import options, planning
from spark_jobs.pipeline.assignments import InFiles
from spark_jobs.planning import Range
from spark_jobs.source import StreamReader, understood

FORMAT = "evenkeel-plan"
STOPPING = "stopping"
"""A file of this name in the run's folder: no batch begins any more."""


class PlanSource(DataSource):
    """Options: those of the rocketmq source, and where the assignment and the run's folder are."""

    @classmethod
    def name(cls) -> str:
        """Tell Spark the format's name."""
        return FORMAT

    def schema(self) -> str:
        """A plan is a text."""
        return "plan string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's
        """Plan on and on."""
        given = dict(self.options)
        assignments, run = given.pop("assignments"), given.pop("run")
        return _PlanReader(options.reading(given, is_stream=True), assignments, run)


@dataclass
class _Plan(InputPartition):
    text: str


class _PlanReader(StreamReader):
    def __init__(self, reading: options.Reading, assignments: str, run: str) -> None:
        super().__init__(reading)
        self._assignments = InFiles(assignments, "")
        self._stopping = Path(run) / STOPPING

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"epoch": 0, "group": self._reading.group, **super().initialOffset()}

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802
        if self._stopping.exists():
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
            **super().latestOffset(start, limit),
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [_Plan(json.dumps([start, end]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        assert isinstance(partition, _Plan)
        yield (partition.text,)

    def commit(self, end: dict[str, Any]) -> None:
        """Leave it to the driver, which knows sooner."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one micro-batch reads."""

    epoch: int
    ranges: Sequence[Range]
    wanted: Filter
    end: dict[Queue, int]


def read_plan(text: str) -> Plan:
    """Read what the source wrote."""
    start, end = json.loads(text)
    at, _ = understood(start)
    stop, wanted = understood(end)
    return Plan(end["epoch"], planning.ranges(at, stop), wanted, stop)
