"""When a scheduled job runs: the next run for a status and a time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from contract.kinds.groups import GroupStatus, JobRecord
from evenkeel import manifests, times
from evenkeel.control.jobs import driver_actions, schedule
from evenkeel.control.jobs.driver_actions import Action
from evenkeel.control.jobs.states import ABSENT, DriverSeen, DriverState, Ending, JobState
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup

ORDERS = {"name": "orders"}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def minutes(count: float) -> datetime:
    return NOON + timedelta(minutes=count)


def group(
    record: JobRecord | None = None,
    created: datetime = NOON,
    cron: str = "*/10 * * * *",
    **more: Any,
) -> ConsumerGroup:
    """Make a group, created at noon, that runs every ten minutes."""
    job = {
        "sink": {"format": "noop"},
        "checkpoint": {"url": "/state"},
        "mode": "Scheduled",
        "schedule": {"cron": cron, **more},
    }
    metadata = {"name": "billing", "creationTimestamp": times.format_time(created)}
    found = manifests.read_group(
        {"kind": "ConsumerGroup", "metadata": metadata, "spec": {"topics": [ORDERS], "job": job}}
    )
    return ConsumerGroup(found.head, found.spec, GroupStatus(job=record))


def begun(found: ConsumerGroup, now: datetime) -> str | None:
    """Return the scheduled start of the current run."""
    turn = schedule.find_turn(found, now, may_begin=True)
    return turn.record.run_at if turn.is_on and turn.record else None


def after(last_run: datetime) -> JobRecord:
    return JobRecord(last_run_at=times.format_time(last_run))


def test_the_first_run_begins_at_the_first_start_after_the_object_was_made() -> None:
    turn = schedule.find_turn(group(), minutes(9), may_begin=True)
    assert (turn.is_on, turn.next_at) == (False, minutes(10))
    assert begun(group(), minutes(10)) == times.format_time(minutes(10))


def test_a_run_that_is_on_stays_on_whatever_the_clock_says() -> None:
    on = JobRecord(run_at=times.format_time(minutes(10)))
    for moment in (minutes(-60), minutes(11), minutes(500)):
        assert begun(group(on), moment) == times.format_time(minutes(10))


def test_of_many_starts_that_were_missed_the_last_one_runs_once() -> None:
    assert begun(group(after(minutes(10))), minutes(45)) == times.format_time(minutes(40))
    assert begun(group(after(minutes(40))), minutes(49)) is None


def test_a_start_that_was_missed_for_too_long_is_left_out() -> None:
    late = group(after(minutes(10)), deadline="2m")
    assert begun(late, minutes(22)) == times.format_time(minutes(20))
    assert begun(late, minutes(23)) is None


def test_no_run_begins_while_none_may() -> None:
    turn = schedule.find_turn(group(), minutes(10), may_begin=False)
    assert not turn.is_on
    assert turn.record is None


def test_a_clock_that_goes_back_begins_no_run_twice() -> None:
    assert begun(group(after(minutes(40))), minutes(12)) is None


def test_the_clock_hangs_where_the_schedule_says() -> None:
    berlin = {"cron": "30 2 * * *", "time_zone": "Europe/Berlin"}
    found = group(created=minutes(-24 * 60), cron=berlin["cron"], timeZone=berlin["time_zone"])
    assert begun(found, minutes(0)) == "2026-01-01T01:30:00Z"


def test_an_hour_that_the_clock_leaves_out_leaves_no_run_out() -> None:
    found = group(
        created=datetime(2026, 3, 28, 12, tzinfo=UTC), cron="30 2 * * *", timeZone="Europe/Berlin"
    )
    # In that night, clocks change from 2:00 to 3:00.
    assert begun(found, datetime(2026, 3, 29, 4, tzinfo=UTC)) == "2026-03-29T01:00:00Z"


@pytest.mark.parametrize(
    ("cron", "zone", "said"),
    [
        ("10 10 10 10", "UTC", "does not have five fields"),
        ("*/5 * * * * *", "UTC", "does not have five fields"),
        ("61 * * * *", "UTC", "'61 * * * *': Bad minute"),
        ("a b c d e", "UTC", "'a b c d e': "),
        ("0 0 30 2 *", "UTC", "'0 0 30 2 *': Bad day-of-month"),
        ("* * * * *", "Mars/Olympus", "there is no time zone 'Mars/Olympus'"),
        ("* * * * *", "../../etc/passwd", "there is no time zone '../../etc/passwd'"),
    ],
)
def test_a_schedule_that_cannot_be_read_is_told(cron: str, zone: str, said: str) -> None:
    with pytest.raises(ManifestError, match=r"ConsumerGroup billing: spec\.job\.schedule") as error:
        schedule.find_turn(group(cron=cron, timeZone=zone), NOON, may_begin=True)
    assert said in str(error.value)


def ended(code: int) -> DriverSeen:
    ending = Ending(code, times.format_time(minutes(11)), 5.0, "it said why")
    return DriverSeen(DriverState.ENDED, "a", ending=ending)


ON = JobRecord(run_at=times.format_time(minutes(10)), last_run_at=times.format_time(minutes(0)))


def test_a_run_is_over_when_its_driver_has_ended_well() -> None:
    record = driver_actions.decide(ended(0), "a", ON, minutes(11)).job.record
    assert record is not None
    assert (record.run_at, record.last_run_at) == ("", times.format_time(minutes(10)))
    again = driver_actions.decide(ended(0), None, record, minutes(11))
    assert (again.action, again.job.record) == (Action.CLEAR, record)
    assert driver_actions.decide(ABSENT, None, record, minutes(11)).job.state is JobState.ENDED


@pytest.mark.parametrize(("code", "wanted"), [(75, "a"), (78, "a"), (0, "b"), (0, None)])
def test_a_run_goes_on_when_its_driver_failed_or_was_told_to_end(
    code: int, wanted: str | None
) -> None:
    record = driver_actions.decide(ended(code), wanted, ON, minutes(11)).job.record
    assert record is not None
    assert (record.run_at, record.last_run_at) == (ON.run_at, ON.last_run_at)
