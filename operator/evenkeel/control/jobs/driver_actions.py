"""
Decides when a job's driver starts, stops and restarts. Pure.

The inputs are the observed driver and, if a driver must run, the identity that it must have. Before
an ended driver is removed, its ending is written to the status. So the ending is still known after
a restart of the operator.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

import msgspec

from contract import exit_codes
from contract.kinds.groups import JobRecord
from evenkeel import times
from evenkeel.control.jobs.states import DriverSeen, DriverState, Ending, JobSeen, JobState

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
STEADY_SECONDS = 600.0
"""After a run that is longer than this, the next pause is FIRST_PAUSE again."""
LATE_SECONDS = 10.0
"""A driver that still runs this long after its time limit counts as lost."""
GIVE_UP_SECONDS = 5.0
"""Time until the next attempt to remove a driver whose state is unknown."""


class Action(Enum):
    """What to do with the driver."""

    NOTHING = "nothing"
    START = "start"
    STOP = "stop"
    CLEAR = "clear"
    """Remove a driver that has ended."""
    GIVE_UP = "give up"
    """Remove a driver whose state is unknown, after it can no longer be running."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The job cannot run as specified."""

    message: str


Wanted = str | Refused | None
"""The identity that the driver must have; None if the driver must not run."""


@dataclass(frozen=True, slots=True)
class Drive:
    """What to do with the driver, and the resulting state of the job."""

    action: Action
    job: JobSeen
    look_again_seconds: float | None = None


def decide(driver: DriverSeen, wanted: Wanted, record: JobRecord | None, now: datetime) -> Drive:
    """Decide what to do with a driver, and the state of its job."""
    if driver.state is not DriverState.ENDED and _is_lost(driver, now):
        text = (
            "the state of the driver is unknown, for example after its node was lost; a new one "
            "starts when its Lease has expired"
        )
        lost = JobSeen(JobState.BACKING_OFF, text, driver.report, record)
        return Drive(Action.GIVE_UP, lost, GIVE_UP_SECONDS)
    by_state: dict[DriverState, Callable[[], Drive]] = {
        DriverState.ABSENT: lambda: _decide_absent(wanted, record, now),
        DriverState.STARTING: lambda: _decide_running(driver, wanted, record),
        DriverState.RUNNING: lambda: _decide_running(driver, wanted, record),
        DriverState.STOPPING: lambda: _decide_stopping(driver, record, now),
        DriverState.ENDED: lambda: _decide_ended(driver, wanted, record),
    }
    drive = by_state[driver.state]()
    if not driver.image:
        return drive
    record = msgspec.structs.replace(drive.job.record or JobRecord(), image=driver.image)
    return replace(drive, job=replace(drive.job, record=record))


def _decide_absent(wanted: Wanted, record: JobRecord | None, now: datetime) -> Drive:
    if wanted is None:
        return _do_nothing(JobSeen(JobState.ENDED, "", record=record))
    if isinstance(wanted, Refused):
        return _do_nothing(JobSeen(JobState.FAILED, wanted.message, record=record))
    last = record or JobRecord()
    if last.exit_code == exit_codes.PERMANENT and last.identity == wanted:
        return _do_nothing(JobSeen(JobState.FAILED, last.message, record=record))
    left = _compute_pause(last, wanted) - (
        times.measure_since(last.ended_at, now) if last.ended_at else 0.0
    )
    if last.ended_at and left > 0:
        text = f"{last.message}; failure {last.failures} in a row; the driver will be restarted"
        seen = JobSeen(JobState.BACKING_OFF, text, record=record)
        return replace(_do_nothing(seen), look_again_seconds=left)
    return Drive(Action.START, JobSeen(JobState.STARTING, "the driver starts", record=record))


def _compute_pause(last: JobRecord, wanted: str) -> float:
    """Compute the pause after a driver's end. A driver with a new identity starts at once."""
    if not last.failures or last.identity != wanted:
        return 0.0
    return min(FIRST_PAUSE * 2.0 ** min(last.failures - 1, 30), LONGEST_PAUSE)


def _decide_running(driver: DriverSeen, wanted: Wanted, record: JobRecord | None) -> Drive:
    if wanted is None or (isinstance(wanted, str) and wanted != driver.identity):
        return Drive(
            Action.STOP, _describe_running(driver, "the driver ends after its batch", record)
        )
    message = wanted.message if isinstance(wanted, Refused) else driver.message
    return _do_nothing(_describe_running(driver, message, record))


def _is_lost(driver: DriverSeen, now: datetime) -> bool:
    is_late = bool(driver.ends_by) and times.measure_since(driver.ends_by, now) >= LATE_SECONDS
    return driver.is_silent or is_late


def _decide_stopping(driver: DriverSeen, record: JobRecord | None, now: datetime) -> Drive:
    found = _do_nothing(_describe_running(driver, "the driver ends after its batch", record))
    if not driver.ends_by:
        return found
    left = (datetime.fromisoformat(driver.ends_by) - now).total_seconds() + LATE_SECONDS
    return replace(found, look_again_seconds=max(left, 0.0))


def _describe_running(driver: DriverSeen, message: str, record: JobRecord | None) -> JobSeen:
    report = driver.report
    if report is not None and report.slots:
        return JobSeen(JobState.RUNNING, message, report, record)
    error = report.error if report is not None else None  # why no slot is filled yet
    return JobSeen(JobState.STARTING, message or error or "", report, record)


def _decide_ended(driver: DriverSeen, wanted: Wanted, record: JobRecord | None) -> Drive:
    """Record how the driver ended. After the record is written, remove the driver."""
    assert driver.ending is not None
    last = record or JobRecord()
    written = _record_ending(driver, driver.ending, last, is_done=wanted == driver.identity)
    state = JobState.ENDED if wanted is None else JobState.STARTING
    if (
        driver.ending.code == exit_codes.PERMANENT
        and isinstance(wanted, str)
        and wanted == driver.identity
    ):
        state = JobState.FAILED
    action = Action.CLEAR if written == record else Action.NOTHING
    return Drive(action, JobSeen(state, written.message, record=written))


def _record_ending(
    driver: DriverSeen, ending: Ending, last: JobRecord, *, is_done: bool
) -> JobRecord:
    """Record an ending. A scheduled run is complete unless it failed or was stopped."""
    if last.ended_at == ending.at:
        return last
    is_failure = ending.code != exit_codes.DONE
    is_over = is_done and not is_failure
    before = 0 if ending.ran_seconds > STEADY_SECONDS else last.failures
    return JobRecord(
        run_at="" if is_over else last.run_at,
        last_run_at=last.run_at if is_over else last.last_run_at,
        ended_at=ending.at,
        exit_code=ending.code,
        failures=before + 1 if is_failure else 0,
        identity=driver.identity,
        message=ending.message,
        image=last.image,
    )


def _do_nothing(job: JobSeen) -> Drive:
    return Drive(Action.NOTHING, job)
