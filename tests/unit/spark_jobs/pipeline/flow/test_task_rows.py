"""The rows of a task: kept, written and committed together, and dropped with their queue."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from follower.pieces import DeadLetter
from follower.positions import MovedOnError, Step
from follower.work import OverError, Work
from mq_client.columns import SCHEMA
from mq_client.messages import StoredMessage
from mq_client.values import MessageQueue
from spark_jobs import options
from spark_jobs.pipeline.flow import task_rows, task_sinks
from spark_jobs.pipeline.flow.calls import UsersCalls
from spark_jobs.pipeline.flow.rows import HandledPiece
from spark_jobs.pipeline.flow.sinks.files import FileSink
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, FlowSinks, RowsRefusedError, Written
from spark_jobs.pipeline.flow.sinks.local_files import LocalFiles
from spark_jobs.pipeline.flow.sinks.separate import SeparateSinks
from spark_jobs.pipeline.flow.task_rows import TaskRows
from spark_jobs.pipeline.flow.wire import CommitFigures, Located, TaskCommit
from spark_jobs.planning import Range

A, B = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
"""These tests need no messages: `Scene.handle` makes the rows."""
READING = options.parse_reading(
    {"nameServers": "n:1", "topics": "orders", "group": "billing"}, is_stream=True
)
NOTHING = pa.RecordBatch.from_pylist([], SCHEMA)


def make_sink(folder: Path) -> FileSink:
    return FileSink(SinkFolders(str(folder), "q", 1), "json")


class FakeLink:
    """Accepts commits, unless it is told to refuse."""

    def __init__(self) -> None:
        self.commits: list[tuple[int, list[Range], str]] = []
        self.figures: list[CommitFigures] = []
        self.refusals = 0
        self.begin = 0
        """Where the next queue begins."""
        self.reports: list[tuple[MessageQueue, int, str]] = []
        self.reported = asyncio.Event()
        self.gate: asyncio.Event | None = None
        self.asked = asyncio.Event()

    async def locate(self, _: MessageQueue) -> Located:
        return Located(1, self.begin)

    def report(self, queue: MessageQueue, offset: int, text: str) -> None:
        self.reports.append((queue, offset, text))
        self.reported.set()

    async def commit(self, make: Callable[[int], TaskCommit]) -> bool:
        found = make(1)
        self.asked.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.refusals:
            self.refusals -= 1
            return False
        self.commits.append((found.number, list(found.ranges), found.folder))
        self.figures.append(found.figures)
        return True


class ScriptedSinks:
    """Sinks with positions. They take any rows except those of the offsets in `bad`."""

    takes_dead_letters = True
    folders = ()
    plan_moves = None  # only the driver uses this

    def __init__(self) -> None:
        self.stored: dict[MessageQueue, int] = {}
        self.bad: set[int] = set()
        self.failures: list[Exception] = []
        self.dead = 0
        self.refuses_dead_letters = False

    def open(self) -> "ScriptedSinks":
        return self

    @property
    def positions(self) -> Callable[[str, MessageQueue], int | None]:
        return lambda group, queue: self.stored.get(queue)

    def write(self, delivery: Delivery, rows: Any, dead: Sequence[pa.RecordBatch]) -> Written:
        if self.failures:
            raise self.failures.pop(0)
        if any(self.stored.get(each.queue) != each.begin for each in delivery.steps):
            raise MovedOnError("it has moved")
        if (self.refuses_dead_letters or not dead) and any(
            each.begin is not None and each.begin <= bad < each.end
            for bad in self.bad
            for each in delivery.steps
        ):
            raise RowsRefusedError("it is bad")
        self.stored |= {each.queue: each.end for each in delivery.steps}
        self.dead += sum(batch.num_rows for batch in dead)
        return Written()

    def close(self) -> None:
        pass


class Scene:
    def __init__(self, folder: Path, sinks: FlowSinks | None = None) -> None:
        self.link = FakeLink()
        self.folder = folder
        link: Any = self.link
        sinks = sinks or SeparateSinks(make_sink(folder), make_sink(folder / "dead"))
        self.rows = TaskRows(link, UsersCalls(None), READING, sinks, lambda: "s")
        self.works: dict[MessageQueue, Work] = {}

    async def hold(self, queue: MessageQueue, begin: int) -> Work:
        self.link.begin = begin
        work = Work(queue, 1, "billing", lambda: True)
        work.stored = await self.rows.read_position("billing", queue)
        self.rows.hold(work)
        self.works[queue] = work
        return work

    def handle(self, queue: MessageQueue, begin: int, end: int) -> None:
        self.rows(NOTHING, Step("billing", queue, begin, end))
        held = self.rows._held[queue]
        row = pa.RecordBatch.from_pydict({"queue": [queue.id], "first": [begin]})
        held.pieces[-1] = HandledPiece(end, [row], (), row.nbytes)

    def list_written(self) -> list[str]:
        found = sorted((self.folder / "query=q/_writing/1").glob("*/part-0.json"))
        return [each.read_text() for each in found]


def test_rows_of_all_queues_are_committed_together(tmp_path: Path) -> None:
    async def run() -> None:
        it = Scene(tmp_path)
        a, b = await it.hold(A, 10), await it.hold(B, 20)
        it.handle(A, 10, 12)
        it.handle(B, 20, 21)
        await asyncio.gather(it.rows.commit(a, 12), it.rows.commit(b, 21))
        [(number, ranges, folder)] = it.link.commits
        assert (number, ranges) == (1, [Range(A, 10, 12), Range(B, 20, 21)])
        assert folder == str(tmp_path / "query=q/_writing/1/s-1")
        assert it.list_written() == ['{"queue":0,"first":10}\n{"queue":1,"first":20}\n']
        await it.rows.commit(a, 12)
        assert len(it.link.commits) == 1, "nothing is new"

    asyncio.run(run())


def test_rows_that_come_while_a_commit_is_under_way_are_in_the_next_one(tmp_path: Path) -> None:
    async def run() -> None:
        it = Scene(tmp_path)
        a = await it.hold(A, 10)
        it.handle(A, 10, 12)
        it.link.gate = asyncio.Event()
        first = asyncio.create_task(it.rows.commit(a, 12))
        await it.link.asked.wait()
        it.handle(A, 12, 15)
        second = asyncio.create_task(it.rows.commit(a, 15))
        it.link.gate.set()
        await asyncio.gather(first, second)
        assert [ranges for _, ranges, _ in it.link.commits] == [
            [Range(A, 10, 12)], [Range(A, 12, 15)],
        ]  # fmt: skip

    asyncio.run(run())


def test_rows_of_a_queue_that_is_given_up_are_dropped_and_others_stay(tmp_path: Path) -> None:
    async def run() -> None:
        it = Scene(tmp_path)
        a, b = await it.hold(A, 10), await it.hold(B, 20)
        it.handle(A, 10, 12)
        it.handle(B, 20, 21)
        a.end()
        await it.rows.commit(b, 21)
        assert [ranges for _, ranges, _ in it.link.commits] == [[Range(B, 20, 21)]]
        with pytest.raises(OverError):
            await it.rows.commit(a, 12)
        await it.hold(A, 10)
        it.handle(A, 10, 12)

    asyncio.run(run())


def test_a_refused_commit_leaves_no_folder_and_is_made_anew(tmp_path: Path) -> None:
    async def run() -> None:
        it = Scene(tmp_path)
        a = await it.hold(A, 10)
        it.handle(A, 10, 12)
        it.link.refusals = 1
        with pytest.raises(MovedOnError):
            await it.rows.commit(a, 12)
        assert it.list_written() == []
        a = await it.hold(A, 10)
        it.handle(A, 10, 12)
        await it.rows.commit(a, 12)
        assert [number for number, _, _ in it.link.commits] == [2]

    asyncio.run(run())


def test_a_disk_that_is_full_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        it = Scene(tmp_path)
        a = await it.hold(A, 10)
        it.handle(A, 10, 12)
        with monkeypatch.context() as full:
            full.setattr(LocalFiles, "write", lambda *_: (_ for _ in ()).throw(OSError("full")))
            with pytest.raises(OSError, match="full"):
                await it.rows.commit(a, 12)
        await it.rows.commit(a, 12)
        assert [ranges for _, ranges, _ in it.link.commits] == [[Range(A, 10, 12)]]

    asyncio.run(run())


def test_offsets_that_no_call_has_covered_are_not_committed(tmp_path: Path) -> None:
    """A filter has left out 12 to 14, and the queue is halted at 15."""

    async def run() -> None:
        it = Scene(tmp_path)
        a = await it.hold(A, 10)
        it.handle(A, 10, 12)
        await it.rows.commit(a, 15)
        assert [ranges for _, ranges, _ in it.link.commits] == [[Range(A, 10, 12)]]

    asyncio.run(run())


def test_a_range_without_rows_is_committed_without_a_folder(tmp_path: Path) -> None:
    async def run() -> None:
        it = Scene(tmp_path)
        a = await it.hold(A, 10)
        it.rows(NOTHING, Step("billing", A, 10, 30))
        await it.rows.commit(a, 30)
        assert it.link.commits == [(1, [Range(A, 10, 30)], "")]

    asyncio.run(run())


def test_a_late_call_of_an_earlier_holding_adds_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        it = Scene(tmp_path)
        await it.hold(A, 10)
        it.handle(A, 10, 12)
        await it.hold(A, 12)
        with pytest.raises(MovedOnError):
            it.rows(NOTHING, Step("billing", A, 10, 12))

    asyncio.run(run())


def test_calls_wait_while_there_are_too_many_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        it = Scene(tmp_path)
        await it.hold(A, 10)
        it.handle(A, 10, 12)
        monkeypatch.setattr(task_rows, "MOST_BYTES", 1)
        it.link.gate = asyncio.Event()
        step = Step("billing", A, 12, 13)
        waiting = threading.Thread(target=lambda: it.rows(NOTHING, step))
        waiting.start()
        await it.link.asked.wait()
        assert waiting.is_alive()
        it.link.gate.set()
        await asyncio.to_thread(waiting.join)
        assert it.link.commits

    asyncio.run(run())


def test_a_message_that_is_given_up_is_a_dead_letter_of_the_same_commit(tmp_path: Path) -> None:
    async def run() -> None:
        it = Scene(tmp_path)
        a = await it.hold(A, 10)
        it.handle(A, 10, 12)
        message = StoredMessage(*A, 12, b"body", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)
        it.rows.bury(a, DeadLetter(message, 15, "it is bad"))
        assert a.stored == 15, "the queue goes on behind it"
        it.handle(A, 15, 16)
        await it.rows.commit(a, 16)
        assert [ranges for _, ranges, _ in it.link.commits] == [[Range(A, 10, 16)]]
        [dead] = (tmp_path / "dead/query=q/_writing/1").glob("*/part-0.json")
        assert json.loads(dead.read_text())["_error"] == "it is bad"
        assert it.list_written() == ['{"queue":0,"first":10}\n{"queue":0,"first":15}\n']

    asyncio.run(run())


def play_with_positions(
    folder: Path, play: Callable[[Scene, ScriptedSinks], Coroutine[Any, Any, None]]
) -> None:
    async def run() -> None:
        scripted = ScriptedSinks()
        sinks: Any = scripted
        await play(Scene(folder, sinks), scripted)

    asyncio.run(run())


def list_ranges(it: Scene) -> list[list[Range]]:
    return [ranges for _, ranges, _ in it.link.commits]


def test_a_task_begins_where_the_sink_is_and_tells_the_driver(tmp_path: Path) -> None:
    """The previous task has written its rows, and has died before it could commit."""

    async def play(it: Scene, sinks: ScriptedSinks) -> None:
        sinks.stored[A] = 12
        a = await it.hold(A, 10)
        assert a.stored == 12
        assert list_ranges(it) == [[Range(A, 10, 12)]]
        it.handle(A, 12, 13)
        await it.rows.commit(a, 13)
        assert (list_ranges(it)[1:], sinks.stored) == ([[Range(A, 12, 13)]], {A: 13})

    play_with_positions(tmp_path, play)


def test_rows_whose_position_has_moved_are_dropped_and_the_queues_begin_anew(
    tmp_path: Path,
) -> None:
    async def play(it: Scene, sinks: ScriptedSinks) -> None:
        a, b = await it.hold(A, 10), await it.hold(B, 20)
        it.handle(A, 10, 12)
        it.handle(B, 20, 21)
        sinks.stored[A] = 11  # as if a task that was given up had just written
        for work, end in ((a, 12), (b, 21)):
            with pytest.raises(MovedOnError):
                await it.rows.commit(work, end)
        with pytest.raises(MovedOnError):
            it.rows(NOTHING, Step("billing", A, 12, 13))
        assert list_ranges(it) == []
        b = await it.hold(B, 20)
        it.handle(B, 20, 22)
        await it.rows.commit(b, 22)
        assert list_ranges(it) == [[Range(B, 20, 22)]]

    play_with_positions(tmp_path, play)


def test_refused_rows_hold_up_their_own_message_and_then_go_to_the_dead_letters(
    tmp_path: Path,
) -> None:
    async def play(it: Scene, sinks: ScriptedSinks) -> None:
        sinks.stored = {A: 10, B: 0}
        sinks.bad = {12}
        a = await it.hold(A, 10)
        it.handle(A, 10, 14)
        with pytest.raises(MovedOnError):
            await it.rows.commit(a, 14)
        a = await it.hold(A, 10)

        async def call(step: Step) -> None:
            await asyncio.to_thread(it.rows, NOTHING, step)

        await call(Step("billing", A, 10, 12))
        assert list_ranges(it) == [[Range(A, 10, 12)]], "a call is committed before it returns"
        for _ in range(2):
            with pytest.raises(RowsRefusedError, match="it is bad"):
                await call(Step("billing", A, 12, 13))
            assert it.rows._held[A].handled == 12, "the message is handled again"
        message = StoredMessage(*A, 12, b"body", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)
        it.rows.bury(a, DeadLetter(message, 13, "refused"))
        b = await it.hold(B, 0)
        it.handle(B, 0, 1)
        await it.rows.commit(b, 1)
        assert list_ranges(it)[1:] == [[Range(B, 0, 1)]], "others do not wait for these rows"
        await call(Step("billing", A, 13, 14))
        assert (sinks.dead, sinks.stored[A]) == (1, 14)
        it.handle(A, 14, 20)
        assert sinks.stored[A] == 14, "rows are committed together again"
        await it.rows.commit(a, 20)
        assert list_ranges(it)[2:] == [[Range(A, 12, 13)], [Range(A, 13, 14)], [Range(A, 14, 20)]]

    play_with_positions(tmp_path, play)


def test_a_row_refused_at_the_end_of_the_refused_range_is_passed_too(tmp_path: Path) -> None:
    """The dead letter of 13 is written before the rows of 14, which are refused as well."""

    async def play(it: Scene, sinks: ScriptedSinks) -> None:
        sinks.stored = {A: 13}
        sinks.bad = {13, 14}
        a = await it.hold(A, 13)
        it.handle(A, 13, 14)
        with pytest.raises(MovedOnError):
            await it.rows.commit(a, 14)
        a = await it.hold(A, 13)

        async def call(begin: int) -> None:
            await asyncio.to_thread(it.rows, NOTHING, Step("billing", A, begin, begin + 1))

        with pytest.raises(RowsRefusedError):
            await call(13)
        message = StoredMessage(*A, 13, b"body", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)
        it.rows.bury(a, DeadLetter(message, 14, "refused"))
        await call(14)
        assert (sinks.dead, sinks.stored[A]) == (1, 14), "the letter does not wait for the rows"
        with pytest.raises(MovedOnError):
            await it.rows.commit(a, 15)
        a = await it.hold(A, 14)
        with pytest.raises(RowsRefusedError):
            await call(14)

    play_with_positions(tmp_path, play)


def test_dead_letters_that_are_refused_are_reported(tmp_path: Path) -> None:
    async def play(it: Scene, sinks: ScriptedSinks) -> None:
        sinks.stored = {A: 13}
        sinks.bad = {13}
        a = await it.hold(A, 13)
        it.handle(A, 13, 14)
        with pytest.raises(MovedOnError):
            await it.rows.commit(a, 14)
        a = await it.hold(A, 13)
        sinks.refuses_dead_letters = True
        message = StoredMessage(*A, 13, b"body", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)
        it.rows.bury(a, DeadLetter(message, 14, "refused"))
        with pytest.raises(MovedOnError):
            await it.rows.commit(a, 14)
        assert it.link.reports == [(A, 13, "dead letters are refused: it is bad")]

    play_with_positions(tmp_path, play)


def test_a_queue_whose_rows_are_refused_holds_up_no_other(tmp_path: Path) -> None:
    async def play(it: Scene, sinks: ScriptedSinks) -> None:
        sinks.stored = {A: 10, B: 20}
        sinks.bad = {12}
        await it.hold(A, 10)
        b = await it.hold(B, 20)
        it.handle(A, 10, 14)
        it.handle(B, 20, 21)
        with pytest.raises(MovedOnError):
            await it.rows.commit(b, 21)
        await it.hold(A, 10)
        b = await it.hold(B, 20)
        with pytest.raises(RowsRefusedError):
            await asyncio.to_thread(it.rows, NOTHING, Step("billing", A, 10, 14))
        await asyncio.to_thread(it.rows, NOTHING, Step("billing", B, 20, 21))
        it.handle(B, 21, 25)
        await it.rows.commit(b, 25)
        assert sinks.stored == {A: 10, B: 25}

    play_with_positions(tmp_path, play)


def test_a_sink_that_is_away_is_reported_once_and_gets_the_rows_later(tmp_path: Path) -> None:
    async def play(it: Scene, sinks: ScriptedSinks) -> None:
        sinks.stored = {A: 10}
        sinks.failures = [OSError("away"), OSError("away")]
        a = await it.hold(A, 10)
        it.handle(A, 10, 12)
        for _ in range(2):
            with pytest.raises(OSError, match="away"):
                await it.rows.commit(a, 12)
        text = "rows wait, because they cannot be written: away"
        assert it.link.reports == [(A, 10, text)]
        await it.rows.commit(a, 12)
        assert list_ranges(it) == [[Range(A, 10, 12)]]

    play_with_positions(tmp_path, play)


def test_a_sink_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_sinks, "SILENT_SECONDS", 0.05)

    async def play(it: Scene, sinks: ScriptedSinks) -> None:
        write, answers = sinks.write, threading.Event()

        def write_late(*arguments: Any) -> Written:
            answers.wait()
            return write(*arguments)

        sinks.write = write_late  # type: ignore[method-assign, assignment]
        a = await it.hold(A, 10)
        it.handle(A, 10, 12)
        commit = asyncio.create_task(it.rows.commit(a, 12))
        await it.link.reported.wait()
        answers.set()
        await commit
        text = "rows wait, because their sink has not answered for 0.05 s"
        assert it.link.reports == [(A, 10, text)]
        assert list_ranges(it) == [[Range(A, 10, 12)]]

    play_with_positions(tmp_path, play)


def test_a_commit_says_how_old_its_rows_are_and_how_late_its_messages_were(tmp_path: Path) -> None:
    async def run() -> None:
        it = Scene(tmp_path)
        a = await it.hold(A, 10)
        for offset, late in ((10, 60), (11, 30)):
            stored = int(1000 * (time.time() - late))
            message = StoredMessage(*A, offset, b"body", {}, 0, 0, 0, b"", stored, b"", 0, 0, 0)
            it.rows([message], Step("billing", A, offset, offset + 1))
        await it.rows.commit(a, 12)
        [figures] = it.link.figures
        assert figures.rows == 2
        assert figures.age > 0
        assert 60 <= figures.delay < 90
        it.handle(A, 12, 13)
        await it.rows.commit(a, 13)
        assert it.link.figures[1].delay == 0, "each commit has its own"

    asyncio.run(run())
