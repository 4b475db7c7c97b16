"""
The driver of a pinned job.

A stream of plans ticks in Spark; each becomes located tasks that pull, the user's transform, and
the sink. Beside it a loop looks twice a second who is there, tells the brokers how far the group is
once Spark has committed a batch, and reports.
"""

import logging
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from contract import exit_codes
from contract.job_file import JobFile
from contract.kinds.jobs import Mode
from contract.report import BareReport
from mq_client.directory import Times
from mq_client.errors import UsageError
from mq_client.values import MessageQueue
from spark_jobs import connections, options, schema
from spark_jobs.options import Reading
from spark_jobs.pipeline import executors, in_cluster, plan_source, session, skipping, users_part
from spark_jobs.pipeline.assignments import NOBODYS, Assignments, InFiles, JobAssignment
from spark_jobs.pipeline.facts import Facts
from spark_jobs.pipeline.failures import Cure, Failure, judge
from spark_jobs.pipeline.fetching import Fetcher, Tallies, Tally, UnreadablePuller, cut
from spark_jobs.pipeline.files import NotThereError
from spark_jobs.pipeline.group import JobGroup
from spark_jobs.pipeline.metrics import Metrics
from spark_jobs.pipeline.plan_source import BatchPlan
from spark_jobs.pipeline.seats import Seats
from spark_jobs.pipeline.skipping import Skipped
from spark_jobs.pipeline.users_part import UsersPart
from spark_jobs.pipeline.writing import Writing
from spark_jobs.planning import Range

log = logging.getLogger("evenkeel.job")
LOOK_SECONDS = 0.5
PATIENCE = Times(first_pause=1.0, longest_pause=30.0)
"""Between a query that failed and the next one."""
MOST_FAILURES = 3
"""How often the same batch may fail for a reason that is not known to pass."""


