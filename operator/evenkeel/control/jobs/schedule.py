"""
Decides when a scheduled job runs. Pure.

The start of a run is written to the status before its driver starts, so if the operator restarts,
no run is lost or started twice. If several starts were missed, only the latest one is caught up.
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
"""Number of fields of a cron expression, as in CronJobs. The library would accept seconds too."""
A_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ScheduleTurn:
    """Whether a run is in progress and, if not, when the next one starts."""

    record: JobRecord | None
    """The record of runs for the status."""
    next_at: datetime | None = None
    """When the next run starts; None while a run is in progress."""

    @property
    def is_on(self) -> bool:
        """Whether the job must run now."""
        return self.next_at is None


def find_turn(group: ConsumerGroup, now: datetime, *, may_begin: bool) -> ScheduleTurn:
    """Find the current run, or start one that is due. Without a schedule a job always runs."""
    schedule = group.spec.job.schedule if group.spec.job else None
    record = group.status.job
    if schedule is None:
        return ScheduleTurn(record)
    known = record or JobRecord()
    if known.run_at:
        return ScheduleTurn(record)
    due = _find_due(group, schedule, known.last_run_at or group.head.created, now)
    if due is not None and may_begin:
        return ScheduleTurn(msgspec.structs.replace(known, run_at=times.format_time(due)))
    return ScheduleTurn(record, next(_list_starts(group, schedule, now)))


def _find_due(
    group: ConsumerGroup, schedule: Schedule, since: str, now: datetime
) -> datetime | None:
    """Find the latest start after `since`, unless its deadline has passed."""
    last = next(_list_starts(group, schedule, now + A_SECOND, is_backwards=True))
    if not since or last <= datetime.fromisoformat(since):
        return None
    if schedule.deadline is not None:
        late = (now - last).total_seconds()
        return last if late <= times.parse_duration(schedule.deadline) else None
    return last


def _list_starts(
    group: ConsumerGroup, schedule: Schedule, moment: datetime, *, is_backwards: bool = False
) -> CronSim:
    """List the starts after a moment, or those before it in reverse order."""
    if len(schedule.cron.split()) != FIELDS:
        raise ManifestError(
            f"{group}: spec.job.schedule.cron: {schedule.cron!r} does not have five "
            "fields: minute, hour, day, month, weekday, as in '*/10 * * * *'"
        )
    try:
        local = moment.astimezone(ZoneInfo(schedule.time_zone))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ManifestError(
            f"{group}: spec.job.schedule.timeZone: there is no time zone {schedule.time_zone!r}; "
            "use a name such as Europe/Berlin"
        ) from error
    try:
        return CronSim(schedule.cron, local, reverse=is_backwards)
    except CronSimError as error:
        raise ManifestError(
            f"{group}: spec.job.schedule.cron: {schedule.cron!r}: {error}"
        ) from error


def describe_wait(moment: datetime) -> str:
    """Describe when the next run starts."""
    return f"the next run begins at {times.format_time(moment.astimezone(UTC))}"
