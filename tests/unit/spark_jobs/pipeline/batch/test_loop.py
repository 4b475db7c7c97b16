"""What the loop of batches writes down, runs again, and gives up."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from contract import exit_codes
from mq_client import filters
from mq_client.errors import NoBrokerError, UsageError
from spark_jobs import journal
from spark_jobs.journal import Entry
from spark_jobs.pipeline.batch.loop import BatchLoop
from spark_jobs.pipeline.checkpoint import plans
from spark_jobs.pipeline.checkpoint.journal import (
    CheckpointState,
    JobJournal,
    JournalTakenError,
)
from spark_jobs.pipeline.checkpoint.plans import BatchPlan
from spark_jobs.pipeline.checkpoint.stores import LocalStore
from spark_jobs.pipeline.failures import UsersPartError
from spark_jobs.pipeline.retries import BatchRetries
from spark_jobs.planning import Range
from tests.flows import DiedError, FakeJournal
from tests.pinned_jobs import A, make_state


class FakePlanner:
    """Plans batches to these ends, one after the other; `None` is an epoch without messages."""

    def __init__(self, ends: Iterable[int | Exception | None]) -> None:
        self.left = list(ends)

    def plan(self, state: CheckpointState) -> CheckpointState:
        if not self.left:
            return state
        found = self.left.pop(0)
        if isinstance(found, Exception):
            raise found
        here = journal.read_offsets(state.offsets)
        end = Entry(here if found is None else {A: found}, filters.EVERYTHING)
        return plans.plan(state, end, state.epoch + 1, state.skip)


class FakeSink:
    """Replaces what a batch wrote before, as files do."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.rows: dict[int, Range] = {}
        self.runs: list[int] = []
        self.committed: list[int] = []

    def run(self, plan: BatchPlan) -> None:
        self.runs.append(plan.planned.number)
        (self.rows[plan.planned.number],) = plan.ranges
        if self.failures:
            raise self.failures.pop(0)

    def note_commit(self, plan: BatchPlan) -> None:
        self.committed.append(plan.planned.number)

    def note_failure(self) -> None:
        pass


class Hurried(threading.Event):
    """Does not wait, and is set after so many waits."""

    def __init__(self, waits: int = 100) -> None:
        super().__init__()
        self.waits = waits

    def wait(self, timeout: float | None = None) -> bool:
        self.waits -= 1
        if self.waits <= 0:
            self.set()
        return self.is_set()


def make_loop(
    entries: Any, planner: FakePlanner, sink: FakeSink, state: CheckpointState | None = None
) -> BatchLoop:
    begun = state or make_state({A: 0}, batch=-1)
    planned: Any = planner
    batches: Any = sink
    return BatchLoop(begun, entries, planned, batches, BatchRetries(), 0.0, is_scheduled=True)


def test_a_batch_is_in_the_journal_before_it_runs_and_after() -> None:
    entries, sink = FakeJournal(), FakeSink()
    loop = make_loop(entries, FakePlanner([7, 9]), sink)
    assert loop.run(Hurried()) == exit_codes.DONE
    assert [(bool(each.planned), each.batch) for each in entries.entries] == [
        (True, -1), (False, 0), (True, 0), (False, 1),
    ]  # fmt: skip
    assert sink.rows == {0: Range(A, 0, 7), 1: Range(A, 7, 9)}
    assert (loop.ends, loop.state.epoch, sink.committed) == ({A: 9}, 3, [0, 1])


def test_an_epoch_without_messages_is_only_written_down() -> None:
    entries, sink = FakeJournal(), FakeSink()
    loop = make_loop(entries, FakePlanner([None]), sink)
    assert loop.run(Hurried()) == exit_codes.DONE
    assert [each.epoch for each in entries.entries] == [2]
    assert (sink.runs, sink.committed, loop.state.batch) == ([], [], -1)


def test_a_batch_that_failed_runs_again_as_it_was_planned() -> None:
    sink = FakeSink(NoBrokerError("down"), NoBrokerError("down"))
    loop = make_loop(FakeJournal(), FakePlanner([7, 9]), sink)
    assert loop.run(Hurried()) == exit_codes.DONE
    assert sink.runs == [0, 0, 0, 1]
    assert sink.rows == {0: Range(A, 0, 7), 1: Range(A, 7, 9)}


def test_rows_are_not_written_again_because_the_journal_is_away() -> None:
    entries, sink = FakeJournal(), FakeSink()
    loop = make_loop(entries, FakePlanner([7]), sink)
    run = sink.run

    def fail_later(plan: BatchPlan) -> None:
        run(plan)
        entries.failures = [OSError("no space"), OSError("no space")]

    sink.run = fail_later  # type: ignore[method-assign]
    assert loop.run(Hurried()) == exit_codes.DONE
    assert (sink.runs, loop.ends) == ([0], {A: 7})


