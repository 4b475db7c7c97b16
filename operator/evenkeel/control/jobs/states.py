"""The states of a job and its driver, as the operator observes them."""

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
    """Ids of executors that are starting, or that are ending and will be replaced."""
    engine: str = ""
    """The engine, and why it was chosen if the user has not chosen it."""


class DriverState(Enum):
    """The observed state of a driver."""

    ABSENT = "Absent"
    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    """The driver ends after its batch."""
    ENDED = "Ended"
    """The driver has ended, and has not been removed yet."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a driver ended."""

    code: int
    at: str
    ran_seconds: float
    message: str = ""
    is_certain: bool = True
    """True if the driver is known to be dead; False if this is only assumed."""


@dataclass(frozen=True, slots=True)
class DriverSeen:
    """An observed driver: a pod or a process."""

    state: DriverState
    identity: str = ""
    """The fingerprint with which the driver was started."""
    message: str = ""
    report: Report | None = None
    ending: Ending | None = None
    skipped: SkipReport | None = None
    """The lost messages that this driver has skipped."""
    is_silent: bool = False
    """Whether the driver's state is unknown, for example because its node was lost."""
    ends_by: str = ""
    """For a stopping driver, the time by which it must end."""
    image: str = ""
    """The driver's image, if known."""
    asked: str = ""
    """Fingerprint of the user's settings when the driver was started."""


ABSENT = DriverSeen(DriverState.ABSENT)


class JobState(Enum):
    """The state of a job. The values are reasons of the condition `JobRunning`."""

    RUNNING = ConditionReason.RUNNING
    STARTING = ConditionReason.STARTING
    BACKING_OFF = ConditionReason.BACKING_OFF
    FAILED = ConditionReason.FAILED
    """The job does not start again before the user changes something."""
    ENDED = ConditionReason.ENDED
    """The job must not run now: it is suspended, or between two runs."""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job as observed now."""

    state: JobState
    message: str = ""
    report: Report | None = None
    """The report of the running driver; None before its first report."""
    record: JobRecord | None = None
    """How the last driver ended, and the current run."""
