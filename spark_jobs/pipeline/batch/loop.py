"""Plans, runs and commits the batches of all lanes, one after another in each lane."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from contract import exit_codes
from mq_client.values import MessageQueue
from spark_jobs import journal as offsets
from spark_jobs.pipeline.batch.batches import BatchRunner
from spark_jobs.pipeline.batch.lanes import Lane, LaneDealer
from spark_jobs.pipeline.batch.planning import BatchPlanner
from spark_jobs.pipeline.batch.threads import EndedBatch, LaneThreads
from spark_jobs.pipeline.batch.watching import TroubleWatch
from spark_jobs.pipeline.checkpoint import plans
from spark_jobs.pipeline.checkpoint.journal import (
    CheckpointState,
    JobJournal,
    JournalTakenError,
    PlannedBatch,
)
from spark_jobs.pipeline.checkpoint.plans import BatchPlan
from spark_jobs.pipeline.facts import LaneFacts
from spark_jobs.pipeline.failures import Cure, judge_error
from spark_jobs.pipeline.retries import PATIENCE, BatchRetries

log = logging.getLogger("evenkeel.job")
LOOK_SECONDS = 0.2
"""How soon the loop notices that it must stop."""
LEAST_ASKING_SECONDS, MOST_IDLE_SECONDS = 0.1, 0.5
"""
The driver asks brokers at most every 0.1 s, for all lanes. While there is nothing to read, it asks
less and less often, down to every 0.5 s.
"""
CALM_SECONDS = 1.0
"""A batch that runs for longer is watched."""
END_SECONDS = 5.0
"""How long a driver that has lost the journal waits for its batches."""
MOST_CANCELS = 5
"""The same batch is cancelled at most this often. After that, Spark's own limits decide."""


class JournalAwayError(Exception):
    """The driver must end, and an entry of the journal is not written."""


