"""
Runs a job as a flow: in each slot one task that never ends, and a driver that commits.

    FlowEngine         follows the assignment, and reports
      FlowTasks        keeps a task in each filled slot
        FlowTask           reads, calls the user's function, and writes; on an executor
      FlowServer       grants queues to tasks, and commits
        GroupCoordinator   who may read which queue now (pure)
        Commits            which commits count (pure)
        JobJournal         what is committed, at the checkpoint's location
"""

import logging
import secrets
import threading

import msgspec
from pyspark import SparkContext

from contract import exit_codes
from contract.following import GroupSource, PopTerms
from contract.job_file import JobFile
from contract.kinds.jobs import Mode
from contract.names import FLOW_PORT
from mq_client.errors import UsageError
from spark_jobs import connections
from spark_jobs.options import Reading
from spark_jobs.pipeline.assignments import Assignments
from spark_jobs.pipeline.checkpoint.begins import QueueBegins
from spark_jobs.pipeline.checkpoint.journal import JournalTakenError
from spark_jobs.pipeline.checkpoint.opening import begin_patiently, open_journal
from spark_jobs.pipeline.executor_slots import ExecutorRequests, ExecutorSlots
from spark_jobs.pipeline.facts import JobFacts
from spark_jobs.pipeline.failures import FilesMissingError
from spark_jobs.pipeline.flow.beginning import FlowBeginner, FlowBeginning
from spark_jobs.pipeline.flow.link import DriverPlace
from spark_jobs.pipeline.flow.serving import FlowServer, LossFoundError, LossRefusedError
from spark_jobs.pipeline.flow.sinks.folders import FolderTakenError
from spark_jobs.pipeline.flow.task import FlowTask
from spark_jobs.pipeline.flow.tasks import FlowTasks
from spark_jobs.pipeline.flow.users import FlowPart
from spark_jobs.pipeline.flow.wire import CommitFigures
from spark_jobs.pipeline.following import AssignmentFollower
from spark_jobs.pipeline.group import JobGroup
from spark_jobs.pipeline.metrics import JobMetrics
from spark_jobs.pipeline.starting import StartStep, StartTimes
from spark_jobs.pipeline.warm_ups import PythonWarmUp, WarmUps

log = logging.getLogger("evenkeel.job")
LOOK_SECONDS = 0.2
LEAST_COMMIT_SECONDS = 0.05


class FlowEngine:
    """Runs one flow until it is stopped, or fails."""

    def __init__(
        self,
        server: FlowServer,
        tasks: FlowTasks,
        assignments: Assignments,
        followed: AssignmentFollower,
        slots: ExecutorSlots,
        group: JobGroup,
        engine: str,
        beginning: FlowBeginning,
        start: StartTimes,
    ) -> None:
        """Do nothing yet. `engine` describes the engine in the report."""
        self._start = start
        self._server = server
        self._tasks = tasks
        self._assignments = assignments
        self._followed = followed
        self._slots = slots
        self._group = group
        self._engine = engine
        self._skipped = beginning.skipped
        self._until = beginning.until

    def run(self, stop: threading.Event) -> int:
        """Run until `stop` is set, the run is complete, or the job fails; return the exit code."""
        try:
            if not self._is_complete():
                self._slots.need_executors()
            while not stop.is_set() and not self._is_complete():
                self._turn()
                self._server.check()
                stop.wait(LOOK_SECONDS)
            self._server.publish(self._followed.newest, {})
            self._tasks.wait_for_ends()
        except JournalTakenError as error:
            log.error("the driver ends: %s", error)
            return exit_codes.TRY_AGAIN
        except LossFoundError as error:
            log.warning("the driver starts again, to skip lost messages: %s", error)
            return exit_codes.TRY_AGAIN
        except (FilesMissingError, FolderTakenError, LossRefusedError) as error:
            log.error("the job ends, because a retry does not help: %s", error)
            self._report(str(error))
            return exit_codes.PERMANENT
        finally:
            self._server.close()
        self._report(None)
        return exit_codes.DONE

    def collect(self) -> JobFacts:
        """Take the facts as they are now."""
        server = self._server
        return JobFacts(
            published_epoch=self._followed.newest.epoch,
            adopted_epoch=server.adopted_epoch,
            batch=server.batch,
            slots=self._slots.filled,
            is_pinned=self._slots.is_pinned,
            tally=msgspec.structs.replace(server.tally, rows=dict(server.tally.rows)),
            error=server.trouble or self._followed.refusal or self._tasks.trouble,
            executors=self._slots.registered,
            skipped=self._skipped,
            given_up=server.given_up,
            refused=server.refused,
            engine=self._engine,
            started=dict(self._start.seconds),
        )

    def _is_complete(self) -> bool:
        """Whether a scheduled run has committed all messages that existed when it began."""
        ends, until = self._server.ends, self._until
        return until is not None and all(ends.get(queue, 0) >= at for queue, at in until.items())

    def _turn(self) -> None:
        """Follow the assignment, keep a task in each filled slot, and report."""
        adopted = self._server.adopted_epoch
        self._followed.read_newest(adopted)
        self._slots.fill(self._followed.newest, self._followed.find(adopted))
        self._slots.drain(self._followed.drained)
        usable = self._slots.usable
        expected = {slot: each.id for slot, each in usable.items()}
        self._server.publish(self._followed.newest, expected)
        self._tasks.keep(usable)
        self._group.update(self._server.ends)
        self._report(None)

    def _report(self, error: str | None) -> None:
        facts = self.collect()
        if facts.slots:
            self._start.note(StartStep.EXECUTOR)
        report = facts.report()
        if error is not None:
            report = msgspec.structs.replace(report, error=error)
        self._assignments.report(report)


