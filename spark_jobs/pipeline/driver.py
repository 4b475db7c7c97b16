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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mq_client.directory import Times
from mq_client.errors import UsageError
from mq_client.values import Queue
from spark_jobs import connections, options, schema
from spark_jobs.observing import Observer
from spark_jobs.options import Reading
from spark_jobs.pipeline import executors, plan_source, users_part
from spark_jobs.pipeline.assignments import NOBODYS, Assignment, Assignments, InFiles
from spark_jobs.pipeline.failures import Cure, Failure, judge
from spark_jobs.pipeline.fetching import Fetcher, Tallies, Tally, cut
from spark_jobs.pipeline.job import Job
from spark_jobs.pipeline.plan_source import Plan
from spark_jobs.pipeline.seats import Seats
from spark_jobs.pipeline.users_part import UsersPart

log = logging.getLogger("evenkeel.job")
LOOK_SECONDS = 0.5
TELL_AGAIN_SECONDS = 10.0
PATIENCE = Times(first_pause=1.0, longest_pause=30.0)
"""Between a query that failed and the next one."""
MOST_FAILURES = 3
"""How often the same batch may fail for a reason that is not known to pass."""
DONE, TRY_AGAIN, PERMANENT = 0, 75, 78
"""Exit codes."""
SETTINGS = {
    "spark.locality.wait": "3s",
    "spark.shuffle.reduceLocality.enabled": "false",
    "spark.speculation": "false",
    "spark.decommission.enabled": "true",
    "spark.network.timeout": "15s",
    "spark.network.timeoutInterval": "2s",
    "spark.executor.heartbeatInterval": "3s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "15000",
    "spark.executor.failuresValidityInterval": "10m",
    "spark.executor.maxNumFailures": "1000",
    "spark.dynamicAllocation.enabled": "false",
    "spark.ui.enabled": "false",
}
"""What pinning and a long life need: docs/design/0005-spark.md."""