def test_the_report_forgets_a_failure_of_the_journal_when_the_entry_is_written() -> None:
    entries, sink = FakeJournal(), FakeSink()
    entries.failures = [OSError("no space")]
    loop, seen = make_loop(entries, FakePlanner([7]), sink), list[str | None]()
    run = sink.run

    def look(plan: BatchPlan) -> None:
        seen.append(loop._retries.error)
        run(plan)

    sink.run = look  # type: ignore[method-assign]
    assert loop.run(Hurried()) == exit_codes.DONE
    assert seen == [None]


def test_a_driver_that_must_end_does_not_wait_for_the_journal() -> None:
    entries, sink = FakeJournal(), FakeSink()
    entries.failures = [OSError("no space") for _ in range(50)]
    loop = make_loop(entries, FakePlanner([7]), sink)
    assert loop.run(Hurried(20)) == exit_codes.TRY_AGAIN
    assert (sink.runs, loop.ends) == ([], {A: 0})


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (lambda: UsersPartError("users.py: no"), exit_codes.PERMANENT),
        (lambda: SystemExit(0), exit_codes.PERMANENT),
        (lambda: ZeroDivisionError("always"), exit_codes.PERMANENT),
        (lambda: NoBrokerError("down"), exit_codes.TRY_AGAIN),
    ],
    ids=["of the user", "that would end the process", "three times", "until it is stopped"],
)
def test_a_batch_that_always_fails_ends_the_job(
    failure: Callable[[], BaseException], code: int
) -> None:
    sink = FakeSink(*(failure() for _ in range(50)))
    loop = make_loop(FakeJournal(), FakePlanner([7]), sink)
    assert loop.run(Hurried(20)) == code
    assert loop.ends == {A: 0}


def test_planning_that_fails_is_tried_again_unless_the_user_must_change_something() -> None:
    planner = FakePlanner([*[NoBrokerError("down")] * 5, 7, UsageError("topics: none")])
    sink = FakeSink()
    loop = make_loop(FakeJournal(), planner, sink)
    assert loop.run(Hurried()) == exit_codes.PERMANENT
    assert (sink.committed, loop.ends) == ([0], {A: 7})


def test_a_driver_that_is_not_the_only_one_ends_before_it_writes() -> None:
    entries, sink = FakeJournal(), FakeSink()
    entries.failures = [JournalTakenError("not ours")]
    assert make_loop(entries, FakePlanner([7]), sink).run(Hurried()) == exit_codes.TRY_AGAIN
    assert sink.runs == []


STEPS = ("plan", "planned", "half", "written", "committed")


@pytest.mark.parametrize("number", range(20))
def test_a_driver_that_dies_at_any_step_leaves_what_the_next_one_needs(
    tmp_path: Path, number: int
) -> None:
    """Each of 20 drivers reads one range, and dies at one step or the other."""
    store, rows, tops = LocalStore(tmp_path), dict[int, Range](), list(range(10, 210, 10))
    JobJournal(store).append(make_state({A: 0}, batch=-1))
    deaths = 0
    for turn in range(60):
        step = STEPS[(turn * 7 + number) % len(STEPS)]
        entries = JobJournal(store)
        state = entries.read_newest()
        assert state is not None
        here = journal.read_offsets(state.offsets)[A]
        sink = FakeSink(*([DiedError()] if step == "half" else []))
        sink.rows = rows
        loop = make_loop(entries, FakePlanner([top for top in tops if top > here][:1]), sink, state)
        kill_at(step, loop, entries, sink)
        try:
            loop.run(Hurried())
        except DiedError:
            deaths += 1
    assert deaths > 20
    read = sorted((each.start, each.stop) for each in rows.values())
    assert read == [(top - 10, top) for top in tops]


def kill_at(step: str, loop: BatchLoop, entries: JobJournal, sink: FakeSink) -> None:
    append, run, planner = entries.append, sink.run, loop._planner
    plan = planner.plan

    def die_before_or_after(state: CheckpointState) -> None:
        append(state)
        if step == ("planned" if state.planned else "committed"):
            raise DiedError

    def die_after(found: BatchPlan) -> None:
        run(found)
        if step == "written":
            raise DiedError

    def die_at_plan(state: CheckpointState) -> CheckpointState:
        found = plan(state)
        if step == "plan" and found != state:
            raise DiedError
        return found

    entries.append = die_before_or_after  # type: ignore[method-assign]
    sink.run = die_after  # type: ignore[method-assign,assignment]
    planner.plan = die_at_plan  # type: ignore[method-assign]
