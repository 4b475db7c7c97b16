"""What a job knows of itself, and how the report shows it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from contract.report import DriverReport, Filler
from spark_jobs.pipeline.executors import Executor
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.skipping import Skipped


@dataclass(frozen=True, slots=True)
class Facts:
    """One look at a job."""

    published_epoch: int
    """Of the newest assignment."""
    adopted_epoch: int
    """Of the last batch that is committed."""
    batch: int
    """The last one that is committed; -1 before the first."""
    slots: Mapping[str, Executor]
    """Who fills those that are filled."""
    is_pinned: bool
    tally: Tally
    error: str | None
    executors: Collection[str] = ()
    """All that are registered with Spark, also those without a slot, by their ids."""
    skipped: Skipped | None = None
    """What was passed over as asked; None if this driver did not."""

    def report(self) -> DriverReport:
        """Write it down for whoever published the assignment."""
        return DriverReport(
            error=self.error,
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
