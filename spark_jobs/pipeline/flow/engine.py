"""
Runs a job as a flow: one task in each slot that never ends, and a driver that commits.

    FlowEngine         follows the assignment, and keeps a task in each filled slot
      FlowServer       grants queues to tasks, and commits
        GroupCoordinator   who may read which queue now (pure)
        Commits            which commits count (pure)
        FlowJournal        what is committed, at the checkpoint's location
      FlowTask         on each executor
"""

import logging
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext
from pyspark.errors import PySparkException

from contract import exit_codes
from contract.following import GroupSource
from contract.job_file import JobFile
from contract.names import FLOW_PORT
from contract.report import BareReport
from mq_client.errors import MqError, UsageError
from mq_client.values import MessageQueue
from spark_jobs import connections
from spark_jobs.options import Reading
from spark_jobs.pipeline import executors
from spark_jobs.pipeline.assignments import Assignments
from spark_jobs.pipeline.executor_slots import ExecutorRequests, ExecutorSlots
from spark_jobs.pipeline.executors import Executor
from spark_jobs.pipeline.facts import JobFacts
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.files import FilesMissingError
from spark_jobs.pipeline.flow.beginning import FlowBeginner, FlowBeginning
from spark_jobs.pipeline.flow.begins import QueueBegins
from spark_jobs.pipeline.flow.folders import FolderTakenError
from spark_jobs.pipeline.flow.journal import FlowJournal, JournalTakenError
from spark_jobs.pipeline.flow.link import DriverPlace
from spark_jobs.pipeline.flow.serving import FlowServer, LossFoundError, TaskFailedError
from spark_jobs.pipeline.flow.task import FlowTask
from spark_jobs.pipeline.flow.users import FlowPart
from spark_jobs.pipeline.following import AssignmentFollower
from spark_jobs.pipeline.group import JobGroup
from spark_jobs.pipeline.metrics import JobMetrics
from spark_jobs.pipeline.retries import PATIENCE
from spark_jobs.pipeline.warm_ups import PythonWarmUp, WarmUps

log = logging.getLogger("evenkeel.job")
LOOK_SECONDS = 0.2
LEAST_COMMIT_SECONDS = 0.05
END_SECONDS = 25.0
"""How long tasks may take to finish when the driver is told to end."""


@dataclass(slots=True)
class SlotTask:
    """The Spark job of one slot, on one executor."""

    executor: str
    thread: threading.Thread


class TaskRetries:
    """Decides when the failed task of a slot begins again: later each time, until it commits."""

    def __init__(self) -> None:
        """Begin without a failure."""
        self.at = 0.0
        self._pauses = PATIENCE.make_pauses()
        self._rows = 0

    def note_failure(self, rows: int, now: float) -> None:
        """Note a failure. `rows`: how many rows the slot had committed by then."""
        if rows != self._rows:
            self._pauses, self._rows = PATIENCE.make_pauses(), rows
        self.at = now + next(self._pauses)


