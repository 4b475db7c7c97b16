"""
A driver or a task dies at a step of a commit, and the sink has each message as often as promised.

The journal is in memory; driver, connection, task and sink are real. The messages of the only
queue are numbers. In PostgreSQL multiples of five are dead letters.
"""

import asyncio
import contextlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from contract.following import GroupSource, Terms
from follower.positions import MovedOnError, Step
from follower.work import Work
from mq_client import blocking
from mq_client.messages import StoredMessage
from mq_client.values import MessageQueue
from sandbox.rocketmq import RocketMq
from sandbox.waiting import wait_for
from spark_jobs import journal as offsets
from spark_jobs import options
from spark_jobs import sink as sending
from spark_jobs.pipeline.assignments import JobAssignment
from spark_jobs.pipeline.checkpoint.journal import CheckpointState
from spark_jobs.pipeline.flow import serving, wire
from spark_jobs.pipeline.flow.beginning import FlowBeginning
from spark_jobs.pipeline.flow.calls import Function, UsersCalls
from spark_jobs.pipeline.flow.serving import FlowServer
from spark_jobs.pipeline.flow.sinks import postgres as sink
from spark_jobs.pipeline.flow.sinks.functions import FunctionSink
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, FlowSinks, Written
from spark_jobs.pipeline.flow.sinks.postgres import PostgresSinks
from spark_jobs.pipeline.flow.sinks.separate import SeparateSinks
from spark_jobs.pipeline.flow.sinks.tables import TableSink
from spark_jobs.pipeline.flow.sinks.topics import TopicSink
from spark_jobs.pipeline.flow.task_rows import TaskRows
from tests.flows import SECRET, DiedError, DyingStage, FakeJournal, Task
from tests.real.spark.source import list_stored
from tests.tables import LAKE_TABLES, LakeTable

QUEUE = MessageQueue("orders", "broker-a", 0)
MESSAGES, IN_COMMIT = 20, 5
READING = options.parse_reading(
    {"nameServers": "n:1", "topics": "orders", "group": "billing"}, is_stream=True
)
DRIVER_STEPS = ("before the entry", "after the entry")
TASK_STEPS = ("before it writes", "before it commits", "before it hears the answer")
WHILE_WRITING = "while it writes"
COMMITS = (1, 2, MESSAGES // IN_COMMIT)
"""The first commit, one in the middle, and the last."""


def list_numbers(batches: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"number": list(map(int, batch["body"].to_pylist()))})


