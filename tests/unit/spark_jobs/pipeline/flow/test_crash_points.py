"""
A driver or a task dies at a step of a commit, and every message is still there exactly once.

The messages of the only queue are numbers. Multiples of five are dead letters.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from contract.following import GroupSource, Terms
from mq_client.values import MessageQueue
from sandbox.waiting import wait_for
from spark_jobs import journal as offsets
from spark_jobs import options
from spark_jobs.pipeline.assignments import JobAssignment
from spark_jobs.pipeline.flow import serving, wire
from spark_jobs.pipeline.flow.beginning import FlowBeginner
from spark_jobs.pipeline.flow.journal import FlowState, Pending
from spark_jobs.pipeline.flow.serving import FlowServer
from spark_jobs.pipeline.flow.sinks import folders
from spark_jobs.pipeline.flow.sinks.files import FileFormat, FileSink
from spark_jobs.pipeline.flow.sinks.folders import HIDDEN, SinkFolders
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, Written
from spark_jobs.pipeline.flow.sinks.separate import SeparateSinks
from tests.flows import SECRET, DiedError, DyingStage, FakeJournal, Task

QUEUE = MessageQueue("orders", "broker-a", 0)
MESSAGES, IN_COMMIT = 20, 5
SOURCE = {"nameServers": "n:1", "topics": "orders", "group": "billing"}
DRIVER_STEPS = (
    "before the entry", "after the entry", "after the rows are seen", "after all is seen",
)  # fmt: skip
TASK_STEPS = (
    "before it writes", "while it writes", "before it commits", "before it hears the answer",
    "before it hears the answer, and connects again",
)  # fmt: skip


class Stage(DyingStage):
    """One flow: its files, its journal, and drivers and tasks that die once at a given step."""

    driver_steps = DRIVER_STEPS

    def __init__(self, folder: Path, dies_at: str, commit: int) -> None:
        state = FlowState("q", "billing", 0, -1, offsets.write_offsets({QUEUE: 0}))
        super().__init__(FakeJournal([state]), dies_at, commit)
        self.folder = folder
        self.moves = 0

    def append(self, state: FlowState) -> None:
        self.moves = 0
        super().append(state)

    def move(self, name: str, folder: str) -> None:
        self.kept.move(name, folder)

    def read_newest(self) -> FlowState | None:
        return self.kept.read_newest()

    def see(self, pending: Pending) -> None:
        MOVE(pending)
        self.moves += 1
        self.pass_step(DRIVER_STEPS[1 + self.moves])

    def open_sinks(self, query: str, term: int) -> SeparateSinks:
        places = (SinkFolders(str(self.folder / name), query, term) for name in ("rows", "dead"))
        return SeparateSinks(*(FileSink(place, FileFormat("json")) for place in places))

    def run_driver(self) -> None:
        """Run a driver, and tasks, until everything is committed or the driver dies."""
        journal: Any = self
        unused: Any = None
        reading = options.parse_reading(SOURCE, is_stream=True)
        beginning = FlowBeginner(journal, unused, reading, self.open_sinks, "", False).begin()
        sinks = self.open_sinks(beginning.state.query, self.kept.number)
        sinks.clean()
        source = GroupSource("billing", [])
        server = FlowServer(beginning, journal, sinks, source, lambda _: {}, SECRET, lambda _: None)
        server.start("127.0.0.1", 0)
        try:
            for executor in "123":
                assignment = JobAssignment(1, ("a",), {QUEUE: "a"})
                server.publish(assignment, {"a": executor})
                try:
                    self.run_task(server, sinks, executor)
                except DiedError:
                    server.check()  # it raises the error again if the driver has died
                else:
                    return
        finally:
            server.close()

    def run_task(self, server: FlowServer, sinks: SeparateSinks, executor: str) -> None:
        """Run a task until everything is committed; raise an error if task or driver dies."""
        task = self.task = Task(server.port, "a", executor)
        try:
            while not (isinstance(found := task.ask(), set) and QUEUE in found):
                server.check()
            task.say(wire.TaskLocate(0, QUEUE))
            while not isinstance(answer := task.hear(), wire.Located):
                pass  # an answer for the task before this one
            begin = answer.offset
            for number in range(1, MESSAGES):
                if begin == MESSAGES:
                    return
                end = begin + IN_COMMIT
                self.pass_step("before it writes")
                written = self.write(sinks, task.session, number, range(begin, end))
                self.pass_step("before it commits")
                task.send_commit(
                    number, (QUEUE, begin, end), folder=written.rows, dead=written.dead
                )
                self.pass_step("before it hears the answer")
                try:
                    self.pass_step("before it hears the answer, and connects again")
                except DiedError:
                    task.close()
                    task = Task(server.port, "a", executor)
                    task.calls = number - 1
                    task.send_commit(
                        number, (QUEUE, begin, end), folder=written.rows, dead=written.dead
                    )
                answer = task.hear()
                if answer is None:
                    wait_for(lambda: server.check(), lambda _: False, 60.0)
                assert answer.is_accepted
                begin = end
        finally:
            task.close()

    def write(self, sinks: SeparateSinks, session: str, number: int, numbers: range) -> Written:
        """Write the folders of a commit."""
        try:
            self.pass_step("while it writes")
        except DiedError:
            half = SinkFolders(str(self.folder / "rows"), "q", 1).name_hidden(session, number)
            half.mkdir(parents=True)
            (half / "part-0.json").write_text('{"number":')
            raise
        good = pa.RecordBatch.from_pydict({"number": [n for n in numbers if n % 5]})
        bad = pa.RecordBatch.from_pydict({"number": [n for n in numbers if not n % 5]})
        return sinks.open().write(Delivery(session, number, []), [good], [bad])

    def read(self, name: str) -> Counter[int]:
        """Count the numbers that readers of a sink see."""
        files = (self.folder / name).glob("query=q/batch=*/part-*")
        return Counter(
            json.loads(line)["number"] for file in files for line in file.read_text().splitlines()
        )


MOVE = folders.move


@pytest.mark.parametrize("commit", [1, 2, MESSAGES // IN_COMMIT])
@pytest.mark.parametrize("step", DRIVER_STEPS + TASK_STEPS)
def test_every_message_is_seen_once_whoever_dies_at_any_step_of_a_commit(
    tmp_path: Path, step: str, commit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, step, commit)
    monkeypatch.setattr(folders, "move", stage.see)
    monkeypatch.setattr(serving, "TERMS", Terms(session=600.0))  # a slow machine ends none
    has_died = False
    while stage.left or offsets.read_offsets(stage.kept.entries[-1].offsets)[QUEUE] < MESSAGES:
        try:
            stage.run_driver()
        except DiedError:
            has_died = True
    assert stage.left == 0, "nobody has died, so nothing was tested"
    stage.run_driver()  # the next driver deletes what is left
    good = Counter(number for number in range(MESSAGES) if number % 5)
    assert stage.read("rows") == good
    assert stage.read("dead") == Counter(range(0, MESSAGES, 5))
    assert [path for path in tmp_path.rglob(HIDDEN) if path.exists()] == []
    assert has_died == (step in DRIVER_STEPS)
