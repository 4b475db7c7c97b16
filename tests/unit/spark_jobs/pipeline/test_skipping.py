"""A job skips lost messages once for each request."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contract.report import SkipReport
from mq_client.values import MessageQueue
from spark_jobs import journal, planning
from spark_jobs.pipeline import plan_source, skipping
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.skipping import MOST_NAMED, Skipped
from spark_jobs.planning import DataLossError, Range
from tests.pinned_jobs import A, B, Planned

GONE = {A: 0, B: 1}
"""Committed offsets that are deleted: the brokers' first offsets are 2 and 3."""


def journaled(offsets: dict[MessageQueue, int], **more: Any) -> dict[str, Any]:
    wanted = {"expression": "*", "kind": "TAG"}
    return {
        "epoch": 7,
        "filter": wanted,
        "group": "g",
        "offsets": journal.write_offsets(offsets),
        **more,
    }


def asked(tmp_path: Path, skip: str) -> Planned:
    return Planned(tmp_path, "earliest", {}, skip)


def planned(tmp_path: Path, skip: str, start: dict[str, Any]) -> plan_source.BatchPlan:
    """Plan a batch, and take its plan as the driver does."""
    source = asked(tmp_path, skip)
    end = source.latestOffset(start, None)
    source.partitions(start, json.loads(json.dumps(end)))
    return plan_source.take_plan(tmp_path)


def test_the_first_batch_that_is_asked_goes_on_and_says_so_in_the_journal(tmp_path: Path) -> None:
    with pytest.raises(DataLossError, match="offsets 0 to 1 are deleted"):
        asked(tmp_path, "").latestOffset(journaled(GONE), None)
    plan = planned(tmp_path, "monday", journaled(GONE))
    assert plan.ranges == [Range(A, 0, 10), Range(B, 1, 20)]
    assert (plan.skip_before, plan.skip) == ("", "monday")
    assert skipping.is_open("monday", plan.skip_before)


@pytest.mark.parametrize("skip", ["monday", ""], ids=["same", "removed"])
def test_a_batch_behind_one_that_was_asked_passes_over_nothing(tmp_path: Path, skip: str) -> None:
    """A used request skips nothing more, after a restart or after the annotation is removed."""
    source = asked(tmp_path, skip)
    with pytest.raises(DataLossError):
        source.latestOffset(journaled(GONE, skip="monday"), None)
    there = {A: 10, B: 20}
    start = source.latestOffset(journaled(there, skip="monday"), None)
    assert skipping.read_last_used(start) == "monday", (
        "otherwise the same value would count as new later"
    )
    assert asked(tmp_path, "tuesday").latestOffset(journaled(GONE, skip="monday"), None)


def test_who_never_asked_journals_what_was_always_journaled(tmp_path: Path) -> None:
    assert skipping.KEY not in asked(tmp_path, "").latestOffset(journaled({A: 10, B: 20}), None)


def test_a_batch_that_was_planned_before_may_pass_over_losses_when_it_runs_again(
    tmp_path: Path,
) -> None:
    """The batch does not use up the request, because later messages may be lost as well."""
    start = journaled(GONE, skip="sunday")
    asked(tmp_path, "monday").partitions(start, journaled({A: 1, B: 2}, skip="sunday"))
    plan = plan_source.take_plan(tmp_path)
    assert skipping.is_open("monday", plan.skip_before)
    assert plan.skip != "monday"


def test_queues_that_are_left_or_set_back_are_told_from_the_journal_alone(tmp_path: Path) -> None:
    gone = MessageQueue("orders", "broker-a", 9)
    plan = planned(tmp_path, "monday", journaled({A: 50, B: 20, gone: 4}))
    assert [str(each) for each in plan.turned_back] == [
        f"{A}: it ends at 10, but was read up to 50: the topic was recreated, or the broker lost "
        "messages",
        f"{gone}: the topic no longer has this queue, which was read up to 4",
    ]
    assert plan.ranges == []


def test_what_tasks_tell_twice_counts_once() -> None:
    rows = [(*A, 5, 9), (*B, 0, 2), (*A, 0, 5), (*A, 6, 12), (*A, 20, 21), (*B, 0, 2)]
    found = Tally(gaps=rows).lost
    assert found == [Range(A, 0, 12), Range(A, 20, 21), Range(B, 0, 2)]


def test_a_report_says_what_was_passed_over_queue_by_queue() -> None:
    lost = planning.find_turned_back({B: 4}, {})
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
