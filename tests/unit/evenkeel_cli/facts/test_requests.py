"""Requests of users to groups: what is written, what is printed, and when a request is done."""

from dataclasses import replace

import msgspec
import pytest

from contract import names
from contract.kinds.groups import LastSkip
from contract.kinds.parts import Condition, ConditionStatus
from evenkeel.control.jobs.states import JobSeen, JobState
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup
from evenkeel_cli.facts import requests
from tests.unit.evenkeel_cli.scenes import JOB, after, annotated, group, members, running

NOW = "2026-01-01T00:00:00.000+00:00"
TWO = after(group(), members("a", "b"))
JOB_RUNS = after(group(job=JOB), running(slot_0="1", slot_1="2"))


def with_status(found: ConsumerGroup, **changes: object) -> ConsumerGroup:
    return replace(found, status=msgspec.structs.replace(found.status, **changes))


def with_condition(found: ConsumerGroup, kind: str, *, holds: bool) -> ConsumerGroup:
    status = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    others = [each for each in found.status.conditions if each.type != kind]
    return with_status(found, conditions=[*others, Condition(kind, status, "Said", "then")])


def test_a_rebalance_is_done_when_the_status_names_it() -> None:
    request = requests.rebalance(TWO, NOW)
    assert (request.annotation, request.value) == (names.REBALANCE, NOW)
    assert request.seen(TWO) is None
    asked = after(annotated(TWO, rebalance=NOW), members("a", "b"))
    assert request.seen(asked) == "ConsumerGroup billing was planned, and no queue moved"
    moved = after(annotated(TWO, rebalance=NOW), members("a", "b", "c"))
    said = request.seen(moved)
    assert said is not None
    assert said.startswith(
        "ConsumerGroup billing was planned, epoch 2; 2 queues moved: a -> c, joined: orders@"
    )


def test_a_pause_is_done_when_the_condition_says_so() -> None:
    request = requests.pause(TWO, NOW)
    assert (request.annotation, request.value, request.is_new) == (names.PAUSED, "true", True)
    assert request.seen(TWO) is None
    assert request.seen(after(annotated(TWO, paused="true"), members("a", "b"))) is not None


def test_who_pauses_what_is_paused_writes_nothing() -> None:
    request = requests.pause(annotated(TWO, paused="true"), NOW)
    assert not request.is_new
    assert request.did == "ConsumerGroup billing was already paused"


def test_a_word_that_does_not_pause_is_replaced() -> None:
    assert requests.pause(annotated(TWO, paused="yes"), NOW).is_new


def test_the_end_of_a_pause_takes_the_annotation_away() -> None:
    paused = after(annotated(TWO, paused="true"), members("a", "b"))
    request = requests.resume(paused, NOW)
    assert (request.value, request.is_new) == (None, True)
    assert request.seen(paused) is None
    assert request.seen(after(annotated(paused), members("a", "b"))) is not None
    needless = requests.resume(TWO, NOW)
    assert (needless.is_new, needless.follows) == (False, "nothing changes")


def test_a_pause_of_the_spec_is_not_ended_by_hand() -> None:
    with pytest.raises(EvenkeelError, match=r"set spec\.rebalance\.paused to false"):
        requests.resume(group(rebalance={"paused": True}), NOW)


@pytest.mark.parametrize("name", ["restart", "skip"])
def test_what_jobs_alone_can_do_is_refused_of_others(name: str) -> None:
    with pytest.raises(EvenkeelError, match=f"billing has no job, and {name} needs one"):
        requests.KNOWN[name](TWO, NOW)


def test_a_job_has_started_anew_once_it_has_run_not_and_runs_again() -> None:
    request = requests.restart(JOB_RUNS, NOW)
    assert "ends after its current batch" in request.follows
    assert request.seen(JOB_RUNS) is None
    starting = after(JOB_RUNS, JobSeen(JobState.STARTING))
    assert request.seen(starting) is None
    assert request.seen(after(starting, None, running(slot_0="3", slot_1="4"))) is not None


def test_a_job_that_has_failed_has_started_anew_once_it_runs() -> None:
    failed = with_condition(JOB_RUNS, "JobRunning", holds=False)
    request = requests.restart(failed, NOW)
    assert request.follows == "a new driver starts"
    assert request.seen(failed) is None
    assert request.seen(JOB_RUNS) == "the job has restarted"


def test_of_a_job_that_shall_not_run_a_restart_is_not_waited_for() -> None:
    off = after(group(job=JOB, suspend=True), running(slot_0="1"))
    said = requests.restart(off, NOW).seen(off)
    assert said == "the job is not running now (spec.suspend is true); its next run is a new one"


def test_a_job_that_is_ready_has_nothing_to_pass_over() -> None:
    with pytest.raises(EvenkeelError, match="is Ready: there is nothing to skip"):
        requests.skip(JOB_RUNS, NOW)


def test_what_was_passed_over_is_told() -> None:
    failed = with_condition(JOB_RUNS, "Ready", holds=False)
    request = requests.skip(failed, NOW)
    assert (request.annotation, request.value) == (names.SKIP, NOW)
    earlier = LastSkip("2025-12-31T00:00:00Z", "earlier", 3, "orders@broker-a 1: 3")
    assert request.seen(with_status(failed, last_skip=earlier)) is None
    done = LastSkip("2026-01-01T00:00:00Z", NOW, 7, "orders@broker-a 1: 10 to 17")
    assert request.seen(with_status(failed, last_skip=done)) == (
        "the job has skipped 7 messages: orders@broker-a 1: 10 to 17"
    )


def test_why_something_is_not_done_is_what_ready_says() -> None:
    assert "check that the operator runs" in requests.explain_delay(group())
    assert "check that the operator runs" in requests.explain_delay(TWO)
    stuck = after(group(), None)
    assert requests.explain_delay(stuck) == (
        "Ready is False, PodsUnknown (ConsumerGroup billing: its pods could not be listed; "
        "the list is retried)"
    )
