"""A batch counts only after Spark has committed it."""

from types import SimpleNamespace

from mq_client import filters
from mq_client.values import MessageQueue
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.plan_source import BatchPlan
from spark_jobs.pipeline.progress import CommittedProgress
from tests.pinned_jobs import A


def plan(epoch: int, end: int, skip_before: str = "", skip: str = "") -> BatchPlan:
    return BatchPlan(epoch, [], filters.EVERYTHING, {A: end}, 0.0, skip_before, skip, [])


def progress(skip: str = "", *gaps: tuple[str, str, int, int, int]) -> CommittedProgress:
    tally = SimpleNamespace(value=Tally(gaps=list(gaps)))
    return CommittedProgress(skip, tally)  # type: ignore[arg-type]  # only `value` is used


def state(of: CommittedProgress) -> tuple[dict[MessageQueue, int], int, int]:
    return of.ends, of.adopted_epoch, of.batch


def test_a_written_batch_counts_when_it_is_committed() -> None:
    found = progress()
    found.note_written(0, plan(1, 5))
    assert (state(found), found.is_settled) == (({}, 0, -1), False)
    assert not found.commit_through(-1)
    assert found.commit_through(0)
    assert (state(found), found.is_settled) == (({A: 5}, 1, 0), True)


def test_the_newest_of_several_committed_batches_counts() -> None:
    found = progress()
    for number in range(3):
        found.note_written(number, plan(number, number * 10))
    assert found.commit_through(1)
    assert (state(found), found.is_settled) == (({A: 10}, 1, 1), False)


def test_a_batch_that_was_not_committed_is_forgotten_before_the_next_query() -> None:
    found = progress()
    found.note_written(0, plan(1, 5))
    found.forget_written()
    assert not found.commit_through(0)
    assert state(found) == ({}, 0, -1)


def test_a_driver_resumes_where_the_checkpoint_stands() -> None:
    found = progress()
    found.resume_from({A: 7}, 4)
    assert state(found) == ({A: 7}, 4, -1)


def test_what_was_skipped_is_reported_once_its_batch_is_committed() -> None:
    found = progress("monday", (*A, 2, 6))
    found.note_written(0, plan(1, 9, "", "monday"))
    assert found.skipped is None
    found.commit_through(0)
    assert found.skipped is not None
    assert (found.skipped.value, found.skipped.messages) == ("monday", 4)


def test_a_batch_that_was_planned_before_the_request_may_skip_and_does_not_use_it_up() -> None:
    found = progress("monday")
    before = plan(1, 9)
    assert found.may_skip(before)
    found.note_written(0, before)
    found.commit_through(0)
    assert found.skipped is None
