"""The facts of a job, for its report and its metrics."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from contract.report import DriverReport, Filler
from spark_jobs.pipeline.executors import Executor
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.skipping import Skipped


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """The state of one lane of a job with batches."""

    lane: int
    batch: int | None = None
    """The number of the batch that runs; None if none runs."""
    seconds: float = 0.0
    """For how long it has been running since its last start."""
    offsets: int = 0
    """How many offsets it reads."""
    left_out: Collection[str] = ()
    """Brokers that were cut out of a batch, and that no committed batch has read since."""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The state of a job at one moment."""

    published_epoch: int
    """The epoch of the newest assignment."""
    adopted_epoch: int
    """The epoch of the newest assignment that all lanes, or all tasks of a flow, follow."""
    batch: int
    """The highest number of a committed batch; -1 before the first."""
    slots: Mapping[str, Executor]
    """The filled slots, with their executors."""
    is_pinned: bool
    tally: Tally
    error: str | None
    executors: Collection[str] = ()
    """The ids of all executors that Spark has registered, with or without a slot."""
    skipped: Skipped | None = None
    """What this driver has skipped on request, if anything."""
    given_up: int = 0
    """How many tasks of a flow the driver has given up."""
    refused: int = 0
    """How many commits of a flow the driver has refused."""
    cancelled: Mapping[str, int] = field(default_factory=dict)
    """How often a batch was cancelled because of a silent `broker` or `executor`."""
    lanes: Sequence[LaneFacts] = ()
    engine: str = ""
    """The engine, and why it was chosen."""
    started: Mapping[str, float] = field(default_factory=dict)
    """When each step of the driver's start was done, in seconds (`starting`)."""

    def report(self) -> DriverReport:
        """Make the report for the publisher of the assignment."""
        return DriverReport(
            error=self.error,
            engine=self.engine,
            adopted_epoch=self.adopted_epoch,
            batch=self.batch,
            executors=sorted(self.executors),
            slots={name: Filler(each.id, each.host) for name, each in self.slots.items()},
            pinned=self.is_pinned,
            rows=self.tally.rows,
            bytes=self.tally.bytes,
            tasks=self.tally.tasks,
            misplaced_tasks=self.tally.misplaced,
            offsets=self.tally.offsets,
            skipped=self.skipped.report() if self.skipped else None,
        )
