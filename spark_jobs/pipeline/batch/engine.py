"""
Runs a job with batches.

    BatchEngine        follows the assignment, sends committed offsets to the brokers, and reports
      BatchLoop        plans, starts and commits the batches of all lanes, in a thread of its own
        BatchPlanner       asks the brokers where the next batches end, and deals them to lanes
        plans              the states of a batch (pure)
        JobJournal         what is planned and committed, at the checkpoint's location
        LaneThreads        a thread for each lane
        TroubleWatch       finds out why a batch does not end
        BatchRunner        the steps of a batch
          LocatedPulls     its DataFrame, whose tasks pull on chosen executors
          BatchWriter      the user's transform and sinks
"""

import concurrent.futures
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
from pyspark import SparkContext

from contract import exit_codes
from contract.job_file import JobFile
from contract.kinds.jobs import Mode
from spark_jobs import connections
from spark_jobs.options import Reading
from spark_jobs.pipeline import session
from spark_jobs.pipeline.assignments import Assignments
from spark_jobs.pipeline.batch.batches import BatchRunner
from spark_jobs.pipeline.batch.lanes import LaneDealer
from spark_jobs.pipeline.batch.loop import BatchLoop
from spark_jobs.pipeline.batch.planning import BatchPlanner
from spark_jobs.pipeline.batch.pulling import LocatedPulls
from spark_jobs.pipeline.batch.threads import LaneThreads
from spark_jobs.pipeline.batch.watching import BrokerProbe, TroubleWatch
from spark_jobs.pipeline.checkpoint.begins import QueueBegins
from spark_jobs.pipeline.checkpoint.journal import CheckpointState
from spark_jobs.pipeline.checkpoint.opening import (
    CheckpointOpener,
    begin_patiently,
    open_journal,
)
from spark_jobs.pipeline.executor_slots import ExecutorRequests, ExecutorSlots
from spark_jobs.pipeline.facts import JobFacts
from spark_jobs.pipeline.fetching import Tallies, Tally
from spark_jobs.pipeline.flow.sinks import folders
from spark_jobs.pipeline.following import AssignmentFollower
from spark_jobs.pipeline.group import JobGroup
from spark_jobs.pipeline.metrics import JobMetrics
from spark_jobs.pipeline.starting import StartStep, StartTimes
from spark_jobs.pipeline.users_part import UsersPart
from spark_jobs.pipeline.warm_ups import SqlWarmUp, WarmUps

log = logging.getLogger("evenkeel.job")
LOOK_SECONDS = 0.2


class BatchEngine:
    """Runs one job until it is stopped, has read all, or fails."""

    def __init__(
        self,
        loop: BatchLoop,
        batches: BatchRunner,
        assignments: Assignments,
        followed: AssignmentFollower,
        slots: ExecutorSlots,
        group: JobGroup,
        engine: str,
        start: StartTimes,
    ) -> None:
        """Do nothing yet. `engine` is for the report."""
        self._start = start
        self._loop = loop
        self._batches = batches
        self._assignments = assignments
        self._followed = followed
        self._slots = slots
        self._group = group
        self._engine = engine

    def run(self, stop: threading.Event) -> int:
        """Run until the job ends; return the exit code."""
        with ThreadPoolExecutor(1, "batches") as thread:
            try:
                self._turn()  # the first batch is planned with the newest assignment
                running = thread.submit(self._loop.run, stop)
                while not running.done():
                    self._turn()
                    concurrent.futures.wait([running], LOOK_SECONDS)
                return running.result()
            finally:
                stop.set()  # also after an error in this thread
                self._report()

    def collect(self) -> JobFacts:
        """Take the facts as they are now."""
        state = self._loop.state
        return JobFacts(
            published_epoch=self._followed.newest.epoch,
            adopted_epoch=state.epoch,
            batch=state.batch,
            slots=self._slots.filled,
            is_pinned=self._slots.is_pinned,
            tally=self._batches.tally,
            error=self._loop.error or self._followed.refusal,
            executors=self._slots.registered,
            skipped=self._batches.skipped,
            engine=self._engine,
            cancelled=dict(self._loop.cancelled),
            lanes=self._loop.collect(),
            started=dict(self._start.seconds),
        )

    def _turn(self) -> None:
        """Follow the assignment, send committed offsets to the brokers, and report."""
        state = self._loop.state
        adopted = state.epoch
        self._followed.read_newest(adopted, {each.epoch for each in state.planned})
        self._slots.fill(self._followed.newest, self._followed.find(adopted))
        self._batches.drain_unused()
        self._group.update(self._loop.ends)
        self._report()

    def _report(self) -> None:
        facts = self.collect()
        if facts.slots:
            self._start.note(StartStep.EXECUTOR)
        self._assignments.report(facts.report())


def run(
    context: SparkContext,
    job: JobFile,
    reading: Reading,
    users: UsersPart,
    assignments: Assignments,
    stop: threading.Event,
    engine: str,
    start: StartTimes,
) -> int:
    """Make the parts of a driver, and run it. `engine`: for the report."""
    requests = ExecutorRequests(context, job.executors)
    is_scheduled = job.mode is Mode.SCHEDULED
    if not is_scheduled:  # a scheduled run waits until there is something to read
        requests.begin()
    spark = session.add_sql(context, start)
    warm_ups = WarmUps(SqlWarmUp(spark, reading.cluster))
    slots = ExecutorSlots(context, job.name, warm_ups, requests)
    journal = open_journal(context, job.checkpoint, assignments, stop)
    if journal is None:
        return exit_codes.TRY_AGAIN
    begins = QueueBegins(reading)
    opener = CheckpointOpener(journal, begins.find_all, reading.group, _settle)
    state = begin_patiently(opener.open, assignments, stop)
    if state is None:
        return exit_codes.TRY_AGAIN
    start.note(StartStep.CHECKPOINT)
    followed, dealer = AssignmentFollower(assignments), LaneDealer(job.lanes)
    tally = context.accumulator(Tally(), Tallies())
    client = connections.get_client(reading.cluster)
    group = JobGroup(client, reading, job.name, job.origin)
    metrics = JobMetrics(lambda: driver.collect(), lambda: group.measure_lag(loop.ends))
    probe = BrokerProbe(client, begins.addresses)
    watch = TroubleWatch(context, probe, lambda: slots.registered, users.may_leave_out)
    pulls = LocatedPulls(
        reading, followed, slots, dealer, lambda: watch.suspected,
        begins.addresses, tally,
        has_dead_letters=users.write_dead_letters is not None,
    )  # fmt: skip
    batches = BatchRunner(slots, pulls, users, metrics, start, job.skip)
    threads = LaneThreads(spark, batches.run, lambda: watch.silent_executors, dealer.count)
    planner = BatchPlanner(begins, reading, job.skip, followed, dealer, is_scheduled=is_scheduled)
    loop = BatchLoop(
        state, journal, planner, threads, batches, dealer, watch,
        job.trigger_seconds, is_scheduled=is_scheduled,
    )  # fmt: skip
    driver = BatchEngine(loop, batches, assignments, followed, slots, group, engine, start)
    if job.metrics_port is not None:
        metrics.serve(job.metrics_port)
    try:
        return driver.run(stop)
    finally:
        group.leave(loop.ends)


def _settle(state: CheckpointState) -> CheckpointState:
    """Finish the newest commit of a flow: the commit's files may still be hidden."""
    folders.finish_moves(state.pending, ())
    return msgspec.structs.replace(state, pending=[])
