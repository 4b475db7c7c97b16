"""
The driver's side of a flow, over real connections: what tasks may do, and what faults do.

The journal is a fake, so that it can fail. The test itself sends the messages of a task.
"""

import contextlib
import logging
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from contract.following import GroupSource, MemberRequest, PopTerms, Terms
from mq_client.directory import Times
from mq_client.errors import NoBrokerError
from mq_client.values import MessageQueue
from sandbox.waiting import wait_for
from spark_jobs import journal as offsets
from spark_jobs.pipeline.assignments import JobAssignment
from spark_jobs.pipeline.checkpoint.journal import CheckpointState, JournalTakenError, Pending
from spark_jobs.pipeline.flow import serving, wire
from spark_jobs.pipeline.flow.beginning import FlowBeginning
from spark_jobs.pipeline.flow.serving import FlowServer, LossFoundError, LossRefusedError
from spark_jobs.pipeline.flow.sinks import folders
from spark_jobs.pipeline.flow.sinks.files import FileSink
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.separate import SeparateSinks
from spark_jobs.pipeline.flow.wire import Consequence
from tests.flows import SECRET, FakeJournal, Task

A, B, NEW = (MessageQueue("orders", "broker-a", number) for number in range(3))


class Scene:
    """A driver with two queues, and as many slots as the test has executors."""

    def __init__(self, folder: Path, pops: PopTerms | None = None) -> None:
        self.journal = FakeJournal()
        self.commits: list[wire.CommitFigures] = []
        self.begins: Callable[[Mapping[MessageQueue, int]], Mapping[MessageQueue, int]] = dict
        state = CheckpointState(
            "q", "billing", 0, -1, offsets.write_offsets({A: 10, B: 20}), skip="May"
        )
        beginning = FlowBeginning(state, lost_below={A: 15})
        journal: Any = self.journal
        self.server = FlowServer(
            beginning, journal,
            SeparateSinks(*(FileSink(SinkFolders(str(folder / name), "q", 1), "json")
                            for name in ("", "dead"))),
            GroupSource("billing", [], messages=pops), lambda known: self.begins(known), SECRET,
            self.commits.append,
        )  # fmt: skip
        self.server.start("127.0.0.1", 0)
        self.epoch = 0
        self.tasks: list[Task] = []

    def publish(self, owners: Mapping[MessageQueue, str], **executors: str) -> None:
        """Publish an assignment, with the executor of each slot."""
        self.epoch += 1
        slots = tuple(sorted(set(owners.values()) | executors.keys()))
        self.server.publish(JobAssignment(self.epoch, slots, owners), executors)

    def task(self, slot: str, executor: str = "1", secret: str = SECRET) -> Task:
        found = Task(self.server.port, slot, executor, secret)
        self.tasks.append(found)
        return found

    def close(self) -> None:
        for task in self.tasks:
            task.close()
        self.server.close()

    def begin(self) -> Task:
        """Publish one slot with both queues, and let its task hold them."""
        self.publish({A: "a", B: "a"}, a="1")
        task = self.task("a")
        assert task.ask() == {A, B}
        assert task.ask(A, B) == {A, B}
        return task

    def begin_two(self) -> tuple[Task, Task]:
        """Let two slots hold a queue each. The first one holds both until the second one asks."""
        self.publish({A: "a", B: "b"}, a="1", b="2")
        first, second = self.task("a", "1"), self.task("b", "2")
        assert first.ask() == {A, B}
        assert second.ask() == set()
        assert first.ask(A, B) == {A}
        assert first.ask(A) == {A}
        assert second.ask() == {B}
        return first, second


@pytest.fixture
def scene(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    """Sessions are so long that none ends on a slow machine, unless a test sets their length."""
    monkeypatch.setattr(serving, "TERMS", Terms(session=getattr(request, "param", 600.0)))
    found = Scene(tmp_path)
    yield found
    found.close()


def test_a_commit_is_in_the_journal_before_the_task_knows(scene: Scene, tmp_path: Path) -> None:
    task = scene.begin()
    written = tmp_path / "query=q/_writing/1/one"
    written.mkdir(parents=True)
    assert task.commit(1, (A, 10, 15), folder=str(written)) == wire.Settled(1, is_accepted=True)
    (entry,) = scene.journal.entries
    assert offsets.read_offsets(entry.offsets) == {A: 15, B: 20}
    assert (entry.batch, [each.written for each in entry.pending]) == (0, [str(written)])
    assert (tmp_path / "query=q/batch=0").is_dir()
    assert scene.server.ends == {A: 15, B: 20}


def test_tasks_that_pop_hold_no_queues_and_commit_as_long_as_their_session_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "TERMS", Terms(session=600.0))
    with contextlib.closing(Scene(tmp_path, PopTerms(["orders"], 60.0, 32, 16, 10.0))) as scene:
        scene.publish({}, a="1", b="2")
        task, other = scene.task("a", "1"), scene.task("b", "2")
        assert (task.ask(), other.ask()) == (set(), set())
        assert wait_for(lambda: scene.server.adopted_epoch, bool) == 1
        for each in (task, other):
            each.say(wire.TaskTrouble(NEW, 5, f"{each.slot} waits", Consequence.QUEUE_WAITS))
        assert wait_for(lambda: scene.server.trouble, lambda it: "1 more" in (it or ""))
        assert other.commit(1) == wire.Settled(1, is_accepted=True)
        assert wait_for(lambda: scene.server.trouble, lambda it: it == "a waits") == "a waits"
        assert task.commit(1) == wire.Settled(1, is_accepted=True)
        assert wait_for(lambda: scene.server.trouble, lambda it: it is None) is None
        task.session = "an earlier session"
        assert task.commit(1) == wire.Settled(2, is_accepted=False)


