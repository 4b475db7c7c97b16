"""Collects the facts of a job for its report and its metrics."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyspark.accumulators import Accumulator

from contract.report import DriverReport, Filler
from spark_jobs.pipeline.executor_slots import ExecutorSlots
from spark_jobs.pipeline.executors import Executor
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.following import AssignmentFollower
from spark_jobs.pipeline.progress import CommittedProgress
from spark_jobs.pipeline.retries import QueryRetries
from spark_jobs.pipeline.skipping import Skipped


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The state of a job at one moment."""

    published_epoch: int
    """The epoch of the newest assignment."""
    adopted_epoch: int
    """The epoch of the last committed batch."""
    batch: int
    """The last committed batch; -1 before the first."""
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
    engine: str = ""
    """The engine, and why it was chosen."""

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


@dataclass(frozen=True, slots=True)
class FactsCollector:
    """Collects the facts of a job from the parts of its driver."""

    followed: AssignmentFollower
    slots: ExecutorSlots
    progress: CommittedProgress
    retries: QueryRetries
    tally: Accumulator[Tally]
    engine: str

    def collect(self) -> JobFacts:
        """Collect the facts as they are now."""
        return JobFacts(
            published_epoch=self.followed.newest.epoch,
            adopted_epoch=self.progress.adopted_epoch,
            batch=self.progress.batch,
            slots=self.slots.filled,
            is_pinned=self.slots.is_pinned,
            tally=self.tally.value,
            error=self.retries.error or self.followed.refusal,
            executors=self.slots.registered,
            skipped=self.progress.skipped,
            engine=self.engine,
        )
