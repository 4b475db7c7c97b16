"""
The exchange by which a member of a group follows its assignment.

A member repeats one request, and the coordinator answers which queues it may read. `Asked` and
`Grants` are what both cores work with; a queue is anything that can be a key there.
"""

import enum
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from contract.assignment import QueueIds
from contract.kinds.groups import OnOutage

QueueT = TypeVar("QueueT", bound=Hashable)

FIRST_NUMBER = 1
"""Of a session's first request."""
MOST_HELD = 8192
"""Most entries of queues in a request."""
MOST_REQUEST_BYTES = 1024 * 1024
"""A longer request is refused. 8,192 entries with long names are shorter."""


class Refusal(enum.Enum):
    """Why a request gets no grants. The value is its name in answers and metrics."""

    ANOTHER_SESSION = "AnotherSession"
    """Another process has this member's name and is alive. Ask again later."""
    SESSION_OVER = "SessionOver"
    """This session has ended, or nobody knows it. Begin a new one, and hold nothing."""
    STALE = "Stale"
    """A newer request of the same session has arrived before. Ignore the answer."""
    UNKNOWN_REVISION = "UnknownRevision"
    """No answer has had this revision. It is a defect of the member."""
    RELEASE_OVERDUE = "ReleaseOverdue"
    """The member still holds queues that it had to release long ago. Its session is not renewed."""


@dataclass(frozen=True, slots=True)
class Asked(Generic[QueueT]):
    """A request of a member."""

    session: str
    """A random id of one life of the member."""
    number: int
    """It grows with each request of a session, which begins with FIRST_NUMBER."""
    revision: int
    """Of the newest answer that the member has seen; 0 before the first."""
    holds: frozenset[QueueT]
    """What it reads, or may still have in flight."""


@dataclass(frozen=True, slots=True)
class Grants(Generic[QueueT]):
    """What a member may read from now on. It replaces every older answer."""

    epoch: int
    revision: int
    queues: frozenset[QueueT]


@dataclass(frozen=True, slots=True)
class Terms:
    """How long things may take, in seconds."""

    session: float = 10.0
    """A session ends this long after its last request was received."""
    drain: float = 30.0
    """What a member has in flight of a queue that it must release gets this long."""
    on_outage: OnOutage = OnOutage.STOP
    """What a member does at the end of its session if no coordinator has answered."""

    @property
    def poll(self) -> float:
        """
        How long the coordinator waits for news before it answers.

        When an answer arrives, the request before it was sent two polls ago, and a session counts
        from there. So two polls must be well within the session.
        """
        return 0.3 * self.session


class GroupSource(msgspec.Struct, frozen=True, rename="camel"):
    """Where a group's messages are, and which of them it reads."""

    group: str
    """RocketMQ's name of the group."""
    name_servers: list[str]
    tags: dict[str, str] = {}
    """Filters by topic."""
    sql: dict[str, str] = {}
    """Filters by topic, as SQL92 conditions."""


class MemberRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The body of `POST /v1/groups/<namespace>/<group>/members/<member>`."""

    session: Annotated[str, Meta(min_length=1, max_length=64)]
    number: Annotated[int, Meta(ge=FIRST_NUMBER)]
    revision: Annotated[int, Meta(ge=0)] = 0
    holds: Annotated[list[QueueIds], Meta(max_length=MOST_HELD)] = []
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 60.0
    """How long to hold the request open if nothing is new; `Terms.poll` at most."""


class MemberAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The body of an answer with grants, status 200."""

    epoch: int
    revision: int
    grants: list[QueueIds]
    session_seconds: float
    drain_seconds: float
    on_outage: OnOutage
    source: GroupSource


class MemberRefusal(msgspec.Struct, frozen=True, rename="camel"):
    """The body of every other answer."""

    reason: str
    """A `Refusal`, or why the request could not be served at all."""
    message: str