def test_a_folder_that_was_moved_is_not_missed_while_the_next_one_cannot_be_moved(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader moves the rows away as soon as they are in their place."""
    move, failures = folders.move, [OSError("full")]

    def move_or_fail(pending: Pending, known: Sequence[SinkFolders]) -> None:
        if "dead" in pending.place and failures:
            shutil.rmtree(tmp_path / "query=q/batch=0")
            raise failures.pop()
        move(pending, known)

    monkeypatch.setattr(folders, "move", move_or_fail)
    monkeypatch.setattr(serving, "PATIENCE", Times(first_pause=0.01))
    task = scene.begin()
    written, dead = tmp_path / "query=q/_writing/1/one", tmp_path / "dead/query=q/_writing/1/one"
    for each in (written, dead):
        each.mkdir(parents=True)
    found = task.commit(1, (A, 10, 15), folder=str(written), dead=str(dead))
    assert found == wire.Settled(1, is_accepted=True)
    assert len(scene.journal.entries) == 1
    assert (tmp_path / "dead/query=q/batch=0").is_dir()


def test_metrics_learn_of_a_commit_once_it_is_in_the_journal(scene: Scene) -> None:
    task = scene.begin()
    scene.journal.gate.clear()
    task.send_commit(1, (A, 10, 12))
    assert scene.commits == []
    scene.journal.gate.set()
    assert task.hear().is_accepted
    [figures] = scene.commits
    assert (figures.delay, figures.bytes) == (0.5, 10)
    assert figures.age > 1.0, "the journal takes time too"


def test_rows_and_dead_letters_of_a_commit_have_the_same_number(
    scene: Scene, tmp_path: Path
) -> None:
    task = scene.begin()
    written, dead = tmp_path / "query=q/_writing/1/one", tmp_path / "dead/query=q/_writing/1/one"
    written.mkdir(parents=True)
    dead.mkdir(parents=True)
    assert task.commit(1, (A, 10, 12)).is_accepted, "nothing to see, so it has no number"
    assert task.commit(2, (A, 12, 15), folder=str(written), dead=str(dead)).is_accepted
    assert (tmp_path / "query=q/batch=0").is_dir()
    assert (tmp_path / "dead/query=q/batch=0").is_dir()


def test_who_does_not_know_the_secret_learns_nothing(scene: Scene) -> None:
    scene.publish({A: "a", B: "a"}, a="1")
    assert scene.task("a", secret="guessed").hear() is None  # only the right secret gets an answer
    stranger = scene.task("a", secret="")
    assert stranger.hear() is None


@pytest.mark.parametrize("line", [b"\xff\n", b"{}\n", b"[" * 5000 + b"\n", b"no end of a line"])
def test_nonsense_ends_its_own_connection_only(scene: Scene, line: bytes) -> None:
    task = scene.begin()
    with socket.create_connection(("127.0.0.1", scene.server.port), timeout=60) as other:
        other.sendall(line)
        other.shutdown(socket.SHUT_WR)
        assert other.recv(1) == b""
    assert task.ask(A, B) == {A, B}


def test_a_task_on_another_executor_is_told_to_stop(scene: Scene) -> None:
    scene.publish({A: "a", B: "a"}, a="2")
    assert scene.task("a", executor="1").hear() == wire.Stop()
    assert scene.task("a", executor="2").ask() == {A, B}


def test_a_task_whose_executor_is_replaced_is_told_to_stop(scene: Scene) -> None:
    task = scene.begin()
    scene.publish({A: "a", B: "a"}, a="2")
    assert task.hear() == wire.Stop()


def test_an_answer_that_was_lost_is_given_again_and_nothing_counts_twice(scene: Scene) -> None:
    task = scene.begin()
    assert task.commit(1, (A, 10, 15)).is_accepted
    assert task.commit(1, (A, 10, 15)).is_accepted
    assert len(scene.journal.entries) == 1
    assert scene.server.tally.offsets == 5


def test_a_commit_that_comes_again_while_it_is_written_waits_for_the_journal(
    scene: Scene,
) -> None:
    task = scene.begin()
    scene.journal.gate.clear()
    task.send_commit(1, (A, 10, 15))
    task.send_commit(1, (A, 10, 15))
    assert task.ask(A, B) == {A, B}, "the driver has heard both"
    assert scene.journal.entries == []
    scene.journal.gate.set()
    assert task.hear() == wire.Settled(2, is_accepted=True)
    assert len(scene.journal.entries) == 1


def test_a_second_commit_before_the_first_is_answered_is_refused(scene: Scene) -> None:
    task = scene.begin()
    scene.journal.gate.clear()
    task.send_commit(1, (A, 10, 15))
    assert task.commit(2, (A, 15, 16)) == wire.Settled(2, is_accepted=False)
    scene.journal.gate.set()
    assert task.hear() == wire.Settled(1, is_accepted=True)


def test_what_an_older_connection_still_says_is_not_heard(scene: Scene) -> None:
    older = scene.begin()
    peer = scene.server._peers["a"]
    late = wire.TaskAsk(MemberRequest(older.session, 99, 0, [], 0.0))
    newer = scene.task("a")
    newer.session = "a newer one"
    assert newer.ask() == {A, B}
    scene.server._loop.call_soon_threadsafe(scene.server._hear, peer, late)
    assert newer.ask(A, B) == {A, B}


def test_a_task_that_connects_again_before_its_old_connection_ends_goes_on(scene: Scene) -> None:
    task = scene.begin()
    again = scene.task("a")
    again.number, again.revision = task.number, task.revision
    assert again.ask(A, B) == {A, B}
    assert again.commit(1, (A, 10, 15)).is_accepted


def test_queues_of_a_task_whose_connection_has_ended_go_to_others_at_once(scene: Scene) -> None:
    first, second = scene.begin_two()
    first.close()
    assert wait_for(lambda: second.ask(B), lambda it: it == {A, B}) == {A, B}
    assert scene.server.given_up == 1


@pytest.mark.parametrize("scene", [5.0], indirect=True)
def test_a_silent_task_is_given_up_and_its_late_commit_is_refused(scene: Scene) -> None:
    silent, other = scene.begin_two()
    assert wait_for(lambda: other.ask(B), lambda it: it == {A, B}) == {A, B}
    assert silent.commit(1, (A, 10, 15)) == wire.Settled(1, is_accepted=False)
    assert other.commit(1, (A, 10, 12)).is_accepted
    assert (scene.server.given_up, scene.server.refused) == (1, 1)
    assert scene.server.ends == {A: 12, B: 20}


def test_a_session_may_end_while_another_task_asks(scene: Scene) -> None:
    """Every call of the coordinator first ends overdue sessions, so any call can end a session."""
    first, second = scene.begin_two()
    later = time.monotonic() + 1000
    scene.server._loop.call_soon_threadsafe(scene.server._group.tick, later)
    answer = second.ask(B)
    assert (type(answer), answer.refusal.reason) == (wire.AskRefused, "SessionOver")
    assert first.commit(1, (A, 10, 15)) == wire.Settled(1, is_accepted=False)
    assert second.commit(1, (B, 20, 25)) == wire.Settled(1, is_accepted=False)
    assert scene.server.given_up == 2


def test_a_commit_that_was_accepted_counts_though_its_session_ends_before_the_journal(
    scene: Scene,
) -> None:
    """Otherwise the task would delete a folder that the driver is about to move."""
    task = scene.begin()
    scene.journal.gate.clear()
    task.send_commit(1, (A, 10, 15))
    later = time.monotonic() + 1000
    wait_for(lambda: scene.server._unsettled, bool)
    scene.server._loop.call_soon_threadsafe(scene.server._group.tick, later)
    task.send_commit(1, (A, 10, 15))
    task.send_commit(2, (A, 15, 16))
    assert task.hear() == wire.Settled(3, is_accepted=False), "the next one has no session"
    scene.journal.gate.set()
    assert task.hear() == wire.Settled(2, is_accepted=True)
    assert offsets.read_offsets(scene.journal.entries[-1].offsets) == {A: 15, B: 20}


def test_a_new_queue_whose_broker_is_away_holds_up_no_known_one(scene: Scene) -> None:
    def find(known: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        raise NoBrokerError("away")

    scene.begins = find
    task = scene.begin()
    task.say(wire.TaskLocate(7, NEW))
    task.say(wire.TaskLocate(8, A))
    assert task.hear() == wire.Located(8, 10, 15)


def test_a_newer_task_of_a_slot_takes_over_from_an_older_one(scene: Scene) -> None:
    older = scene.begin()
    newer = scene.task("a")
    newer.session = "a newer one"
    assert newer.ask() == {A, B}
    assert older.hear() is None
    assert newer.commit(1, (A, 10, 15)).is_accepted


def test_commits_wait_for_a_journal_that_fails_and_the_report_says_so(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "PATIENCE", Times(first_pause=0.0))
    task = scene.begin()
    scene.journal.failures = [OSError("the disk is full")]
    assert task.commit(1, (A, 10, 15)).is_accepted
    assert len(scene.journal.entries) == 1
    assert scene.server.trouble is None


def test_a_journal_that_another_driver_writes_ends_this_one(scene: Scene) -> None:
    task = scene.begin()
    scene.journal.failures = [JournalTakenError("taken")]
    task.send_commit(1, (A, 10, 15))

    def failure() -> Exception | None:
        try:
            scene.server.check()
        except JournalTakenError as error:
            return error
        return None

    assert str(wait_for(failure, lambda it: it is not None)) == "taken"


def test_a_queue_that_stands_still_is_named_until_it_is_past_that_message(scene: Scene) -> None:
    task = scene.begin()
    task.say(wire.TaskTrouble(A, 12, "orders offset 12: bad", Consequence.QUEUE_WAITS))
    assert task.commit(1, (A, 10, 12), (B, 20, 21)).is_accepted
    assert scene.server.trouble == "orders offset 12: bad"
    assert task.commit(2, (A, 12, 13)).is_accepted
    assert scene.server.trouble is None


@pytest.mark.parametrize(
    ("consequence", "error", "advice"),
    [
        (Consequence.JOB_ENDS, LossRefusedError, "; to skip them once, give a new value to skip"),
        (Consequence.JOB_STARTS_AGAIN, LossFoundError, ""),
    ],
)
def test_lost_messages_end_the_driver(
    scene: Scene, consequence: Consequence, error: type[Exception], advice: str
) -> None:
    task = scene.begin()
    task.say(wire.TaskTrouble(A, 12, "messages are lost", consequence))
    assert task.ask(A, B) == {A, B}
    with pytest.raises(error, match=f"messages are lost{advice}"):
        scene.server.check()


def test_a_task_learns_which_lost_messages_it_may_skip(scene: Scene) -> None:
    task = scene.begin()
    for call, (queue, offset, lost_below) in enumerate([(A, 10, 15), (B, 20, 0)]):
        task.say(wire.TaskLocate(call, queue))
        assert task.hear() == wire.Located(call, offset, lost_below)


def test_each_entry_keeps_what_only_the_beginning_sets(scene: Scene) -> None:
    task = scene.begin()
    assert task.commit(1, (A, 10, 12)).is_accepted
    written = scene.journal.entries[-1]
    assert (written.query, written.group, written.skip) == ("q", "billing", "May")


def test_a_new_queue_is_located_once_a_broker_says_where_it_begins(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "LOCATE_AGAIN_SECONDS", 0.0)
    answers: list[Any] = [NoBrokerError("down"), {}, {NEW: 7}]

    def find(known: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return dict(found)

    scene.begins = find
    task = scene.begin()
    task.say(wire.TaskLocate(1, NEW))
    assert task.hear() == wire.Located(1, 7)
    assert answers == []


def test_the_epoch_is_adopted_when_every_queue_is_where_it_belongs(scene: Scene) -> None:
    first, second = scene.begin_two()
    assert scene.server.adopted_epoch == 1
    scene.publish({A: "a", B: "a"}, a="1", b="2")
    assert wait_for(lambda: second.ask(B), lambda it: it == set()) == set()
    assert scene.server.adopted_epoch == 1, "the task may still hold the queue"
    assert second.ask() == set()
    assert first.ask(A) == {A, B}
    assert scene.server.adopted_epoch == 2


def test_a_driver_ends_its_connections_without_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(tmp_path)
    task = scene.begin()
    scene.server.close()
    assert task.hear() is None
    task.close()
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


def test_a_driver_that_ends_in_order_leaves_no_folders_in_the_journal(tmp_path: Path) -> None:
    """The next job may have another sink, which cannot reach these folders."""
    scene = Scene(tmp_path)
    task = scene.begin()
    written = tmp_path / "query=q/_writing/1/one"
    written.mkdir(parents=True)
    task.commit(1, (A, 10, 15), folder=str(written))
    task.close()
    scene.server.close()
    assert [len(each.pending) for each in scene.journal.entries] == [1, 0]
    assert scene.journal.entries[-1].offsets == scene.journal.entries[0].offsets
