"""The job file: what its writer leaves out, and what its reader accepts."""

import json

import msgspec
import pytest

from contract import job_file
from contract.job_file import JobFile, JobSink
from contract.kinds.jobs import Mode

LEAST = {
    "name": "billing",
    "source": {"nameServers": "mq:9876", "topics": "orders", "group": "billing"},
    "assignments": "/run/assignment.json",
    "report": "/run/report.json",
    "checkpoint": "/state",
    "sink": {"format": "noop"},
}
"""The fields that every job has."""


def test_a_field_at_its_default_is_not_in_the_text_so_older_drivers_do_not_reject_it() -> None:
    assert json.loads(job_file.encode(job_file.decode(json.dumps(LEAST)))) == LEAST


def test_a_default_that_was_computed_is_not_in_the_text_either() -> None:
    computed = {"executors": 2, "triggerSeconds": 1.0, "transform": {}, "spark": {}, "skip": ""}
    job = job_file.decode(json.dumps(LEAST | computed))
    assert json.loads(job_file.encode(job)) == LEAST


def test_a_text_says_all_that_its_job_says() -> None:
    job = msgspec.structs.replace(
        job_file.decode(json.dumps(LEAST)),
        origin="2026/1234",
        dead_letter=JobSink(file="/etc/evenkeel-files/code/dead.py"),
        executors=1000,
        mode=Mode.SCHEDULED,
        trigger_seconds=0.5,
        metrics_port=8090,
    )
    assert job_file.decode(job_file.encode(job)) == job


def test_the_order_of_options_does_not_change_the_text() -> None:
    one, other = (
        msgspec.structs.replace(job_file.decode(json.dumps(LEAST)), spark=settings)
        for settings in ({"spark.a": "1", "spark.b": "2"}, {"spark.b": "2", "spark.a": "1"})
    )
    assert job_file.encode(one) == job_file.encode(other)


@pytest.mark.parametrize("part", ["sink", "transform", "kubernetes", None])
def test_an_unknown_field_is_refused_wherever_it_is(part: str | None) -> None:
    found = {**LEAST, "kubernetes": {"namespace": "shop", "name": "billing"}}
    whole = {**found, **({"colour": 1} if part is None else {part: {"colour": 1}})}
    with pytest.raises(msgspec.ValidationError, match="unknown field `colour`"):
        msgspec.convert(whole, JobFile)
