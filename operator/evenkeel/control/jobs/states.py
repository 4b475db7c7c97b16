"""States of a job and its driver, as the operator sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from contract.conditions import ConditionReason
from contract.kinds.groups import JobRecord
from contract.report import SkipReport


@dataclass(frozen=True, slots=True)
class SlotExecutor:
    """An executor that fills a slot."""

    executor: str
    pod: str = ""
    zone: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What a driver reports about itself."""

    adopted_epoch: int = 0
    slots: Mapping[str, SlotExecutor] = field(default_factory=dict)
    is_pinned: bool = False
    error: str | None = None
    coming: frozenset[str] = frozenset()
    """Ids of executors that are starting, or ending to be replaced, and have not failed."""


class DriverState(Enum):
    """The observed state of a driver."""

    ABSENT = "Absent"
    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    """It ends after its batch."""
    ENDED = "Ended"
    """It has ended and was not removed yet."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a driver ended."""

    code: int
    at: str
    ran_seconds: float
    message: str = ""
    is_certain: bool = True
    """True if it is known to be dead; False if presumed."""


@dataclass(frozen=True, slots=True)
class DriverSeen:
    """An observed driver: a pod or a process."""

    state: DriverState
    identity: str = ""
    """The fingerprint with which it was started."""
    message: str = ""
    report: Report | None = None
    ending: Ending | None = None
    skipped: SkipReport | None = None
    """What this driver has skipped."""
    is_silent: bool = False
    """Whether its state is unknown, such as after its node was lost."""
    ends_by: str = ""
    """When it must have ended, once it is stopping."""
    image: str = ""
    """Its image, if known."""
    asked: str = ""
    """Fingerprint of what the user asked for when it was started."""


ABSENT = DriverSeen(DriverState.ABSENT)


class JobState(Enum):
    """The state of a job. The values are reasons of the condition `JobRunning`."""

    RUNNING = ConditionReason.RUNNING
    STARTING = ConditionReason.STARTING
    BACKING_OFF = ConditionReason.BACKING_OFF
    FAILED = ConditionReason.FAILED
    """It does not start again before the user changes something."""
    ENDED = ConditionReason.ENDED
    """It must not run now: it is suspended, or between two runs."""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job as observed now."""

    state: JobState
    message: str = ""
    report: Report | None = None
    """The running driver's report; None before its first one."""
    record: JobRecord | None = None
    """How the last driver ended, and the current run."""