class FlowEngine:
    """Runs one job until it is stopped, or fails."""

    def __init__(
        self,
        context: SparkContext,
        job: JobFile,
        reading: Reading,
        users: FlowPart,
        assignments: Assignments,
        followed: AssignmentFollower,
        slots: ExecutorSlots,
        group: JobGroup,
        journal: FlowJournal,
        begins: QueueBegins,
        beginning: FlowBeginning,
        engine: str,
    ) -> None:
        """Continue after this state of the journal, whose folders are in place."""
        state = beginning.state
        self._engine = engine
        self._context = context
        self._job = job
        self._port = FLOW_PORT if job.kubernetes else 0
        self._reading = reading
        self._users = users
        self._assignments = assignments
        self._followed = followed
        self._slots = slots
        self._group = group
        self._sink = users.sink.open(state.query)
        self._dead = users.dead.open(state.query) if users.dead else None
        for sink in filter(None, (self._sink, self._dead)):
            sink.folders.clean()
        self._secret = secrets.token_hex(32)
        self._skipped = beginning.skipped
        source = GroupSource(reading.group, reading.cluster.name_servers.split(";"))
        self._server = FlowServer(
            beginning,
            journal,
            self._sink.folders,
            self._dead.folders if self._dead else None,
            source,
            begins.find_others,
            self._secret,
        )
        self._tasks: dict[str, SlotTask] = {}
        self._again: dict[str, TaskRetries] = {}

    @property
    def ends(self) -> Mapping[MessageQueue, int]:
        """Where each queue is read next, by the journal."""
        return self._server.ends

    def run(self, stop: threading.Event) -> int:
        """Run until `stop` is set, or until the job fails; return the exit code."""
        conf = self._context.getConf()
        host = conf.get("spark.driver.bindAddress", conf.get("spark.driver.host", ""))
        try:
            self._server.start(host, self._port)
        except OSError as error:
            raise UsageError(f"port {self._port} cannot be used: {error}") from error
        try:
            while not stop.is_set():
                self._turn()
                self._server.check()
                stop.wait(LOOK_SECONDS)
            self._end_tasks()
        except JournalTakenError as error:
            log.error("the driver ends: %s", error)
            return exit_codes.TRY_AGAIN
        except LossFoundError as error:
            log.warning("the driver starts again, to skip lost messages: %s", error)
            return exit_codes.TRY_AGAIN
        except (FilesMissingError, FolderTakenError, TaskFailedError) as error:
            log.error("the job ends, because a retry does not help: %s", error)
            self._report(str(error))
            return exit_codes.PERMANENT
        finally:
            self._server.close()
        self._report(None)
        return exit_codes.DONE

    def collect(self) -> JobFacts:
        """Take the facts as they are now."""
        server, tally = self._server, self._server.tally
        return JobFacts(
            published_epoch=self._followed.newest.epoch,
            adopted_epoch=server.adopted_epoch,
            batch=server.batch,
            slots=self._slots.filled,
            is_pinned=self._slots.is_pinned,
            tally=Tally(
                rows=dict(tally.rows), bytes=tally.bytes, tasks=tally.commits, offsets=tally.offsets
            ),
            error=server.trouble or self._followed.refusal,
            executors=self._slots.registered,
            engine=self._engine,
            skipped=self._skipped,
            given_up=tally.given_up,
            refused=tally.refused,
        )

    def _turn(self) -> None:
        """Follow the assignment, keep a task in each filled slot, and report."""
        adopted = self._server.adopted_epoch
        self._followed.read_newest(adopted)
        self._slots.fill(self._followed.newest, self._followed.find(adopted))
        self._slots.drain(self._followed.drained)
        usable = self._slots.find_usable()
        self._server.publish(
            self._followed.newest, {slot: each.id for slot, each in usable.items()}
        )
        for slot, executor in usable.items():
            self._keep_task(slot, executor)
        self._group.update(self._server.ends)
        self._report(None)

    def _report(self, error: str | None) -> None:
        report = self.collect().report()
        if error is not None:
            report = msgspec.structs.replace(report, error=error)
        self._assignments.report(report)

    def _keep_task(self, slot: str, executor: Executor) -> None:
        """Begin the task of a slot, unless it runs, or has just failed."""
        retries = self._again.setdefault(slot, TaskRetries())
        running = self._tasks.get(slot)
        if running is not None and running.thread.is_alive():
            if running.executor == executor.id:
                return
        elif retries.at > time.monotonic():
            return
        thread = InheritableThread(
            target=self._run_task, args=(slot, executor), name=f"task of {slot}", daemon=True
        )
        self._tasks[slot] = SlotTask(executor.id, thread)
        thread.start()

    def _run_task(self, slot: str, executor: Executor) -> None:
        conf = self._context.getConf()
        place = DriverPlace(
            conf.get("spark.driver.host", "127.0.0.1"), self._server.port, self._secret
        )
        task = FlowTask(
            place, slot, self._reading, self._sink, self._dead, self._users.function,
            max(self._job.trigger_seconds, LEAST_COMMIT_SECONDS),
        )  # fmt: skip
        log.info("slot %s: its task begins on executor %s", slot, executor.id)
        try:
            executors.run_on(self._context, executor, task)
        except (PySparkException, Py4JError) as error:
            rows = self._server.tally.rows.get(slot, 0)
            self._again[slot].note_failure(rows, time.monotonic())
            log.warning("slot %s: its task on executor %s has ended: %s", slot, executor.id,
                        str(error).strip().partition("\n")[0])  # fmt: skip

    def _end_tasks(self) -> None:
        """Let all tasks finish what they have begun."""
        self._server.publish(self._followed.newest, {})
        until = time.monotonic() + END_SECONDS
        for task in self._tasks.values():
            task.thread.join(max(0.0, until - time.monotonic()))


def run(
    context: SparkContext,
    job: JobFile,
    reading: Reading,
    users: FlowPart,
    assignments: Assignments,
    stop: threading.Event,
    engine: str,
) -> int:
    """Make the parts of a flow's driver, and run it. `engine`: for the report."""
    requests = ExecutorRequests(context, job.executors)
    warm_ups = WarmUps(PythonWarmUp(context, reading.cluster))
    slots = ExecutorSlots(context, job.name, warm_ups, requests)
    slots.need_executors()
    followed = AssignmentFollower(assignments)
    journal, begins = FlowJournal(context, job.checkpoint), QueueBegins(reading)
    beginner = FlowBeginner(journal, begins, reading, users.sinks, job.skip)
    beginning = _begin(beginner, assignments, stop)
    if beginning is None:
        return exit_codes.TRY_AGAIN
    group = JobGroup(connections.get_client(reading.cluster), reading, job.name, job.origin)
    flow = FlowEngine(
        context,
        job,
        reading,
        users,
        assignments,
        followed,
        slots,
        group,
        journal,
        begins,
        beginning, engine,
    )  # fmt: skip
    metrics = JobMetrics(flow.collect, lambda: group.measure_lag(flow.ends))
    if job.metrics_port is not None:
        metrics.serve(job.metrics_port)
    try:
        return flow.run(stop)
    finally:
        group.leave(flow.ends)


def _begin(
    beginner: FlowBeginner, assignments: Assignments, stop: threading.Event
) -> FlowBeginning | None:
    """Find the beginning, however often that fails. Return None if `stop` is set before."""
    for pause in PATIENCE.make_pauses():
        try:
            return beginner.begin()
        except UsageError:
            raise
        except (MqError, Py4JError, OSError, JournalTakenError) as error:
            text = str(error).strip().partition("\n")[0]
            log.warning("the flow begins again in %g s: %s", pause, text)
            assignments.report(BareReport(text))
            if stop.wait(pause):
                return None
    raise AssertionError("pauses have no end")
