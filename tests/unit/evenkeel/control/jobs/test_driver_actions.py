"""When a driver starts, ends and starts again."""

from datetime import UTC, datetime, timedelta

import pytest

from contract.exit_codes import PERMANENT, TRY_AGAIN
from contract.kinds.groups import JobRecord
from evenkeel import times
from evenkeel.control.jobs import driver_actions
from evenkeel.control.jobs.driver_actions import Action, Drive, Refused, Wanted
from evenkeel.control.jobs.states import (
    ABSENT,
    DriverSeen,
    DriverState,
    Ending,
    JobState,
    Report,
    SlotExecutor,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
UP = Report(1, {"billing-0": SlotExecutor("0")}, True)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def running(identity: str = "a", state: DriverState = DriverState.RUNNING) -> DriverSeen:
    return DriverSeen(state, identity, report=UP)


def ended(code: int, seconds: float = 0.0, ran: float = 5.0, identity: str = "a") -> DriverSeen:
    ending = Ending(code, times.format_time(at(seconds)), ran, "it said why")
    return DriverSeen(DriverState.ENDED, identity, ending=ending)


def shown(drive: Drive) -> tuple[Action, JobState]:
    return drive.action, drive.job.state


def recorded(*endings: DriverSeen) -> JobRecord:
    """Return the status after these observations of drivers, one after the other."""
    record: JobRecord | None = None
    for each in endings:
        record = driver_actions.decide(each, "a", record, START).job.record
    assert record is not None
    return record


@pytest.mark.parametrize(
    ("driver", "wanted", "action", "state"),
    [
        (ABSENT, "a", Action.START, JobState.STARTING),
        (ABSENT, None, Action.NOTHING, JobState.ENDED),
        (ABSENT, Refused("no"), Action.NOTHING, JobState.FAILED),
        (running(), "a", Action.NOTHING, JobState.RUNNING),
        (running(), "b", Action.STOP, JobState.RUNNING),
        (running(), None, Action.STOP, JobState.RUNNING),
        (running(), Refused("no"), Action.NOTHING, JobState.RUNNING),
        (running(state=DriverState.STOPPING), "b", Action.NOTHING, JobState.RUNNING),
        (DriverSeen(DriverState.STARTING, "a"), "a", Action.NOTHING, JobState.STARTING),
        (DriverSeen(DriverState.STARTING, "a"), "b", Action.STOP, JobState.STARTING),
    ],
)
def test_a_driver_runs_as_what_is_wanted(
    driver: DriverSeen, wanted: Wanted, action: Action, state: JobState
) -> None:
    assert shown(driver_actions.decide(driver, wanted, None, START)) == (action, state)


def test_how_a_driver_ended_is_written_before_it_is_cleared_away() -> None:
    driver = ended(TRY_AGAIN)
    first = driver_actions.decide(driver, "a", None, START)
    assert first.action is Action.NOTHING
    assert first.job.record == JobRecord(times.format_time(START), TRY_AGAIN, 1, "a", "it said why")
    assert driver_actions.decide(driver, "a", first.job.record, START).action is Action.CLEAR


def test_the_pauses_between_failures_grow_and_a_new_spec_is_tried_at_once() -> None:
    once, twice = recorded(ended(1)), recorded(ended(1), ended(1, 10))
    first = driver_actions.decide(ABSENT, "a", once, at(0.5))
    assert shown(first) == (Action.NOTHING, JobState.BACKING_OFF)
    assert first.look_again_seconds == pytest.approx(0.5)
    assert driver_actions.decide(ABSENT, "a", once, at(1)).action is Action.START
    assert driver_actions.decide(ABSENT, "a", twice, at(11)).action is Action.NOTHING
    assert driver_actions.decide(ABSENT, "a", twice, at(12)).action is Action.START
    assert driver_actions.decide(ABSENT, "b", twice, at(10)).action is Action.START


def test_a_pause_is_never_longer_than_five_minutes() -> None:
    many = recorded(*(ended(1, number) for number in range(50)))
    assert many.failures == 50
    assert driver_actions.decide(ABSENT, "a", many, at(49 + 299)).action is Action.NOTHING
    assert driver_actions.decide(ABSENT, "a", many, at(49 + 300)).action is Action.START


def test_what_somebody_must_change_is_not_tried_again_until_it_is_changed() -> None:
    record = recorded(ended(PERMANENT))
    drive = driver_actions.decide(ABSENT, "a", record, at(100_000))
    assert shown(drive) == (Action.NOTHING, JobState.FAILED)
    assert drive.job.message == "it said why"
    assert driver_actions.decide(ABSENT, "b", record, at(1)).action is Action.START


def test_a_driver_that_ran_for_long_has_not_failed_in_a_row() -> None:
    record = recorded(ended(1), ended(1, 1), ended(1, 5000, ran=4000.0))
    assert record.failures == 1


def test_a_driver_that_ended_well_counts_no_failure() -> None:
    record = recorded(ended(1), ended(0, 1))
    assert record.failures == 0
    assert driver_actions.decide(ABSENT, "a", record, at(1)).action is Action.START


def test_a_clock_that_goes_back_only_makes_the_pause_start_anew() -> None:
    record = recorded(ended(1, 1000))
    drive = driver_actions.decide(ABSENT, "a", record, START)
    assert drive.look_again_seconds == 1.0


def test_a_driver_that_gets_no_executor_says_what_it_reports() -> None:
    report = Report(0, {}, False, error="no Python worker answers")
    driver = DriverSeen(DriverState.RUNNING, "a", report=report)
    job = driver_actions.decide(driver, "a", None, START).job
    assert (job.state, job.message) == (JobState.STARTING, "no Python worker answers")
