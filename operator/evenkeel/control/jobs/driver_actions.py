"""
When a job's driver starts, ends, and starts again. Pure.

A driver is seen absent, running or ended; what is wanted is to run as something, or not at all. How
the last one ended is in the status, written before the ended one is cleared away: so whoever goes
on after a crash knows as much.
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
"""A driver that ran for so long has not failed at once: the pauses begin anew."""
LATE_SECONDS = 10.0
"""Whoever sees to it that a driver ends may need so much longer than the time that it has."""
GIVE_UP_SECONDS = 5.0
"""Until it is tried again."""


class Action(Enum):
    """What is to be done with the driver."""

    NOTHING = "nothing"
    START = "start"
    STOP = "stop"
    CLEAR = "clear"
    """Take away one that has ended."""
    GIVE_UP = "give up"
    """Take away one of which nobody tells any more, once nothing of it can run."""


@dataclass(frozen=True, slots=True)
class Refused:
    """What is asked for cannot be made."""

    message: str


Wanted = str | Refused | None
"""What the driver shall run as; None: none shall run."""


@dataclass(frozen=True, slots=True)
class Drive:
    """What follows."""

    action: Action
    job: JobSeen
    look_again_seconds: float | None = None


def decide(driver: DriverSeen, wanted: Wanted, record: JobRecord | None, now: datetime) -> Drive:
    """Decide what becomes of a driver, and how the job is to be shown."""
    if driver.state is not DriverState.ENDED and _is_lost(driver, now):
        text = (
            "nobody tells of the driver any more, as where its node is lost; another one starts "
            "when its Lease was not renewed for as long as it holds"
        )
        lost = JobSeen(JobState.BACKING_OFF, text, driver.report, record)
        return Drive(Action.GIVE_UP, lost, GIVE_UP_SECONDS)
    by_state: dict[DriverState, Callable[[], Drive]] = {
        DriverState.ABSENT: lambda: _of_none(wanted, record, now),
        DriverState.STARTING: lambda: _of_running(driver, wanted, record),
        DriverState.RUNNING: lambda: _of_running(driver, wanted, record),
        DriverState.STOPPING: lambda: _stopping(driver, record, now),
        DriverState.ENDED: lambda: _of_ended(driver, wanted, record),
    }
    drive = by_state[driver.state]()
    if not driver.image:
        return drive
    record = msgspec.structs.replace(drive.job.record or JobRecord(), image=driver.image)
    return replace(drive, job=replace(drive.job, record=record))


def _of_none(wanted: Wanted, record: JobRecord | None, now: datetime) -> Drive:
    if wanted is None:
        return _nothing(JobSeen(JobState.ENDED, "", record=record))
    if isinstance(wanted, Refused):
        return _nothing(JobSeen(JobState.FAILED, wanted.message, record=record))
    last = record or JobRecord()
    if last.exit_code == exit_codes.PERMANENT and last.identity == wanted:
        return _nothing(JobSeen(JobState.FAILED, last.message, record=record))
    left = _pause(last, wanted) - (times.since(last.ended_at, now) if last.ended_at else 0.0)
    if last.ended_at and left > 0:
        text = f"{last.message}; failure {last.failures} in a row, it starts again by itself"
        seen = JobSeen(JobState.BACKING_OFF, text, record=record)
        return replace(_nothing(seen), look_again_seconds=left)
    return Drive(Action.START, JobSeen(JobState.STARTING, "the driver starts", record=record))


def _pause(last: JobRecord, wanted: str) -> float:
    """Tell how long to wait after a driver's end; what is new is tried at once."""
    if not last.failures or last.identity != wanted:
        return 0.0
    return min(FIRST_PAUSE * 2.0 ** min(last.failures - 1, 30), LONGEST_PAUSE)


def _of_running(driver: DriverSeen, wanted: Wanted, record: JobRecord | None) -> Drive:
    if wanted is None or (isinstance(wanted, str) and wanted != driver.identity):
        return Drive(Action.STOP, _running(driver, "it ends after its batch", record))
    message = wanted.message if isinstance(wanted, Refused) else driver.message
    return _nothing(_running(driver, message, record))


def _is_lost(driver: DriverSeen, now: datetime) -> bool:
    is_late = bool(driver.ends_by) and times.since(driver.ends_by, now) >= LATE_SECONDS
    return driver.is_silent or is_late


def _stopping(driver: DriverSeen, record: JobRecord | None, now: datetime) -> Drive:
    found = _nothing(_running(driver, "it ends after its batch", record))
    if not driver.ends_by:
        return found
    left = (datetime.fromisoformat(driver.ends_by) - now).total_seconds() + LATE_SECONDS
    return replace(found, look_again_seconds=max(left, 0.0))


def _running(driver: DriverSeen, message: str, record: JobRecord | None) -> JobSeen:
    report = driver.report
    if report is not None and report.slots:
        return JobSeen(JobState.RUNNING, message, report, record)
    error = report.error if report is not None else None  # why nobody fills a slot yet
    return JobSeen(JobState.STARTING, message or error or "", report, record)


def _of_ended(driver: DriverSeen, wanted: Wanted, record: JobRecord | None) -> Drive:
    """Write down how it ended; once that is written, clear it away."""
    assert driver.ending is not None
    last = record or JobRecord()
    written = _recorded(driver, driver.ending, last, is_done=wanted == driver.identity)
    state = JobState.ENDED if wanted is None else JobState.STARTING
    if (
        driver.ending.code == exit_codes.PERMANENT
        and isinstance(wanted, str)
        and wanted == driver.identity
    ):
        state = JobState.FAILED
    action = Action.CLEAR if written == record else Action.NOTHING
    return Drive(action, JobSeen(state, written.message, record=written))


def _recorded(driver: DriverSeen, ending: Ending, last: JobRecord, *, is_done: bool) -> JobRecord:
    """Write an end down. A run of a schedule is over unless it failed, or was told to end."""
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


def _nothing(job: JobSeen) -> Drive:
    return Drive(Action.NOTHING, job)
