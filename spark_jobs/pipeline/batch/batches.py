"""Runs the batches of a job: `BatchRunner.run` shows the steps of one, from top to bottom."""

import functools
import itertools
import logging
import time
from collections.abc import Set

from pyspark.sql import SparkSession

from spark_jobs.pipeline.batch.pulling import LocatedPulls, PlannedPull
from spark_jobs.pipeline.batch.writing import BatchWriter
from spark_jobs.pipeline.checkpoint.plans import BatchPlan
from spark_jobs.pipeline.executor_slots import ExecutorSlots
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.metrics import JobMetrics
from spark_jobs.pipeline.skipping import Skipped
from spark_jobs.pipeline.starting import StartStep, StartTimes
from spark_jobs.pipeline.users_part import UsersPart

log = logging.getLogger("evenkeel.job")


class BatchRunner:
    """
    Runs batches, of several lanes at the same time.

    The lanes' threads call `run`, and `BatchLoop` the other methods. The engine drains executors.
    """

    def __init__(
        self,
        slots: ExecutorSlots,
        pulls: LocatedPulls,
        users: UsersPart,
        metrics: JobMetrics,
        start: StartTimes,
        skip: str,
    ) -> None:
        """Run nothing yet."""
        self._slots = slots
        self._pulls = pulls
        self._users = users
        self._metrics = metrics
        self._start = start
        self._skip = skip
        self.skipped: Skipped | None = None
        """What was skipped on request, if anything."""
        self._attempts = itertools.count()
        self._running: dict[int, PlannedPull] = {}
        """What each lane runs."""

    def run(self, spark: SparkSession, lane: int, plan: BatchPlan) -> None:
        """Pull the messages of a batch, and write its rows to the sink."""
        if not plan.ranges and not plan.planned.is_cut:
            return
        self._slots.need_executors()
        self._pulls.drain_unused()
        pull = PlannedPull(spark, lane, plan, next(self._attempts))
        self._running[lane] = pull
        try:
            self._pull_and_write(pull)
        finally:
            del self._running[lane]
            self._pulls.forget(pull)
        self._metrics.batch.observe(time.monotonic() - plan.begun)

    def find_pulled(self, lane: int) -> Set[str]:
        """Find the brokers from which tasks of this lane's batch still pull."""
        pull = self._running.get(lane)
        return frozenset() if pull is None else self._pulls.find_pulled(pull)

    def _pull_and_write(self, pull: PlannedPull) -> None:
        rows = self._pulls.pull(pull, is_skipping=pull.plan.may_skip(self._skip))
        self._metrics.planning.observe(time.monotonic() - pull.plan.begun)
        unreadable = functools.partial(self._pulls.pull_unreadable, pull)
        is_cut = pull.plan.planned.is_cut
        BatchWriter(self._users, pull.plan.name, unreadable, replaces_all=is_cut).write(rows)

    def note_commit(self, plan: BatchPlan) -> None:
        """Note a commit. Report what was skipped, if the batch uses the request up."""
        if plan.ranges:
            self._start.note(StartStep.COMMIT)
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
        return self._pulls.tally

    def drain_unused(self) -> None:
        """Drain executors that no batch uses. Each batch does so too, before it chooses some."""
        self._pulls.drain_unused()
