"""A job skips lost messages once for each request."""

import msgspec
import pytest

from contract.report import SkipReport
from mq_client.values import MessageQueue
from spark_jobs import planning
from spark_jobs.pipeline.checkpoint.journal import CheckpointState
from spark_jobs.pipeline.checkpoint.plans import BatchPlan
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.skipping import MOST_NAMED, Skipped
from spark_jobs.planning import DataLossError, Range
from tests.pinned_jobs import A, B, commit, make_begins, make_state, plan_batch, read_plan

GONE = {A: 0, B: 1}
"""Committed offsets that are deleted: the brokers' first offsets are 2 and 3."""


def plan(state: CheckpointState, skip: str) -> BatchPlan:
    return read_plan(plan_batch(state, make_begins("earliest", {}), skip))


def test_the_first_batch_that_is_asked_goes_on_and_its_commit_says_so() -> None:
    begins = make_begins("earliest", {})
    with pytest.raises(DataLossError, match="offsets 0 to 1 are deleted"):
        plan_batch(make_state(GONE), begins)
    state = plan_batch(make_state(GONE), begins, "monday")
    planned = read_plan(state)
    assert planned.ranges == [Range(A, 0, 10), Range(B, 1, 20)]
    assert planned.may_skip("monday")
    assert planned.uses_up("monday")
    assert (state.skip, commit(state).skip) == ("", "monday")


@pytest.mark.parametrize("skip", ["monday", ""], ids=["same", "removed"])
def test_a_batch_behind_one_that_was_asked_passes_over_nothing(skip: str) -> None:
    """A used request skips nothing more, after a restart or after the annotation is removed."""
    begins = make_begins("earliest", {})
    with pytest.raises(DataLossError):
        plan_batch(make_state(GONE, skip="monday"), begins, skip)
    later = plan_batch(make_state({A: 8, B: 20}, skip="monday"), begins, skip)
    assert commit(later).skip == "monday", "otherwise it would count as new later"
    assert plan(make_state(GONE, skip="monday"), "tuesday").may_skip("tuesday")


def test_a_batch_that_was_planned_before_may_pass_over_losses_when_it_runs_again() -> None:
    """The batch does not use up the request, because later messages may be lost as well."""
    before = plan(make_state({A: 3, B: 20}, skip="sunday"), "sunday")
    assert before.may_skip("monday")
    assert not before.uses_up("monday")


def test_queues_that_are_left_or_set_back_are_told_from_the_journal_alone() -> None:
    gone = MessageQueue("orders", "broker-a", 9)
    planned = plan(make_state({A: 50, B: 20, gone: 4}), "monday")
    assert planned.planned.turned_back == [
        f"{A}: it ends at 10, but was read up to 50: the topic was recreated, or the broker lost "
        "messages",
        f"{gone}: the topic no longer has this queue, which was read up to 4",
    ]
    assert planned.ranges == []


def test_what_tasks_tell_twice_counts_once() -> None:
    rows = [(*A, 5, 9), (*B, 0, 2), (*A, 0, 5), (*A, 6, 12), (*A, 20, 21), (*B, 0, 2)]
    found = Tally(gaps=rows).lost
    assert found == [Range(A, 0, 12), Range(A, 20, 21), Range(B, 0, 2)]


def test_a_report_says_what_was_passed_over_queue_by_queue() -> None:
    lost = list(map(str, planning.find_turned_back({B: 4}, {})))
    assert msgspec.to_builtins(Skipped("monday", [Range(A, 2, 41)], lost).report()) == {
        "value": "monday",
        "messages": 39,
        "lost": f"{A}: 39 messages, offsets 2 to 40; "
        f"{B}: the topic no longer has this queue, which was read up to 4",
    }
    assert Skipped("monday", [], []).report() == SkipReport("monday", 0, "")


def test_a_report_of_many_queues_stays_short() -> None:
    many = [Range(MessageQueue("orders", "broker-a", number), 0, 2) for number in range(1000)]
    report = Skipped("monday", many, []).report()
    assert report.messages == 2000
    assert report.lost.count("offsets 0 to 1") == MOST_NAMED
    assert report.lost.endswith(f"{1000 - MOST_NAMED} more queues, listed in the driver's log")
