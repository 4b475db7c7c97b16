"""
When a job that goes by the clock runs. Pure.

Which run is on stands in the status before its driver starts: so whoever goes on after a crash
neither loses a run nor begins one twice. Of starts that were missed, the last one counts.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from contract.kinds.groups import JobRecord
from contract.kinds.jobs import Schedule
from evenkeel import times
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup

FIELDS = 5
"""The library takes seconds too; nobody expects them here."""
A_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Turn:
    """Whether a run is on, and if not, when the next one is."""

    record: JobRecord | None
    """What the status is to say of runs."""
    next_at: datetime | None = None
    """When the next one begins; None while one is on."""

    @property
    def is_on(self) -> bool:
        """Whether the job is to run now."""
        return self.next_at is None


def turn(group: ConsumerGroup, now: datetime, *, may_begin: bool) -> Turn:
    """See whether a run is on, or begins now if it may; a job without a schedule is always on."""
    schedule = group.spec.job.schedule if group.spec.job else None
    record = group.status.job
    if schedule is None:
        return Turn(record)
    known = record or JobRecord()
    if known.run_at:
        return Turn(record)
    due = _due(group, schedule, known.last_run_at or group.head.created, now)
    if due is not None and may_begin:
        return Turn(msgspec.structs.replace(known, run_at=times.shown(due)))
    return Turn(record, next(_starts(group, schedule, now)))


def _due(group: ConsumerGroup, schedule: Schedule, since: str, now: datetime) -> datetime | None:
    """Find the last start that has passed, unless it was before, or is too long ago."""
    last = next(_starts(group, schedule, now + A_SECOND, is_backwards=True))
    if not since or last <= datetime.fromisoformat(since):
        return None
    if schedule.deadline is not None:
        late = (now - last).total_seconds()
        return last if late <= times.seconds(schedule.deadline) else None
    return last


def _starts(
    group: ConsumerGroup, schedule: Schedule, moment: datetime, *, is_backwards: bool = False
) -> CronSim:
    """List the starts after a moment, or those before it."""
    if len(schedule.cron.split()) != FIELDS:
        raise ManifestError(
            f"{group}: spec.job.schedule.cron: {schedule.cron!r} has not five fields: minute, "
            "hour, day, month, weekday, as in '*/10 * * * *'"
        )
    try:
        local = moment.astimezone(ZoneInfo(schedule.time_zone))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ManifestError(
            f"{group}: spec.job.schedule.timeZone: there is no {schedule.time_zone!r}; "
            "give a name as Europe/Berlin"
        ) from error
    try:
        return CronSim(schedule.cron, local, reverse=is_backwards)
    except CronSimError as error:
        raise ManifestError(
            f"{group}: spec.job.schedule.cron: {schedule.cron!r}: {error}"
        ) from error


def waits_until(moment: datetime) -> str:
    """Say when the next run begins."""
    return f"the next run begins at {times.shown(moment.astimezone(UTC))}"
