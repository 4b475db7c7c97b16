"""Plans, runs and commits one batch after another."""

import logging
import threading
import time
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from contract import exit_codes
from mq_client.values import MessageQueue
from spark_jobs import journal as offsets
from spark_jobs.pipeline.batch.batches import BatchRunner
from spark_jobs.pipeline.batch.planning import BatchPlanner
from spark_jobs.pipeline.checkpoint import plans
from spark_jobs.pipeline.checkpoint.journal import CheckpointState, JobJournal, JournalTakenError
from spark_jobs.pipeline.checkpoint.plans import BatchPlan
from spark_jobs.pipeline.failures import Cure, judge_error
from spark_jobs.pipeline.retries import PATIENCE, BatchRetries

log = logging.getLogger("evenkeel.job")
LEAST_IDLE_SECONDS = 0.05
"""While there is nothing to read, brokers are not asked more often than this."""


class JournalAwayError(Exception):
    """The driver must end, and an entry of the journal is not written."""


class BatchLoop:
    """
    Runs in a thread of its own, so that a long batch does not delay the driver's loop.

    Another thread may read its attributes.
    """

    def __init__(
        self,
        state: CheckpointState,
        journal: JobJournal,
        planner: BatchPlanner,
        batches: BatchRunner,
        retries: BatchRetries,
        seconds: float,
        *,
        is_scheduled: bool,
    ) -> None:
        """
        Begin with a state of the journal, and run nothing yet.

        A batch begins every so many `seconds`, or later if the one before it takes longer. A
        scheduled run does not wait, and ends when there is nothing to read.
        """
        self.state = state
        """The newest entry of the journal."""
        self.ends: dict[MessageQueue, int] = offsets.read_offsets(state.offsets)
        """Where each queue is read next."""
        self._journal = journal
        self._planner = planner
        self._batches = batches
        self._retries = retries
        self._seconds = seconds
        self._is_scheduled = is_scheduled

    def run(self, stop: threading.Event) -> int:
        """
        Run until all is read, the job fails, or `stop` is set; return the exit code.

        When `stop` is set, the batch that runs is the last one.
        """
        while not stop.is_set():
            begun = time.monotonic()
            try:
                has_run = self._take_turn(begun, stop)
            except (JournalTakenError, JournalAwayError) as error:
                log.error("the driver ends: %s", error)
                return exit_codes.TRY_AGAIN
            except (Exception, SystemExit) as error:  # noqa: BLE001  # users' code raises anything
                pause = self._choose_pause(error)
                if pause is None:
                    return exit_codes.PERMANENT
                if stop.wait(pause):
                    return exit_codes.TRY_AGAIN
                continue
            self._retries.forget()
            if not has_run and self._is_scheduled:
                return exit_codes.DONE
            if not self._is_scheduled:
                pause = self._seconds if has_run else max(self._seconds, LEAST_IDLE_SECONDS)
                stop.wait(begun + pause - time.monotonic())
        return exit_codes.DONE

    def _take_turn(self, begun: float, stop: threading.Event) -> bool:
        """Plan and run a batch, if there is something new; return whether there was."""
        if not self.state.planned:
            state = self._planner.plan(self.state)
            if state == self.state:
                return False
            self._append(state, stop)
            self._take(state)
        for batch in self.state.planned:
            plan = BatchPlan(self.state.query, self.state.skip, batch, begun)
            if batch.ranges:
                self._batches.run(plan)
            state = plans.commit(self.state, batch)
            self._append(state, stop)
            self._take(state)
            self._batches.note_commit(plan)
        return True

    def _take(self, state: CheckpointState) -> None:
        self.state, self.ends = state, offsets.read_offsets(state.offsets)

    def _append(self, state: CheckpointState, stop: threading.Event) -> None:
        """
        Write an entry of the journal, and try again until that succeeds or `stop` is set.

        If an error here counted as a failure of the batch, the batch would write its rows again.
        """
        error_before = self._retries.error
        for pause in PATIENCE.make_pauses():
            try:
                self._journal.append(state)
            except (OSError, Py4JError, PySparkException) as error:
                failure = judge_error(error)
                self._retries.error = f"the journal cannot be written: {failure.message}"
                log.warning("the journal is written again in %g s: %s", pause, failure.message)
                if stop.wait(pause):
                    raise JournalAwayError(self._retries.error) from error
            else:
                self._retries.error = error_before
                break

    def _choose_pause(self, error: BaseException) -> float | None:
        """Return how long to wait before the next turn; None if the job must end."""
        failure = replace(judge_error(error), is_in_batch=bool(self.state.planned))
        pause = self._retries.choose_pause(failure)
        self._batches.note_failure()
        trace = None if failure.cure is Cure.TIME else error
        if pause is None:
            log.error(
                "the job ends, because a retry does not help: %s", failure.message, exc_info=trace
            )
        else:
            what = "batch" if failure.is_in_batch else "planning"
            log.warning(
                "the %s starts again in %g s: %s", what, pause, failure.message, exc_info=trace
            )
        return pause
