"""With what a job begins: its journal, Spark's logs of a release before, or nothing."""

import threading
from pathlib import Path
from typing import Any

import pytest

from mq_client.errors import NoBrokerError, NotPermittedError, UsageError
from mq_client.values import MessageQueue
from spark_jobs import journal as offsets
from spark_jobs.pipeline.batch import engine as batch_engine
from spark_jobs.pipeline.checkpoint import opening, sparks_logs
from spark_jobs.pipeline.checkpoint.journal import CheckpointState, Pending, PlannedBatch
from spark_jobs.pipeline.checkpoint.opening import CheckpointOpener
from spark_jobs.planning import Range
from tests.flows import FakeJournal, write_sparks_logs
from tests.pinned_jobs import A, B, commit, make_begins, make_state, read_plan

OTHER = MessageQueue("bills", "broker-a", 0)


def open_checkpoint(journal: FakeJournal) -> CheckpointState:
    entries: Any = journal
    begins = make_begins("earliest", {})
    return CheckpointOpener(entries, begins.find_all, "g", batch_engine._settle).open()


def test_a_new_job_begins_where_the_brokers_say_and_writes_it_down() -> None:
    journal = FakeJournal()
    found = open_checkpoint(journal)
    assert journal.entries == [found]
    assert offsets.read_offsets(found.offsets) == {A: 2, B: 3}


def test_the_planned_batch_of_a_driver_that_died_stays_planned() -> None:
    state = make_state({A: 3}, planned=[PlannedBatch(5, 1, "", {}, [])])
    journal = FakeJournal([state])
    assert open_checkpoint(journal) == state
    assert journal.entries == [state, state], "the driver has taken the journal"


def test_sparks_logs_are_taken_over_with_the_batch_that_was_planned() -> None:
    aside = {"aside": offsets.write_offsets({OTHER: 2}), "skip": "May"}
    journal = FakeJournal(files=write_sparks_logs("g", {A: 2, B: 20}, {A: 7, B: 20}, **aside))
    state = open_checkpoint(journal)
    assert (state.epoch, state.batch, state.skip) == (4, 4, "May")
    plan = read_plan(state)
    assert (plan.query, plan.planned.number, plan.ranges) == ("q", 5, [Range(A, 2, 7)])
    assert commit(state) == make_state({A: 7, B: 20}, {OTHER: 2}, epoch=4, batch=5, skip="May")
    assert all(name.startswith("taken-over/") for name in journal.files)
    assert open_checkpoint(journal) == state, "only once"


def test_without_a_planned_batch_the_next_number_is_never_used() -> None:
    """A driver that was frozen may still replace the folder with this number."""
    state = open_checkpoint(FakeJournal(files=write_sparks_logs("g", {A: 2, B: 20})))
    assert state == make_state({A: 2, B: 20}, epoch=4, batch=5)


def test_the_first_batch_has_no_rows_so_it_need_not_be_committed() -> None:
    files = write_sparks_logs("g", {A: 10})
    files = {"metadata": files["metadata"], "offsets/0": files["offsets/4"]}
    assert open_checkpoint(FakeJournal(files=files)) == make_state({A: 10}, epoch=4, batch=1)


def test_an_empty_folder_of_spark_is_no_checkpoint() -> None:
    found: Any = FakeJournal(files={"metadata": '{"id":"q"}'})
    assert sparks_logs.read(found) is None


def test_logs_that_a_driver_had_no_time_to_put_aside_are_put_aside_by_the_next_one() -> None:
    journal = FakeJournal([make_state({A: 10})], write_sparks_logs("g", {A: 5}))
    assert open_checkpoint(journal) == make_state({A: 10})
    assert all(name.startswith("taken-over/") for name in journal.files)


def test_files_that_a_flow_has_left_are_moved_first(tmp_path: Path) -> None:
    (tmp_path / "_writing").mkdir()
    moved = Pending(str(tmp_path / "_writing"), str(tmp_path / "batch=4"))
    assert open_checkpoint(FakeJournal([make_state({A: 3}, pending=[moved])])).pending == []
    assert (tmp_path / "batch=4").exists()


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (write_sparks_logs("other", {A: 1}), "belongs to the group 'other', not to 'g'"),
        ({**write_sparks_logs("g", {A: 1}), "offsets/4": "v1\n{}"}, r"offsets/4 .* 2 lines"),
        (
            {**write_sparks_logs("g", {A: 1}, {A: 2}), "offsets/5": "v1\n{}\n{"},
            "offsets/5 was not written",
        ),
        ({**write_sparks_logs("g", {A: 1}), "metadata": ""}, "metadata was not written by a job"),
        (
            {
                **write_sparks_logs("g", {A: 1}),
                "offsets/4": 'v1\n{}\n{"group": "g", "epoch": 1, "offsets": 5}',
            },
            "offsets/4 was not written by a job",
        ),
        ({"offsets/0": 'v1\n{}\n{"offsets": {}}'}, "offsets/0 was not written by a job"),
        (
            {"commits/4": "v1\n{}", "offsets/3": "", "metadata": '{"id":"q"}'},
            "offsets/4 was not written by a job",
        ),
        (
            {"offsets/0": write_sparks_logs("g", {A: 1})["offsets/4"]},
            "metadata was not written by a job",
        ),
    ],
)
def test_a_checkpoint_that_cannot_be_taken_over_is_left_as_it_is(
    files: dict[str, str], named: str
) -> None:
    journal = FakeJournal(files=files)
    with pytest.raises(UsageError, match=rf"{named}.*choose another checkpoint"):
        open_checkpoint(journal)
    assert (journal.entries, journal.files) == ([], files)


class FakeAssignments:
    def __init__(self) -> None:
        self.errors: list[str | None] = []

    def report(self, report: Any) -> None:
        self.errors.append(report.error)


def test_a_beginning_waits_for_brokers_and_not_for_what_the_user_must_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures: list[Exception] = [
        NoBrokerError("down"),
        NotPermittedError("Pull", "b", 1, "wrong key"),
    ]
    assignments: Any = FakeAssignments()
    stop = threading.Event()
    monkeypatch.setattr(stop, "wait", lambda _: False)

    def begin() -> None:
        raise failures.pop(0)

    with pytest.raises(UsageError, match=r"NotPermittedError: .*wrong key"):
        opening.begin_patiently(begin, assignments, stop)
    assert assignments.errors == ["NoBrokerError: down"]