class BatchLoop:
    """
    Runs in a thread of its own, so that the driver's loop does not wait for brokers.

    Only this thread writes the journal. Another thread may read its attributes.
    """

    def __init__(
        self,
        state: CheckpointState,
        journal: JobJournal,
        planner: BatchPlanner,
        threads: LaneThreads,
        batches: BatchRunner,
        dealer: LaneDealer,
        watch: TroubleWatch,
        seconds: float,
        *,
        is_scheduled: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Begin with a state of the journal, and run nothing yet.

        In each lane, a batch begins every so many `seconds`, or later if the one before it takes
        longer. A scheduled run does not wait, and ends when there is nothing to read.
        """
        self.state = state
        """The newest entry of the journal."""
        self.ends: dict[MessageQueue, int] = offsets.read_offsets(state.offsets)
        """Where each queue is read next."""
        self._journal = journal
        self._planner = planner
        self._threads = threads
        self._batches = batches
        self._dealer = dealer
        self._watch = watch
        self._seconds = 0.0 if is_scheduled else seconds
        self._idle_seconds = seconds
        self._is_scheduled = is_scheduled
        self._clock = clock
        self._lanes = [Lane(number, state.epoch, clock()) for number in range(dealer.count)]
        self._planning = BatchRetries()
        self._plan_at = 0.0
        """When to plan again at the earliest."""
        self._pause = 0.0
        """How long the loop waited before its latest plan."""
        self.cancelled = Counter(broker=0, executor=0)
        """How often a batch was cancelled because of a silent `broker` or `executor`."""
        self._journal_error: str | None = None
        self._code: int | None = None
        """The exit code of a job that has failed, or has read all."""

    @property
    def error(self) -> str | None:
        """Why the job does not go on, or a part of it. None if all is well."""
        errors = [self._journal_error, self._planning.error]
        return next(filter(None, errors + [each.retries.error for each in self._lanes]), None)

    def collect(self) -> list[LaneFacts]:
        """Take the facts of the lanes as they are now."""
        now = self._clock()
        return [lane.collect(now) for lane in self._lanes]

    def run(self, stop: threading.Event) -> int:
        """
        Run until all is read, the job fails, or `stop` is set; return the exit code.

        When the job must end, the batches that run are the last ones.
        """
        try:
            while self._take_turn(stop):
                ended = self._threads.wait(self._choose_wait(stop))
                while ended is not None:
                    self._finish(ended, stop)
                    ended = self._threads.wait(0.0)
        except (JournalTakenError, JournalAwayError) as error:
            log.error("the driver ends: %s", error)
            self._abandon()
            return exit_codes.TRY_AGAIN
        finally:
            self._watch.stop()
        if self._code is not None:
            return self._code
        return exit_codes.TRY_AGAIN if self.error else exit_codes.DONE

    def _take_turn(self, stop: threading.Event) -> bool:
        """Plan and start batches, unless the job must end. Return False if it has ended."""
        if not self._must_end(stop):
            self._plan(stop)
        if not self._must_end(stop):
            self._start()
        self._cancel_stuck()
        return not self._must_end(stop) or any(lane.plan is not None for lane in self._lanes)

    def _must_end(self, stop: threading.Event) -> bool:
        return self._code is not None or stop.is_set()

    def _abandon(self) -> None:
        """Cancel the batches that run, and give them a moment: they cannot be committed."""
        running = {lane.number for lane in self._lanes if lane.plan is not None}
        for number in running:
            self._threads.cancel(number)
        until = self._clock() + END_SECONDS
        while running and self._clock() < until:
            if ended := self._threads.wait(LOOK_SECONDS):
                running.discard(ended.lane)

    def _plan(self, stop: threading.Event) -> None:
        """Plan batches for the lanes that are idle and due, if there is something new."""
        now = self._clock()
        planned = self._dealer.find_planned(self.state)
        idle = [lane for lane in self._lanes if lane.number not in planned]
        due = [lane for lane in idle if lane.next_at <= now]
        if not due or now < self._plan_at:
            return
        if self._is_scheduled:
            due = idle  # the run ends if no lane has anything to read
        try:
            state, epoch = self._planner.plan(self.state, {lane.number for lane in due})
        except (Exception, SystemExit) as error:  # noqa: BLE001  # any error must reach the report
            self._plan_at = now + self._note_failure(error, self._planning)
            return
        self._planning.forget()
        self._pause = 2 * self._pause if state == self.state and not planned else 0.0
        self._pause = min(MOST_IDLE_SECONDS, max(LEAST_ASKING_SECONDS, self._pause))
        self._plan_at = now + self._pause
        if self._is_scheduled and state == self.state and not planned:
            self._code = exit_codes.DONE
        planned = self._dealer.find_planned(state)
        for lane in due:
            lane.begun = lane.next_at = now
            if lane.number not in planned:
                lane.epoch = max(lane.epoch, epoch)
                lane.next_at = now + self._idle_seconds
        self._adopt(state, stop)

    def _start(self) -> None:
        """Start the planned batch of each lane, unless it runs already or has just failed."""
        now = self._clock()
        for number, batch in self._dealer.find_planned(self.state).items():
            lane = self._lanes[number]
            if lane.plan is None and lane.next_at <= now:
                lane.started = now
                lane.plan = BatchPlan(self.state.query, self.state.skip, batch, lane.begun)
                self._threads.start(number, lane.plan)

    def _cancel_stuck(self) -> None:
        """Cancel batches that wait for a silent broker or executor, so that they run again."""
        now = self._clock()
        late = [
            (lane, lane.plan)
            for lane in self._lanes
            if lane.plan is not None and now - lane.started > CALM_SECONDS
        ]
        topics = {each.queue.broker: each.queue.topic for _, plan in late for each in plan.ranges}
        self._watch.watch(topics, is_slow=bool(late))
        for lane, plan in late:
            if lane.trouble is not None or lane.cancels == MOST_CANCELS:
                continue
            group = self._threads.get_group(lane.number)
            pulled = self._batches.find_pulled(lane.number) - lane.left_out
            trouble = self._watch.find_trouble(plan, group, pulled, now - lane.started)
            if trouble is not None and self._threads.cancel(lane.number):
                lane.trouble = trouble
                lane.cancels += 1
                self.cancelled["broker" if trouble.brokers else "executor"] += 1
                log.warning(
                    "batch %d is cancelled and runs again: %s", plan.planned.number, trouble.reason
                )

    def _finish(self, ended: EndedBatch, stop: threading.Event) -> None:
        """Commit the batch of a lane, cut it, or note that it has failed."""
        lane = self._lanes[ended.lane]
        plan, lane.plan = lane.plan, None
        trouble, lane.trouble = lane.trouble, None
        assert plan is not None
        if ended.error is not None and trouble is not None:
            if trouble.brokers:
                lane.left_out |= trouble.brokers
                self._adopt(plans.cut(self.state, plan.planned, trouble.brokers), stop)
            lane.next_at = lane.begun = self._clock()
            return
        if ended.error is not None:
            pause = self._note_failure(ended.error, lane.retries, plan.planned)
            lane.next_at = lane.begun = self._clock() + pause
            return
        lane.epoch = max(lane.epoch, plan.planned.epoch)
        lane.next_at = lane.begun + self._seconds
        self._adopt(plans.commit(self.state, plan.planned), stop)
        self._batches.note_commit(plan)
        lane.retries.forget()
        lane.cancels = 0
        lane.left_out -= {each.queue.broker for each in plan.ranges}

    def _choose_wait(self, stop: threading.Event) -> float:
        """Return how long to wait for the end of a batch before the next turn."""
        if self._must_end(stop):
            return LOOK_SECONDS
        now = self._clock()
        waits = [
            max(lane.next_at, self._plan_at) - now for lane in self._lanes if lane.plan is None
        ]
        return max(0.0, min([LOOK_SECONDS, *waits]))

    def _adopt(self, state: CheckpointState, stop: threading.Event) -> None:
        """Write a new state into the journal. Its epoch is the lowest one of all lanes."""
        epochs = [lane.epoch for lane in self._lanes] + [each.epoch for each in state.planned]
        epoch = max(state.epoch, min(epochs))
        state = msgspec.structs.replace(state, epoch=epoch)
        if state != self.state:
            self._append(state, stop)
            self.state, self.ends = state, offsets.read_offsets(state.offsets)

    def _append(self, state: CheckpointState, stop: threading.Event) -> None:
        """
        Write an entry of the journal, and try again until that succeeds or `stop` is set.

        If an error here counted as a failure of the batch, the batch would write its rows again.
        """
        for pause in PATIENCE.make_pauses():
            try:
                self._journal.append(state)
            except (OSError, Py4JError, PySparkException) as error:
                failure = judge_error(error)
                self._journal_error = f"the journal cannot be written: {failure.message}"
                log.warning("the journal is written again in %g s: %s", pause, failure.message)
                if stop.wait(pause):
                    raise JournalAwayError(self._journal_error) from error
            else:
                self._journal_error = None
                break

    def _note_failure(
        self, error: BaseException, retries: BatchRetries, batch: PlannedBatch | None = None
    ) -> float:
        """
        Note that a batch has failed, or the planning; return how long to wait before a retry.

        If a retry does not help, the job ends.
        """
        failure = replace(judge_error(error), is_in_batch=batch is not None)
        pause = retries.choose_pause(failure)
        self._batches.note_failure()
        trace = None if failure.cure is Cure.TIME else error
        if pause is None:
            log.error(
                "the job ends, because a retry does not help: %s", failure.message, exc_info=trace
            )
            self._code = exit_codes.PERMANENT
            return 0.0
        what = "the planning" if batch is None else f"batch {batch.number}"
        log.warning("%s starts again in %g s: %s", what, pause, failure.message, exc_info=trace)
        return pause
