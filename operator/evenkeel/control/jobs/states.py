"""States of a job and its driver, as the operator sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from contract.conditions import ConditionReason
from contract.kinds.groups import JobRecord
from contract.report import SkipReport


@dataclass(frozen=True, slots=True)
class Seat:
    """An executor that fills a slot."""

    executor: str
    pod: str = ""
    zone: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What a job's driver says of itself."""

    adopted_epoch: int = 0
    slots: Mapping[str, Seat] = field(default_factory=dict)
    is_pinned: bool = False
    error: str | None = None
    coming: frozenset[str] = frozenset()
    """Executors, by their ids, that start or make room for one, and have not failed."""


class DriverState(Enum):
    """How a driver is, as the world sees it."""

    ABSENT = "Absent"
    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    """It was told to end after its batch."""
    ENDED = "Ended"
    """It has ended, and can be looked at before it is cleared away."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a driver has ended."""

    code: int
    at: str
    ran_seconds: float
    message: str = ""
    is_certain: bool = True
    """Whether nothing of it can run any more, or that is only to be thought."""


@dataclass(frozen=True, slots=True)
class DriverSeen:
    """A driver: a pod, or a process."""

    state: DriverState
    identity: str = ""
    """What it was started as."""
    message: str = ""
    report: Report | None = None
    ending: Ending | None = None
    skipped: SkipReport | None = None
    """By this driver."""
    is_silent: bool = False
    """Whether whoever should tell of it does not answer, as when its node is lost."""
    ends_by: str = ""
    """By when it is gone, or must be, once it was told to end."""
    image: str = ""
    """What it runs, where that is known."""
    asked: str = ""
    """What its user had asked for when it was started: another text is another wish."""


ABSENT = DriverSeen(DriverState.ABSENT)


class JobState(Enum):
    """How a job is. The values are reasons of the condition `JobRunning`."""

    RUNNING = ConditionReason.RUNNING
    STARTING = ConditionReason.STARTING
    BACKING_OFF = ConditionReason.BACKING_OFF
    FAILED = ConditionReason.FAILED
    """Somebody must change something."""
    ENDED = ConditionReason.ENDED
    """It is not to run now: suspended, or between two runs."""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job, as it is now."""

    state: JobState
    message: str = ""
    report: Report | None = None
    """Of the driver that runs; None before its first."""
    record: JobRecord | None = None
    """How the last driver ended."""