class Driver:
    """Runs one job until it is done, told to stop, or fails."""

    def __init__(
        self,
        spark: SparkSession,
        job: JobFile,
        reading: Reading,
        users: UsersPart,
        assignments: Assignments,
    ) -> None:
        """Start nothing yet."""
        self._spark = spark
        self._job = job
        self._assignments = assignments
        self._reading = reading
        self._users = users
        self._seats = Seats(spark, job.name, job.executors, self._reading.cluster)
        if job.mode is Mode.STREAMING:
            self._seats.need()  # else only once there is something to read
        self._tally = spark.sparkContext.accumulator(Tally(), Tallies())
        self._assignment = NOBODYS
        self._known: dict[int, JobAssignment] = {}
        self._ran: dict[int, BatchPlan] = {}
        self._group = JobGroup(connections.client(reading.cluster), reading, job.name, job.origin)
        self._ends: dict[MessageQueue, int] = {}
        """What is committed by Spark."""
        self._adopted = 0
        self._batch_number = -1
        self._failed_times = 0
        self._error: str | None = None
        self._refused: str | None = None
        """Why the newest assignment is not followed."""
        self._drained: frozenset[str] = frozenset()
        """Executors that are to be replaced, by their pods."""
        self._in_batch = threading.Lock()
        """Executors are told to end between two batches, for what they cache goes with them."""
        self._skipped: Skipped | None = None
        self._stop = threading.Event()
        self._metrics = Metrics(self._facts, lambda: self._group.lag(self._ends))
        if job.metrics_port is not None:
            self._metrics.serve(job.metrics_port)

    def stop(self) -> None:
        """End after the batch that runs."""
        self._stop.set()

    def run(self) -> int:
        """Run until it is over; the exit code."""
        try:
            return self._run()
        finally:
            self._group.leave(self._ends)

    def _run(self) -> int:
        pauses = PATIENCE.make_pauses()
        while True:
            begun = self._batch_number
            failure = self._run_query()
            if failure is None:
                self._report()
                return exit_codes.DONE
            self._error = failure.message
            self._metrics.failures.inc()
            self._report()
            if self._batch_number > begun:
                self._failed_times, pauses = 0, PATIENCE.make_pauses()
            is_the_batchs_fault = self._failure is not None and failure.cure is Cure.RETRY
            self._failed_times += is_the_batchs_fault
            if failure.cure is Cure.USER or self._failed_times == MOST_FAILURES:
                log.error("the job ends, for this needs a change: %s", failure.message)
                return exit_codes.PERMANENT
            pause = next(pauses)
            log.warning("the query starts again in %g s: %s", pause, failure.message)
            if self._stop.wait(pause):
                return exit_codes.TRY_AGAIN

    def _run_query(self) -> Failure | None:
        """Run the query until it ends or is to stop; what went wrong."""
        self._ran.clear()
        self._failure: BaseException | None = None
        with tempfile.TemporaryDirectory(prefix="evenkeel-run-") as folder:
            run = Path(folder)
            self._look()
            try:
                query = self._start(run)
            except (PySparkException, Py4JError) as refusal:
                return judge(str(refusal))
            while query.isActive and not self._stop.wait(LOOK_SECONDS):
                self._look()
                self._settle(query, run)
            if query.isActive:
                (run / plan_source.STOPPING).touch()
                self._wait_idle(query, run)
                query.stop()
            self._settle(query, run)
            error = self._failure or query.exception()
        if error is None:
            return None
        if isinstance(error, (users_part.UsersPartError, NotThereError)):
            return Failure(str(error), Cure.USER)
        text = str(error) if self._failure is None else f"{type(error).__name__}: {error}"
        return judge(text)

    def _start(self, run: Path) -> StreamingQuery:
        plans = (
            self._spark.readStream.format(plan_source.FORMAT)
            .options(**self._job.source, assignments=self._job.assignments)
            .options(run=str(run), skip=self._job.skip)
            .load()
        )
        writer = plans.writeStream.foreachBatch(lambda _, number: self._batch(run, number))
        writer = writer.option("checkpointLocation", self._job.checkpoint)
        if self._job.mode is Mode.SCHEDULED:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self._job.trigger_seconds} seconds").start()

    def _batch(self, run: Path, number: int) -> None:
        """Run one micro-batch."""
        try:
            plan = plan_source.take_plan(run)
            if plan.ranges:
                with self._in_batch:
                    self._process(plan, number)
        except BaseException as error:
            self._failure = error  # Spark would wrap it in a text
            raise
        self._metrics.batch.observe(time.time() - plan.begun)
        self._ran[number] = plan

    def _process(self, plan: BatchPlan, number: int) -> None:
        self._seats.need()
        self._seats.drain(self._drained)
        if plan.epoch not in self._known:
            self._hear()  # the source has heard of it first
        query = session.query_id(self._spark)
        fetcher = Fetcher(
            self._reading, plan.wanted, self._tally, self._may_skip(plan),
            has_dead_letters=self._users.bury is not None,
        )  # fmt: skip
        ddl = schema.ddl(self._reading.include_properties)
        rows = self._tasks(plan, plan.ranges).mapInArrow(fetcher, ddl)
        self._metrics.planning.observe(time.time() - plan.begun)
        Writing(self._users, query, number, lambda: self._unreadable(plan)).write(rows)

    def _tasks(self, plan: BatchPlan, ranges: Sequence[Range]) -> DataFrame:
        owners = self._known.get(plan.epoch, self._assignment).owners
        return executors.tasks(self._spark, cut(ranges, owners, self._seats.present()))

    def _unreadable(self, plan: BatchPlan) -> DataFrame | None:
        """Pull what the tasks of this batch could not read, to write it as it is."""
        found = self._tally.value.unreadable_in(plan.ranges)
        if not found:
            return None
        log.warning("messages that cannot be read go to the dead letters: %s", found)
        ddl = schema.unreadable_ddl(self._reading.include_properties)
        return self._tasks(plan, found).mapInArrow(
            UnreadablePuller(self._reading, plan.wanted), ddl
        )

    def _look(self) -> None:
        self._hear()
        self._seats.look(self._assignment, self._known.get(self._adopted, NOBODYS))
        if self._in_batch.acquire(blocking=False):  # else the next batch begins with it
            try:
                self._seats.drain(self._drained)
            finally:
                self._in_batch.release()

    def _hear(self) -> None:
        """Learn of a new assignment."""
        try:
            found = self._assignments.latest()
        except UsageError as error:
            self._refused = str(error)
            return
        self._refused = None
        self._drained = found.drained
        if 0 < found.epoch < self._adopted:
            self._refused = (
                f"epoch {found.epoch} is older than {self._adopted}, which the checkpoint has: "
                "publish a higher one"
            )
        if found.epoch != self._assignment.epoch:
            kept = [self._known.get(self._adopted, NOBODYS), self._assignment, found]
            self._known = {each.epoch: each for each in kept}
            self._assignment = found

    def _settle(self, query: StreamingQuery, run: Path) -> None:
        """After Spark's commit, tell the brokers how far the group is, and that its epoch is."""
        progress = query.lastProgress
        if progress is not None:
            has_run = "addBatch" in progress["durationMs"]
            committed = progress["batchId"] if has_run else progress["batchId"] - 1
            done = [number for number in list(self._ran) if number <= committed]
            for number in sorted(done):
                plan = self._ran.pop(number)
                self._ends = plan.end
                self._adopted, self._batch_number = plan.epoch, number
                self._error = None
                self._note_skip(plan)
        if not self._ends:
            self._ends, self._adopted = plan_source.committed(run)
        self._group.follow(self._ends)
        self._report()

    def _may_skip(self, plan: BatchPlan) -> bool:
        return skipping.is_open(self._job.skip, plan.skip_before)

    def _note_skip(self, plan: BatchPlan) -> None:
        """Once the batch that uses it up is committed, say what was passed over."""
        if not self._may_skip(plan) or plan.skip != self._job.skip:
            return
        self._skipped = Skipped(plan.skip, self._tally.value.lost, plan.turned_back)
        for line in self._skipped.lines or ["nothing"]:
            log.warning("passed over, as skip %r asks: %s", plan.skip, line)

    def _wait_idle(self, query: StreamingQuery, run: Path) -> None:
        """Wait until the batch that runs is committed; no other one begins."""
        quiet = 0
        while query.isActive and quiet < 2:
            self._look()
            self._settle(query, run)
            quiet = 0 if query.status["isTriggerActive"] or self._ran else quiet + 1
            threading.Event().wait(LOOK_SECONDS / 2)

    def _facts(self) -> Facts:
        return Facts(
            published_epoch=self._assignment.epoch,
            adopted_epoch=self._adopted,
            batch=self._batch_number,
            slots=self._seats.fillers,
            is_pinned=self._seats.is_pinned,
            tally=self._tally.value,
            error=self._error or self._refused,
            executors=self._seats.registered,
            skipped=self._skipped,
        )

    def _report(self) -> None:
        self._assignments.report(self._facts().report())


def run(job: JobFile) -> int:
    """Run a job in this process."""
    stop = threading.Event()
    if job.kubernetes is None:
        return _run(job, InFiles(job.assignments, job.report), stop)
    _when_told(stop.set)  # it may wait for long until another driver has ended
    with in_cluster.only_driver(job, job.kubernetes, stop) as assignments:
        return exit_codes.TRY_AGAIN if assignments is None else _run(job, assignments, stop)


def _run(job: JobFile, assignments: Assignments, stop: threading.Event) -> int:
    try:
        reading = options.reading(job.source, is_stream=True)
        if not reading.commits:
            raise UsageError("source: a job needs the option group")
        users = users_part.read(job, assignments.confirm)
        with session.opened(job) as spark:
            driver = Driver(spark, job, reading, users, assignments)
            _when_told(driver.stop)
            if stop.is_set():
                driver.stop()
            return driver.run()
    except (UsageError, users_part.UsersPartError) as error:
        log.error("the job cannot start: %s", error)
        assignments.report(BareReport(str(error)))
        return exit_codes.PERMANENT


def _when_told(to_stop: Callable[[], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: to_stop())