def divide_by_five(batches: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    for batch in batches:
        numbers = list(map(int, batch["body"].to_pylist()))
        errors = [None if number % 5 else "a multiple" for number in numbers]
        yield pa.RecordBatch.from_pydict({"number": numbers, "_error": errors})


def list_bodies(batches: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    for batch in batches:
        yield batch.select(["body"])


class KeepingFunction:
    """A user's function that keeps rows and positions in one database."""

    def __init__(self, path: Path, pass_step: Callable[[str], None]) -> None:
        self._path = path
        self._pass_step = pass_step
        with self._connect() as database:
            database.execute("CREATE TABLE rows (number int)")
            database.execute("CREATE TABLE positions (queue int PRIMARY KEY, offset int)")

    def read_position(self, _: str, queue: MessageQueue) -> int | None:
        with self._connect() as database:
            return self._find(database, queue)

    def __call__(self, batches: list[pa.RecordBatch], steps: Sequence[Step]) -> None:
        with self._connect() as database, database:
            database.execute("BEGIN IMMEDIATE")
            for step in steps:
                if self._find(database, step.queue) != step.begin:
                    raise MovedOnError
                database.execute("REPLACE INTO positions VALUES (?, ?)", (step.queue.id, step.end))
            for batch in batches:
                numbers = zip(batch["number"].to_pylist(), strict=True)
                database.executemany("INSERT INTO rows VALUES (?)", numbers)
            self._pass_step(WHILE_WRITING)

    def list_rows(self) -> list[int]:
        with self._connect() as database:
            return [number for (number,) in database.execute("SELECT number FROM rows")]

    def _connect(self) -> contextlib.closing[sqlite3.Connection]:
        return contextlib.closing(sqlite3.connect(self._path))

    @staticmethod
    def _find(database: sqlite3.Connection, queue: MessageQueue) -> int | None:
        query = "SELECT offset FROM positions WHERE queue = ?"
        found = database.execute(query, (queue.id,)).fetchone()
        return found[0] if found else None


class Stage(DyingStage):
    """One flow, whose driver or task dies one time, at a given step."""

    driver_steps = DRIVER_STEPS

    def __init__(self, sinks: FlowSinks, function: Function, dies_at: str, commit: int) -> None:
        state = CheckpointState("q", "billing", 0, -1, offsets.write_offsets({QUEUE: 0}))
        super().__init__(FakeJournal([state]), dies_at, commit)
        self.sinks = sinks
        self.function = function

    @property
    def end(self) -> int:
        return offsets.read_offsets(self.kept.entries[-1].offsets)[QUEUE]

    def run_driver(self) -> None:
        """Run a driver, and tasks, until everything is committed or the driver dies."""
        journal: Any = self
        server = FlowServer(
            FlowBeginning(self.kept.entries[-1]), journal, self.sinks,
            GroupSource("billing", []), lambda _: {}, SECRET, lambda _: None,
        )  # fmt: skip
        server.start("127.0.0.1", 0)
        try:
            for executor in "123":
                server.publish(JobAssignment(1, ("a",), {QUEUE: "a"}), {"a": executor})
                try:
                    asyncio.run(self.run_task(server, executor))
                except DiedError:
                    pass  # the next task takes over
                except ConnectionError:
                    wait_for(server._failed.done, bool)
                    server.check()
                else:
                    return
        finally:
            server.close()

    async def run_task(self, server: FlowServer, executor: str) -> None:
        """Run a task until everything is committed; raise an error if task or driver dies."""
        task = self.task = Task(server.port, "a", executor)
        link: Any = BlockingLink(task, self)
        watched: Any = WatchedSinks(self)
        rows = TaskRows(link, UsersCalls(self.function), READING, watched, lambda: task.session)
        try:
            while QUEUE not in await asyncio.to_thread(task.ask):
                server.check()
            work = Work(QUEUE, 1, "billing", lambda: True)
            begin = work.stored = await rows.read_position("billing", QUEUE)
            rows.hold(work)
            for first in range(begin, MESSAGES, IN_COMMIT):
                stop = first + IN_COMMIT
                rows(make_messages(first, stop), Step("billing", QUEUE, first, stop))
                await rows.commit(work, stop)
        finally:
            task.close()
            rows.close()


def make_messages(first: int, stop: int) -> list[StoredMessage]:
    return [
        StoredMessage(*QUEUE, number, b"%d" % number, {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)
        for number in range(first, stop)
    ]


class BlockingLink:
    """A task's side of its connection, which blocks until each answer has come."""

    def __init__(self, task: Task, stage: Stage) -> None:
        self.task = task
        self.stage = stage

    async def locate(self, queue: MessageQueue) -> wire.Located:
        self.task.say(wire.TaskLocate(0, queue))
        located: wire.Located = self.hear(wire.Located)
        return located

    async def commit(self, make: Callable[[int], wire.TaskCommit]) -> bool:
        self.stage.pass_step("before it commits")
        self.task.say(make(1))
        self.stage.pass_step("before it hears the answer")
        settled: wire.Settled = self.hear(wire.Settled)
        return settled.is_accepted

    def report(self, *_: object) -> None:
        """Ignore the report: these tests do not need it."""

    def hear(self, kind: type) -> Any:
        while not isinstance(answer := self.task.hear(), kind):
            if answer is None:
                raise ConnectionError("the driver is gone")
        return answer


class WatchedSinks:
    """Sinks that let the task die before it writes."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.writer = stage.sinks.open()
        self.takes_dead_letters = stage.sinks.takes_dead_letters
        self.folders = stage.sinks.folders

    def open(self) -> "WatchedSinks":
        return self

    @property
    def positions(self) -> Any:
        return self.writer.positions

    def write(
        self, delivery: Delivery, rows: Sequence[pa.RecordBatch], dead: Sequence[pa.RecordBatch]
    ) -> Written:
        self.stage.pass_step("before it writes")
        return self.writer.write(delivery, rows, dead)

    def close(self) -> None:
        self.writer.close()


def play(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let drivers and tasks run until everything is committed."""
    # Sessions are so long that none ends, even on a slow machine.
    monkeypatch.setattr(serving, "TERMS", Terms(session=600.0))
    while stage.end < MESSAGES:
        try:
            stage.run_driver()
        except DiedError:
            assert stage.dies_at in DRIVER_STEPS
    assert stage.left == 0, "nobody has died, so nothing was tested"


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("step", [*DRIVER_STEPS, *TASK_STEPS, WHILE_WRITING])
def test_postgresql_has_every_message_once_whoever_dies_at_any_step_of_a_commit(
    postgres_address: str, step: str, commit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = sink._copy

    def copy_or_die(*arguments: Any) -> None:
        copy(*arguments)
        if arguments[1] == "rows":
            stage.pass_step(WHILE_WRITING)

    monkeypatch.setattr(sink, "_copy", copy_or_die)
    with psycopg.connect(postgres_address, autocommit=True) as database:
        database.execute("DROP TABLE IF EXISTS evenkeel_positions, rows, dead")
        database.execute("CREATE TABLE rows (number int)")
        database.execute("CREATE TABLE dead (number int, _error text)")
        sinks = PostgresSinks(postgres_address, "rows", "dead")
        stage = Stage(sinks, divide_by_five, step, commit)
        play(stage, monkeypatch)
        rows, dead = (
            Counter(n for (n,) in database.execute(f"SELECT number FROM {table}").fetchall())
            for table in ("rows", "dead")
        )
    assert rows == Counter(number for number in range(MESSAGES) if number % 5)
    assert dead == Counter(range(0, MESSAGES, 5))


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("step", [*DRIVER_STEPS, *TASK_STEPS])
@pytest.mark.parametrize("make_table", LAKE_TABLES.values(), ids=LAKE_TABLES)
def test_a_lake_table_has_every_message_once_whoever_dies_at_any_step_of_a_commit(
    tmp_path: Path, make_table: Callable[[Path], LakeTable], step: str, commit: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    lake = make_table(tmp_path)
    sinks = SeparateSinks(TableSink(lake.place, has_positions=True))
    play(Stage(sinks, list_numbers, step, commit), monkeypatch)
    assert Counter(lake.read()["number"].to_pylist()) == Counter(range(MESSAGES))


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("step", [*DRIVER_STEPS, *TASK_STEPS, WHILE_WRITING])
def test_a_function_with_positions_has_every_message_once_whoever_dies_at_any_step_of_a_commit(
    tmp_path: Path, step: str, commit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = KeepingFunction(tmp_path / "kept.db", lambda at: stage.pass_step(at))
    stage = Stage(SeparateSinks(FunctionSink(function)), list_numbers, step, commit)
    play(stage, monkeypatch)
    assert Counter(function.list_rows()) == Counter(range(MESSAGES))


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("step", [*DRIVER_STEPS, *TASK_STEPS, WHILE_WRITING])
def test_a_function_has_again_only_messages_of_the_commit_at_which_somebody_died(
    step: str, commit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []

    def write(batches: list[pa.RecordBatch], _: Sequence[Step]) -> None:
        numbers = [number for batch in batches for number in batch["number"].to_pylist()]
        found.extend(numbers[:2])
        stage.pass_step(WHILE_WRITING)
        found.extend(numbers[2:])

    stage = Stage(SeparateSinks(FunctionSink(write)), list_numbers, step, commit)
    play(stage, monkeypatch)
    check_at_least_once(found, commit)


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("step", [*DRIVER_STEPS, *TASK_STEPS, WHILE_WRITING])
def test_a_topic_has_again_only_messages_of_the_commit_at_which_somebody_died(
    rocketmq: RocketMq, client: blocking.Client, topic: str, step: str, commit: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    send, sent = sending.send, 0

    def send_or_die(rows: Iterable[pa.RecordBatch], to: options.Sending) -> None:
        nonlocal sent
        for batch in rows:
            for part in (batch.slice(0, 2), batch.slice(2)):
                send([part], to)
                sent += len(part)
                if part.num_rows == 2:
                    stage.pass_step(WHILE_WRITING)

    monkeypatch.setattr(sending, "send", send_or_die)
    to = options.parse_sending({"nameServers": rocketmq.name_server.address, "topic": topic})
    stage = Stage(SeparateSinks(TopicSink(to)), list_bodies, step, commit)
    play(stage, monkeypatch)
    check_at_least_once([int(each.body) for each in list_stored(client, topic, sent)], commit)


def check_at_least_once(found: Iterable[int], commit: int) -> None:
    times = Counter(found)
    assert times.keys() == set(range(MESSAGES))
    first = (commit - 1) * IN_COMMIT
    assert times - Counter(range(MESSAGES)) <= Counter(range(first, first + IN_COMMIT))
