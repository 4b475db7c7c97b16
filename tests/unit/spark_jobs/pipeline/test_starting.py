"""When the steps of a driver's start are done."""

import logging

import pytest

from spark_jobs.pipeline import BEGUN
from spark_jobs.pipeline.executors import Executor
from spark_jobs.pipeline.facts import JobFacts
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.starting import StartStep, StartTimes

ONE = {"billing-0": Executor("1", "10.0.0.1", 1)}


def make_facts(slots: dict[str, Executor], batch: int) -> JobFacts:
    return JobFacts(1, 1, batch, slots, is_pinned=True, tally=Tally(), error=None)


def test_each_step_counts_once_and_all_are_logged_after_the_first_commit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    times = iter([2.0, 7.0, 9.5])
    start = StartTimes(lambda: BEGUN + next(times))
    for slots, batch in [({}, 41), (ONE, 41), (ONE, 41), (ONE, 42), ({}, 43)]:
        start.note(StartStep.JAVA)
        start.look(make_facts(slots, batch))
    seconds = {step: round(at, 3) for step, at in start.seconds.items()}
    assert seconds == {"java": 2.0, "executor": 7.0, "commit": 9.5}
    assert caplog.messages == ["started: java 2.0 s, executor 7.0 s, commit 9.5 s"]
