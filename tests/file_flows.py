"""
Flows that write files, and whose driver or task dies at a step of a commit.

The messages of the only queue are numbers. Multiples of five are dead letters.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest

from contract.following import GroupSource, Terms
from mq_client.values import MessageQueue
from sandbox.waiting import wait_for
from spark_jobs import journal as offsets
from spark_jobs import options
from spark_jobs.pipeline.assignments import JobAssignment
from spark_jobs.pipeline.checkpoint.journal import CheckpointState, Pending
from spark_jobs.pipeline.flow import serving, wire
from spark_jobs.pipeline.flow.beginning import FlowBeginner
from spark_jobs.pipeline.flow.serving import FlowServer
from spark_jobs.pipeline.flow.sinks import folders
from spark_jobs.pipeline.flow.sinks.files import FileSink
from spark_jobs.pipeline.flow.sinks.folders import HIDDEN, SinkFolders
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, Written
from spark_jobs.pipeline.flow.sinks.separate import SeparateSinks
from tests.flows import SECRET, DiedError, DyingStage, FakeJournal, Task

QUEUE = MessageQueue("orders", "broker-a", 0)
MESSAGES, IN_COMMIT = 20, 5
COMMITS = (1, 2, MESSAGES // IN_COMMIT)
"""The first commit, one in the middle, and the last."""
SOURCE = {"nameServers": "n:1", "topics": "orders", "group": "billing"}
DRIVER_STEPS = (
    "before the entry", "after the entry", "after the rows are seen", "after all is seen",
)  # fmt: skip
TASK_STEPS = (
    "before it writes", "while it writes", "before it commits", "before it hears the answer",
    "before it hears the answer, and connects again",
)  # fmt: skip


MOVE = folders.move


@dataclass(frozen=True)
class FilesPlace:
    """Where the files of a flow go, and how a reader finds them."""

    path: str
    options: Mapping[str, str]
    system: pyarrow.fs.FileSystem
    root: str
    """The path in this file system."""


class FileStage(DyingStage):
    """One flow: its files, journal, drivers and tasks. A driver or task dies at a given step."""

    driver_steps = DRIVER_STEPS

    def __init__(self, place: FilesPlace, dies_at: str, commit: int) -> None:
        state = CheckpointState("q", "billing", 0, -1, offsets.write_offsets({QUEUE: 0}))
        super().__init__(FakeJournal([state]), dies_at, commit)
        self.place = place
        self.moves = 0

    def append(self, state: CheckpointState) -> None:
        self.moves = 0
        super().append(state)

    def move(self, name: str, folder: str) -> None:
        self.kept.move(name, folder)

    def read_newest(self) -> CheckpointState | None:
        return self.kept.read_newest()

    def see(self, pending: Pending, known: Sequence[SinkFolders]) -> None:
        MOVE(pending, known)
        self.moves += 1
        self.pass_step(DRIVER_STEPS[1 + self.moves])

    def open_sinks(self, query: str, term: int) -> SeparateSinks:
        paths = (f"{self.place.path}/{name}" for name in ("rows", "dead"))
        both = (SinkFolders(path, query, term, self.place.options) for path in paths)
        return SeparateSinks(*(FileSink(each, "json") for each in both))

    def run_driver(self) -> None:
        """Run a driver, and tasks, until everything is committed or the driver dies."""
        journal: Any = self
        unused: Any = None
        reading = options.parse_reading(SOURCE, is_stream=True)
        beginning = FlowBeginner(journal, unused, reading, self.open_sinks, "", False).begin()
        sinks = self.open_sinks(beginning.state.query, self.kept.number)
        for each in sinks.folders:
            each.clean()
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
        calls = task.calls = 100 * int(executor)  # so that no answer to an earlier task matches
        connections: list[Task] = []
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
                    connections.append(task)  # the driver does not hear that this one has ended
                    task = Task(server.port, "a", executor)
                    task.calls = calls + number - 1
                    task.send_commit(
                        number, (QUEUE, begin, end), folder=written.rows, dead=written.dead
                    )
                while (answer := task.hear()) and answer.call != calls + number:
                    pass  # an answer for the task before this one
                if answer is None:
                    wait_for(lambda: server.check(), lambda _: False, 60.0)
                assert answer.is_accepted
                begin = end
        finally:
            for each in (*connections, task):
                each.close()

    def write(self, sinks: SeparateSinks, session: str, number: int, numbers: range) -> Written:
        """Write the folders of a commit."""
        try:
            self.pass_step("while it writes")
        except DiedError:
            rows = sinks.folders[0]
            hidden = rows.name_hidden(session, number)
            rows.files.write(hidden, "part-0.json", lambda half: half.write(b'{"number":'))
            raise
        good = pa.RecordBatch.from_pydict({"number": [n for n in numbers if n % 5]})
        bad = pa.RecordBatch.from_pydict({"number": [n for n in numbers if not n % 5]})
        return sinks.open().write(Delivery(session, number, []), [good], [bad])

    def read(self, name: str) -> Counter[int]:
        """Count the numbers that readers of a sink see."""
        paths = [path for path in self.list_files(name) if HIDDEN not in path]
        lines = (line for path in paths for line in self._read(path).splitlines())
        return Counter(json.loads(line)["number"] for line in lines)

    def list_files(self, name: str) -> list[str]:
        """List the files in which a sink has rows, including hidden files."""
        selector = pyarrow.fs.FileSelector(f"{self.place.root}/{name}", recursive=True)
        found = self.place.system.get_file_info(selector)
        return [each.path for each in found if each.base_name.startswith("part-")]

    def _read(self, path: str) -> bytes:
        with self.place.system.open_input_stream(path) as file:
            return bytes(file.read())


def play(place: FilesPlace, step: str, commit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let drivers and tasks run until everything is committed, and check what readers see."""
    stage = FileStage(place, step, commit)
    monkeypatch.setattr(folders, "move", stage.see)
    # Sessions are so long that none ends, even on a slow machine.
    monkeypatch.setattr(serving, "TERMS", Terms(session=600.0))
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
    left = [path for name in ("rows", "dead") for path in stage.list_files(name)]
    assert [path for path in left if HIDDEN in path] == []
    assert has_died == (step in DRIVER_STEPS)


def write(folders: SinkFolders, number: int) -> str:
    """Write a hidden folder whose only row is a number; return its path."""
    folder = folders.name_hidden("session", number)
    folders.files.write(folder, "part-0.json", lambda file: file.write(b"%d" % number))
    return folder
