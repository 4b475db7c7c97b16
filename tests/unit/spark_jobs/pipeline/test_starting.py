"""When the steps of a driver's start are done."""

import logging

import pytest

from spark_jobs.pipeline import BEGUN
from spark_jobs.pipeline.starting import StartStep, StartTimes


def test_each_step_counts_once_and_all_are_logged_after_the_first_commit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    times = iter([2.0, 7.0, 9.5])
    start = StartTimes(lambda: BEGUN + next(times))
    for step in (StartStep.JAVA, StartStep.EXECUTOR, StartStep.COMMIT) * 2:
        start.note(step)
    seconds = {step: round(at, 3) for step, at in start.seconds.items()}
    assert seconds == {"java": 2.0, "executor": 7.0, "commit": 9.5}
    assert caplog.messages == ["started: java 2.0 s, executor 7.0 s, commit 9.5 s"]
