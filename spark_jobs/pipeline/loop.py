"""What the driver's loop does at each turn, twice a second, while a batch may run."""

from spark_jobs.pipeline import plan_source
from spark_jobs.pipeline.assignments import Assignments
from spark_jobs.pipeline.batches import BatchRunner
from spark_jobs.pipeline.executor_slots import ExecutorSlots
from spark_jobs.pipeline.facts import FactsCollector
from spark_jobs.pipeline.following import AssignmentFollower
from spark_jobs.pipeline.group import JobGroup
from spark_jobs.pipeline.progress import CommittedProgress
from spark_jobs.pipeline.query import PlanQuery
from spark_jobs.pipeline.retries import QueryRetries


class LoopTurns:
    """Follows the assignment, sends committed offsets to the brokers, and reports."""

    def __init__(
        self,
        assignments: Assignments,
        followed: AssignmentFollower,
        slots: ExecutorSlots,
        batches: BatchRunner,
        progress: CommittedProgress,
        retries: QueryRetries,
        group: JobGroup,
        facts: FactsCollector,
    ) -> None:
        """Do nothing yet."""
        self._assignments = assignments
        self._followed = followed
        self._slots = slots
        self._batches = batches
        self._progress = progress
        self._retries = retries
        self._group = group
        self._facts = facts

    def follow(self) -> None:
        """Read the newest assignment, and fill its slots with executors."""
        adopted = self._progress.adopted_epoch
        self._followed.read_newest(adopted)
        self._slots.fill(self._followed.newest, self._followed.find(adopted))
        self._batches.drain_between_batches()

    def settle(self, query: PlanQuery) -> None:
        """
        After Spark's commit, send the end offsets to the brokers, and report the epoch as adopted.

        Before the commit, do neither of the two: until then, the batch may run again and read less.
        """
        committed = query.find_committed_batch()
        if committed is not None and self._progress.commit_through(committed):
            self._retries.forget_error()
        if not self._progress.ends:
            self._progress.resume_from(*plan_source.read_committed(query.folder))
        self._group.update(self._progress.ends)
        self.report()

    def report(self) -> None:
        """Write the report."""
        self._assignments.report(self._facts.collect().report())
