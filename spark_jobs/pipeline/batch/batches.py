"""Runs the batches of a job: `BatchRunner.run` shows the steps of one, from top to bottom."""

import functools
import logging
import threading
import time

from spark_jobs.pipeline.batch.pulling import LocatedPulls
from spark_jobs.pipeline.batch.writing import BatchWriter
from spark_jobs.pipeline.checkpoint.plans import BatchPlan
from spark_jobs.pipeline.executor_slots import ExecutorSlots
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.following import AssignmentFollower
from spark_jobs.pipeline.metrics import JobMetrics
from spark_jobs.pipeline.skipping import Skipped
from spark_jobs.pipeline.users_part import UsersPart

log = logging.getLogger("evenkeel.job")


class BatchRunner:
    """
    Runs one batch after another.

    `BatchLoop` calls `run`, `note_commit` and `note_failure`. The engine drains executors.
    """

    def __init__(
        self,
        followed: AssignmentFollower,
        slots: ExecutorSlots,
        pulls: LocatedPulls,
        users: UsersPart,
        metrics: JobMetrics,
        skip: str,
    ) -> None:
        """Run nothing yet."""
        self._followed = followed
        self._slots = slots
        self._pulls = pulls
        self._users = users
        self._metrics = metrics
        self._skip = skip
        self.skipped: Skipped | None = None
        """What was skipped on request, if anything."""
        self._in_batch = threading.Lock()
        """Held while a batch runs, because executors that cache its rows must not end then."""

    def run(self, plan: BatchPlan) -> None:
        """Pull the messages of a batch, and write its rows to the sink."""
        with self._in_batch:
            # What an earlier attempt could not read, this attempt may read from another broker.
            self.tally.unreadable.clear()
            self._slots.need_executors()
            self._slots.drain(self._followed.drained)
            rows = self._pulls.pull(
                plan,
                is_skipping=plan.may_skip(self._skip),
                has_dead_letters=self._users.write_dead_letters is not None,
            )
            self._metrics.planning.observe(time.monotonic() - plan.begun)
            unreadable = functools.partial(self._pulls.pull_unreadable, plan)
            BatchWriter(self._users, plan.query, plan.planned.number, unreadable).write(rows)
        self._metrics.batch.observe(time.monotonic() - plan.begun)

    def note_commit(self, plan: BatchPlan) -> None:
        """Report what was skipped, once the batch that uses the request up is committed."""
        if not plan.uses_up(self._skip):
            return
        self.skipped = Skipped(self._skip, self.tally.lost, plan.planned.turned_back)
        for line in self.skipped.lines or ["nothing"]:
            log.warning("skipped, as requested by skip %r: %s", self._skip, line)

    def note_failure(self) -> None:
        """Count a batch, or its planning, that has failed."""
        self._metrics.failures.inc()

    @property
    def tally(self) -> Tally:
        """What tasks have done so far."""
        return self._pulls.tally.value

    def drain_between_batches(self) -> None:
        """Drain executors, unless a batch runs."""
        if self._in_batch.acquire(blocking=False):  # otherwise the next batch drains them first
            try:
                self._slots.drain(self._followed.drained)
            finally:
                self._in_batch.release()