class Driver:
    """Runs one job until it is done, told to stop, or fails."""

    def __init__(
        self,
        spark: SparkSession,
        job: Job,
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
        self._tally = spark.sparkContext.accumulator(Tally(), Tallies())
        self._assignment = NOBODYS
        self._known: dict[int, Assignment] = {}
        self._ran: dict[int, Plan] = {}
        self._observer = Observer(connections.client(self._reading.cluster), self._reading)
        self._ends: dict[Queue, int] = {}
        self._told: dict[Queue, int] = {}
        """What is committed by Spark, and what the brokers know of it."""
        self._tell_again_at = 0.0
        self._adopted = 0
        self._batch_number = -1
        self._failed_times = 0
        self._error: str | None = None
        self._refused: str | None = None
        """Why the newest assignment is not followed."""
        self._stop = threading.Event()

    def stop(self) -> None:
        """End after the batch that runs."""
        self._stop.set()

    def run(self) -> int:
        """Run until it is over; the exit code."""
        pauses = PATIENCE.pauses()
        while True:
            begun = self._batch_number
            failure = self._run_query()
            if failure is None:
                self._report()
                return DONE
            self._error = failure.message
            self._report()
            if self._batch_number > begun:
                self._failed_times, pauses = 0, PATIENCE.pauses()
            is_the_batchs_fault = self._failure is not None and failure.cure is Cure.RETRY
            self._failed_times += is_the_batchs_fault
            if failure.cure is Cure.USER or self._failed_times == MOST_FAILURES:
                log.error("the job ends, for this needs a change: %s", failure.message)
                return PERMANENT
            pause = next(pauses)
            log.warning("the query starts again in %g s: %s", pause, failure.message)
            if self._stop.wait(pause):
                return TRY_AGAIN

    def _run_query(self) -> Failure | None:
        """Run the query until it ends or is to stop; what went wrong."""
        self._ran.clear()
        self._failure: BaseException | None = None
        with tempfile.TemporaryDirectory(prefix="evenkeel-run-") as run:
            self._look()
            query = self._start(run)
            while query.isActive and not self._stop.wait(LOOK_SECONDS):
                self._look()
                self._settle(query)
            if query.isActive:
                (Path(run) / plan_source.STOPPING).touch()
                self._wait_idle(query)
                query.stop()
            self._settle(query)
            error = self._failure or query.exception()
        if error is None:
            return None
        if isinstance(error, users_part.UsersPartError):
            return Failure(str(error), Cure.USER)
        return judge(str(error))

    def _start(self, run: str) -> StreamingQuery:
        plans = (
            self._spark.readStream.format(plan_source.FORMAT)
            .options(**self._job.source, assignments=self._job.assignments, run=run)
            .load()
        )
        writer = plans.writeStream.foreachBatch(self._batch)
        writer = writer.option("checkpointLocation", self._job.checkpoint)
        if self._job.mode == "Scheduled":
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self._job.trigger_seconds} seconds").start()

    def _batch(self, plans: DataFrame, number: int) -> None:
        """Run one micro-batch."""
        try:
            (row,) = plans.collect()
            plan = plan_source.read_plan(row.plan)
            if plan.ranges:
                owners = self._known.get(plan.epoch, self._assignment).owners
                self._process(plan, cut(plan.ranges, owners, self._seats.fillers), number)
        except BaseException as error:
            self._failure = error  # Spark would wrap it in a text
            raise
        self._ran[number] = plan

    def _process(self, plan: Plan, tasks: list[executors.Task], number: int) -> None:
        query = self._spark.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        fetcher = Fetcher(self._reading, plan.wanted, self._tally)
        ddl = schema.ddl(self._reading.include_properties)
        rows = executors.tasks(self._spark, tasks).mapInArrow(fetcher, ddl)
        good, bad = users_part.split(self._users.transform(rows))
        if bad is None or self._users.bury is None:
            self._users.write(good, query, number)
            return
        rows.persist()
        try:
            self._users.write(good, query, number)
            self._users.bury(bad, query, number)
        finally:
            rows.unpersist()

    def _look(self) -> None:
        self._seats.look(self._assignment, self._known.get(self._adopted, NOBODYS))
        try:
            found = self._assignments.latest()
        except UsageError as error:
            self._refused = str(error)
            return
        self._refused = None
        if found.epoch != self._assignment.epoch:
            kept = [self._known.get(self._adopted, NOBODYS), self._assignment, found]
            self._known = {each.epoch: each for each in kept}
            self._assignment = found

    def _settle(self, query: StreamingQuery) -> None:
        """After Spark's commit, tell the brokers how far the group is, and that its epoch is."""
        progress = query.lastProgress
        if progress is not None:
            has_run = "addBatch" in progress["durationMs"]
            committed = progress["batchId"] if has_run else progress["batchId"] - 1
            done = [number for number in self._ran if number <= committed]
            for number in sorted(done):
                plan = self._ran.pop(number)
                self._ends = plan.end
                self._adopted, self._batch_number = plan.epoch, number
                self._error = None
        self._tell()
        self._report()

    def _tell(self) -> None:
        """Tell the brokers what is committed; one that does not answer, a little later."""
        news = {queue: end for queue, end in self._ends.items() if self._told.get(queue) != end}
        if not news or time.monotonic() < self._tell_again_at:
            return
        failed = self._observer.commit(news)
        self._told |= {queue: end for queue, end in news.items() if queue.broker not in failed}
        if failed:
            self._tell_again_at = time.monotonic() + TELL_AGAIN_SECONDS
        for broker, error in failed.items():
            log.warning("the group's offsets on %s stay behind for now: %s", broker, error)

    def _wait_idle(self, query: StreamingQuery) -> None:
        """Wait until the batch that runs is committed; no other one begins."""
        quiet = 0
        while query.isActive and quiet < 2:
            self._look()
            self._settle(query)
            quiet = 0 if query.status["isTriggerActive"] or self._ran else quiet + 1
            threading.Event().wait(LOOK_SECONDS / 2)

    def _report(self) -> None:
        tally = self._tally.value
        self._assignments.report(
            {
                "adoptedEpoch": self._adopted,
                "batch": self._batch_number,
                "slots": {
                    name: {"executor": each.id, "host": each.host}
                    for name, each in self._seats.fillers.items()
                },
                "pinned": self._seats.is_pinned,
                "rows": tally.rows,
                "bytes": tally.bytes,
                "tasks": tally.tasks,
                "misplacedTasks": tally.misplaced,
                "error": self._error or self._refused,
            }
        )


@contextmanager
def session(job: Job) -> Iterator[SparkSession]:
    """Open a Spark session with the settings that a job needs, and those that it names."""
    builder = SparkSession.builder.appName(job.name)
    for name, value in (SETTINGS | job.spark).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(plan_source.PlanSource)
    try:
        yield spark
    finally:
        spark.stop()


def run(job: Job) -> int:
    """Run a job in this process."""
    assignments = InFiles(job.assignments, job.report)
    try:
        reading = options.reading(job.source, is_stream=True)
        users = users_part.read(job)
    except (UsageError, users_part.UsersPartError) as error:
        log.error("the job cannot start: %s", error)
        assignments.report({"error": str(error)})
        return PERMANENT
    with session(job) as spark:
        driver = Driver(spark, job, reading, users, assignments)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: driver.stop())
        return driver.run()
