"""
The driver of a pinned job.

Spark runs a streaming query whose rows are plans, one for each batch. A batch sends tasks to chosen
executors, where they pull messages. Then it applies the user's transform, and writes to the sink.
Meanwhile a loop checks twice a second which executors are registered, sends the group's offsets to
the brokers once Spark has committed a batch, and reports.

    Driver             starts the query, and starts it again when it has failed
      PlanQuery        one run of the query
        BatchRunner    the steps of a batch
      LoopTurns        what happens beside the batches
"""

import logging
import signal
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from contract import exit_codes
from contract.job_file import JobFile
from contract.kinds.jobs import JobEngine, Mode
from contract.report import BareReport
from mq_client.errors import UsageError
from spark_jobs import connections, options
from spark_jobs.options import Reading
from spark_jobs.pipeline import engines, in_cluster, session, users_part
from spark_jobs.pipeline.assignments import Assignments, FileAssignments
from spark_jobs.pipeline.batches import BatchRunner
from spark_jobs.pipeline.executor_slots import ExecutorRequests, ExecutorSlots
from spark_jobs.pipeline.facts import FactsCollector
from spark_jobs.pipeline.failures import Failure, judge
from spark_jobs.pipeline.fetching import Tallies, Tally
from spark_jobs.pipeline.flow import engine as flow_engine
from spark_jobs.pipeline.flow import users as flow_users
from spark_jobs.pipeline.flow.journal import FlowJournal
from spark_jobs.pipeline.flow.stores import open_store
from spark_jobs.pipeline.following import AssignmentFollower
from spark_jobs.pipeline.group import JobGroup
from spark_jobs.pipeline.loop import LoopTurns
from spark_jobs.pipeline.metrics import JobMetrics
from spark_jobs.pipeline.progress import CommittedProgress
from spark_jobs.pipeline.pulling import LocatedPulls
from spark_jobs.pipeline.query import PlanQuery
from spark_jobs.pipeline.retries import QueryRetries
from spark_jobs.pipeline.users_part import UsersPart
from spark_jobs.pipeline.warm_ups import SqlWarmUp, WarmUps

log = logging.getLogger("evenkeel.job")
LOOK_SECONDS = 0.5


class Driver:
    """Runs one job until it is done, is stopped, or fails."""

    def __init__(
        self,
        start_query: Callable[[Path], PlanQuery],
        turns: LoopTurns,
        progress: CommittedProgress,
        retries: QueryRetries,
        metrics: JobMetrics,
        stop: threading.Event,
    ) -> None:
        """Start nothing yet. When `stop` is set, the batch that runs is the last one."""
        self._start_query = start_query
        self._turns = turns
        self._progress = progress
        self._retries = retries
        self._metrics = metrics
        self._stop = stop

    def run(self) -> int:
        """Run until the job ends; return the exit code."""
        while True:
            batch = self._progress.batch
            failure = self._run_query()
            if failure is None:
                self._turns.report()
                return exit_codes.DONE
            has_committed = self._progress.batch > batch
            pause = self._retries.choose_pause(failure, has_committed=has_committed)
            self._metrics.failures.inc()
            self._turns.report()
            if pause is None:
                log.error("the job ends, because a retry does not help: %s", failure.message)
                return exit_codes.PERMANENT
            log.warning("the query starts again in %g s: %s", pause, failure.message)
            if self._stop.wait(pause):
                return exit_codes.TRY_AGAIN

    def _run_query(self) -> Failure | None:
        """Run the query until it ends or must stop; return its failure, if it failed."""
        self._progress.forget_written()
        with tempfile.TemporaryDirectory(prefix="evenkeel-run-") as folder:
            self._turns.follow()
            try:
                query = self._start_query(Path(folder))
            except (PySparkException, Py4JError) as refusal:
                return judge(str(refusal))
            while query.is_active and not self._stop.wait(LOOK_SECONDS):
                self._turns.follow()
                self._turns.settle(query)
            if query.is_active:
                query.let_no_batch_begin()
                self._wait_idle(query)
                query.stop()
            self._turns.settle(query)
            return query.find_failure()

    def _wait_idle(self, query: PlanQuery) -> None:
        """Wait until the batch that runs is committed; no other one begins."""
        quiet = 0
        while query.is_active and quiet < 2:
            self._turns.follow()
            self._turns.settle(query)
            quiet = 0 if query.is_busy or not self._progress.is_settled else quiet + 1
            threading.Event().wait(LOOK_SECONDS / 2)


