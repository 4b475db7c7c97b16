"""Runs the batches of a job: `BatchRunner.run` shows the steps of one, from top to bottom."""

import functools
import threading
import time
from pathlib import Path

from spark_jobs.pipeline import plan_source, session
from spark_jobs.pipeline.executor_slots import ExecutorSlots
from spark_jobs.pipeline.following import AssignmentFollower
from spark_jobs.pipeline.metrics import JobMetrics
from spark_jobs.pipeline.progress import CommittedProgress
from spark_jobs.pipeline.pulling import LocatedPulls
from spark_jobs.pipeline.users_part import UsersPart
from spark_jobs.pipeline.writing import BatchWriter


class BatchRunner:
    """Runs one batch after another; the loop calls only `drain_between_batches`."""

    def __init__(
        self,
        followed: AssignmentFollower,
        slots: ExecutorSlots,
        pulls: LocatedPulls,
        users: UsersPart,
        progress: CommittedProgress,
        metrics: JobMetrics,
    ) -> None:
        """Run nothing yet."""
        self._followed = followed
        self._slots = slots
        self._pulls = pulls
        self._users = users
        self._progress = progress
        self._metrics = metrics
        self._in_batch = threading.Lock()
        """Held while a batch runs, because executors that cache its rows must not end then."""

    def run(self, folder: Path, number: int) -> None:
        """
        Run one batch; Spark calls it, in a thread of its own.

        Before this call, `plan_source` has planned the batch, and Spark has written the plan to its
        offset log, so a batch that runs again has the same plan. After this call, Spark commits the
        batch; `LoopTurns.settle` counts the batch only when it sees the commit.
        """
        plan = plan_source.take_plan(folder)
        if plan.ranges:
            with self._in_batch:
                self._slots.need_executors()
                self._slots.drain(self._followed.drained)
                if not self._followed.knows(plan.epoch):  # only the plan source has read this epoch
                    self._followed.read_newest(self._progress.adopted_epoch)
                query = session.read_query_id(self._pulls.spark)
                rows = self._pulls.pull(
                    plan,
                    is_skipping=self._progress.may_skip(plan),
                    has_dead_letters=self._users.write_dead_letters is not None,
                )
                self._metrics.planning.observe(time.time() - plan.begun)
                unreadable = functools.partial(self._pulls.pull_unreadable, plan)
                BatchWriter(self._users, query, number, unreadable).write(rows)
        self._metrics.batch.observe(time.time() - plan.begun)
        self._progress.note_written(number, plan)

    def drain_between_batches(self) -> None:
        """Drain executors, unless a batch runs."""
        if self._in_batch.acquire(blocking=False):  # otherwise the next batch drains them first
            try:
                self._slots.drain(self._followed.drained)
            finally:
                self._in_batch.release()