def run(
    context: SparkContext,
    job: JobFile,
    reading: Reading,
    users: FlowPart,
    assignments: Assignments,
    stop: threading.Event,
    engine: str,
    start: StartTimes,
) -> int:
    """Make the parts of a flow's driver, and run it. `engine` describes the engine in reports."""
    requests = ExecutorRequests(context, job.executors)
    is_scheduled = job.mode is Mode.SCHEDULED
    if not is_scheduled:  # a scheduled run waits until there is something to read
        requests.begin()
    warm_ups = WarmUps(PythonWarmUp(context, reading.cluster))
    slots = ExecutorSlots(context, job.name, warm_ups, requests)
    journal = open_journal(context, job.checkpoint, assignments, stop)
    if journal is None:
        return exit_codes.TRY_AGAIN
    begins = QueueBegins(reading)
    beginner = FlowBeginner(
        journal, begins, reading, users.open_sinks, job.skip, is_scheduled,
        is_popping=job.messages is not None,
    )  # fmt: skip
    beginning = begin_patiently(beginner.begin, assignments, stop)
    if beginning is None:
        return exit_codes.TRY_AGAIN
    start.note(StartStep.CHECKPOINT)
    # The driver's term is the number of the last entry that it wrote when it took the journal.
    sinks = users.open_sinks(beginning.state.query, journal.number)
    secret = secrets.token_hex(32)
    for each in sinks.folders:
        each.clean()
    source = _make_source(reading, job.messages)

    def note_commit(figures: CommitFigures) -> None:
        start.note(StartStep.COMMIT)
        metrics.note_commit(figures.age, figures.delay)

    server = FlowServer(
        beginning, journal, sinks, source, begins.find_others, secret,
        note_commit,
    )  # fmt: skip
    place = _start(server, context, FLOW_PORT if job.kubernetes else 0, secret)
    pace = max(job.trigger_seconds, LEAST_COMMIT_SECONDS)
    tasks = FlowTasks(
        context,
        lambda slot: FlowTask(
            place, slot, reading, sinks, users.function, pace, is_popping=job.messages is not None
        ),
        lambda slot: server.tally.rows.get(slot, 0),
    )
    popped = job.messages.topics if job.messages is not None else ()
    client = connections.get_client(reading.cluster)
    group = JobGroup(client, reading, job.name, job.origin, popped)
    flow = FlowEngine(
        server, tasks, assignments, AssignmentFollower(assignments), slots, group, engine,
        beginning, start,
    )  # fmt: skip
    metrics = JobMetrics(flow.collect, lambda: group.measure_lag(server.ends))
    if job.metrics_port is not None:
        metrics.serve(job.metrics_port)
    try:
        return flow.run(stop)
    finally:
        group.leave(server.ends)


def _make_source(reading: Reading, terms: PopTerms | None) -> GroupSource:
    """Make what tasks need to know. Only those that pop take the filter from it."""
    source = GroupSource(reading.group, reading.cluster.name_servers.split(";"), messages=terms)
    wanted = reading.wanted
    if terms is None or wanted.is_everything:
        return source
    by_topic = dict.fromkeys(terms.topics, wanted.expression)
    kind = "sql" if wanted.is_sql else "tags"
    return msgspec.structs.replace(source, **{kind: by_topic})


def _start(server: FlowServer, context: SparkContext, port: int, secret: str) -> DriverPlace:
    """Start the server at the address where the executors reach this driver."""
    conf = context.getConf()
    host = conf.get("spark.driver.bindAddress", conf.get("spark.driver.host", ""))
    try:
        server.start(host, port)
    except OSError as error:
        raise UsageError(f"port {port} cannot be used: {error}") from error
    return DriverPlace(conf.get("spark.driver.host", "127.0.0.1"), server.port, secret)