def run(job: JobFile) -> int:
    """Run a job in this process."""
    stop = threading.Event()
    if job.kubernetes is None:
        return _run(job, FileAssignments(job.assignments, job.report), stop)
    _stop_on_signals(stop)  # before the wait for another driver's Lease, which may be long
    with in_cluster.become_only_driver(job, job.kubernetes, stop) as assignments:
        return exit_codes.TRY_AGAIN if assignments is None else _run(job, assignments, stop)


def _run(job: JobFile, assignments: Assignments, stop: threading.Event) -> int:
    try:
        reading = options.parse_reading(job.source, is_stream=True)
        if not reading.commits:
            raise UsageError("source: a job needs the option group")
        choice = engines.choose(job, reading)
        log.info("engine %s", choice)
        if choice.engine is JobEngine.FLOW:
            flow = flow_users.read(job, reading)
            with session.open_context(job, session.FLOW_SETTINGS) as context:
                _stop_on_signals(stop)  # again: Spark has set its own handler
                return flow_engine.run(context, job, reading, flow, assignments, stop, str(choice))
        users = users_part.read(job, assignments.confirm)
        with session.open_session(job) as spark:
            _stop_on_signals(stop)  # as above
            return _run_in_session(spark, job, reading, users, assignments, stop, str(choice))
    except (UsageError, users_part.UsersPartError) as error:
        log.error("the job cannot start: %s", error)
        assignments.report(BareReport(str(error)))
        return exit_codes.PERMANENT


def _run_in_session(
    spark: SparkSession,
    job: JobFile,
    reading: Reading,
    users: UsersPart,
    assignments: Assignments,
    stop: threading.Event,
    engine: str,
) -> int:
    """Make the parts of a driver, and run it."""
    followed = AssignmentFollower(assignments)
    context = spark.sparkContext
    warm_ups = WarmUps(SqlWarmUp(spark, reading.cluster))
    requests = ExecutorRequests(context, job.executors)
    slots = ExecutorSlots(context, job.name, warm_ups, requests)
    if job.mode is Mode.STREAMING:
        slots.need_executors()  # a scheduled job waits until there is something to read
    tally = context.accumulator(Tally(), Tallies())
    progress = CommittedProgress(job.skip, tally)
    retries = QueryRetries()
    group = JobGroup(connections.get_client(reading.cluster), reading, job.name, job.origin)
    facts = FactsCollector(followed, slots, progress, retries, tally, engine)
    metrics = JobMetrics(facts.collect, lambda: group.measure_lag(progress.ends))
    if job.metrics_port is not None:
        metrics.serve(job.metrics_port)
    pulls = LocatedPulls(spark, reading, followed, slots, tally)
    batches = BatchRunner(followed, slots, pulls, users, progress, metrics)
    turns = LoopTurns(assignments, followed, slots, batches, progress, retries, group, facts)

    def start_query(folder: Path) -> PlanQuery:
        if FlowJournal(open_store(context, job.checkpoint)).is_begun:
            raise UsageError(
                "this checkpoint was written by engine Flow, not by Batch: choose another "
                "checkpoint, with which the job continues at the group's offsets at the brokers"
            )
        return PlanQuery(spark, job, folder, batches.run)

    try:
        return Driver(start_query, turns, progress, retries, metrics, stop).run()
    finally:
        group.leave(progress.ends)


def _stop_on_signals(stop: threading.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
