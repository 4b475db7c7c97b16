"""
What is seen around an object. It is all that a decision rests on, beside the object and the clock.

None always means that something could not be seen, never that there is nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from contract.kinds.groups import JobRecord, TopicClaim
from contract.report import SkipReport
from evenkeel.objects import Key, Topic
from lb_core import model
from lb_core.model import Member


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

    RUNNING = "Running"
    STARTING = "Starting"
    BACKING_OFF = "BackingOff"
    FAILED = "Failed"
    """Somebody must change something."""
    ENDED = "Ended"
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


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a group must not run: somebody else reads in its name."""

    reason: str
    message: str
    stops: bool = True
    """Whether it ends a job that runs; if not, it keeps one from starting."""


@dataclass(frozen=True, slots=True)
class GroupSurroundings:
    """What is seen around a group."""

    topics: Mapping[Key, Topic]
    job: JobSeen | None = None
    """None: there is none, and no driver of one that there was."""
    pods: Sequence[Member] | None = None
    """Those that `podSelector` selects."""
    lag: int | None = None
    weights: Mapping[model.Queue, float] | None = None
    """What each queue counts, where its rate shall."""
    conflict: Conflict | None = None
    claims: Sequence[TopicClaim] = ()
    """Which topics are the group's and no other's."""
    unseen: str | None = None
    """Why what is around it cannot be seen, for a missing right."""
    skipped: SkipReport | None = None
