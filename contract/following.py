"""
The requests and answers by which a member of a group follows its assignment.

A member sends the same request again and again, and the coordinator answers which queues it may
read. The cores of follower and coordinator work with `Asked` and `Grants`, in which a queue is any
hashable value.
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

AUDIENCE = "evenkeel"
"""Of the tokens with which pods ask."""
FIRST_NUMBER = 1
"""The number of a session's first request."""
MOST_HELD = 8192
"""Maximum number of entries in the list of held queues in a request."""
MOST_REQUEST_BYTES = 1024 * 1024
"""A longer request is refused. 8,192 entries with long names are shorter."""
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What reading a document raises. The last two: it is not UTF-8, or nested too deeply."""


class Refusal(enum.Enum):
    """Why a request gets no grants. Answers and metrics contain the value."""

    ANOTHER_SESSION = "AnotherSession"
    """Another process with this member's name is alive. Send the request again later."""
    SESSION_OVER = "SessionOver"
    """
    This session has ended, or the coordinator does not know it. Stop reading, and begin a new one.
    """
    STALE = "Stale"
    """A newer request of the same session arrived before this one. Ignore this answer."""
    UNKNOWN_REVISION = "UnknownRevision"
    """The request names a revision that no answer had. This is a bug in the member."""
    RELEASE_OVERDUE = "ReleaseOverdue"
    """The member still holds queues that it had to release long ago. Its session is not renewed."""


class Denial(enum.Enum):
    """
    Why a request does not reach the group's coordinator. The value is its name, as in `Refusal`.

    None of these ends a session. Ask again, at most every few seconds.
    """

    FORBIDDEN = "Forbidden"
    """The token is missing, has expired, is not for us, or is another one than the file's."""
    NOT_A_POD = "NotAPod"
    """The token is valid, but was issued for no pod."""
    ANOTHER_NAMESPACE = "AnotherNamespace"
    """The token is of a pod in another namespace than the group's."""
    ANOTHER_POD = "AnotherPod"
    """The token is of another pod than the one that the path names."""
    NOT_SELECTED = "NotSelected"
    """The labels of the pod are not those of the group's `members.selector`."""
    POD_UNSEEN = "PodUnseen"
    """The coordinator has not seen this pod yet, or has seen that it has ended."""
    REVIEW_UNAVAILABLE = "ReviewUnavailable"
    """The API server could not say whose token this is."""
    NOT_LEADING = "NotLeading"
    """This process no longer leads; another one will."""
    NO_SUCH_GROUP = "NoSuchGroup"
    """There is no such group, or its consumers are not members."""
    BAD_REQUEST = "BadRequest"
    """The request does not follow the contract."""
    SLOW_BODY = "SlowBody"
    """The body did not arrive in time."""


@dataclass(frozen=True, slots=True)
class Asked(Generic[QueueT]):
    """A request of a member."""

    session: str
    """A random id of one life of the member."""
    number: int
    """The number of the request. It starts at FIRST_NUMBER in each session, and grows."""
    revision: int
    """The revision of the newest answer that the member has received; 0 before the first answer."""
    holds: frozenset[QueueT]
    """Queues that the member reads, or of which messages may still be in flight."""


@dataclass(frozen=True, slots=True)
class Grants(Generic[QueueT]):
    """The queues that a member may read from now on. Each answer replaces all older ones."""

    epoch: int
    revision: int
    queues: frozenset[QueueT]


@dataclass(frozen=True, slots=True)
class Terms:
    """Time limits in seconds, and the behaviour in an outage."""

    session: float = 10.0
    """A session ends this long after its last request was received."""
    drain: float = 30.0
    """How long a member may take to finish the messages in flight of a queue to release."""
    on_outage: OnOutage = OnOutage.STOP
    """What a member does at the end of its session if no coordinator has answered."""

    @property
    def poll(self) -> float:
        """
        How long the coordinator waits for news before it answers.

        A member counts its session from the last request that was answered. When the next answer
        arrives, that request may have been sent two polls ago. So two polls must be well within the
        session.
        """
        return 0.3 * self.session


class GroupSource(msgspec.Struct, frozen=True, rename="camel"):
    """RocketMQ's address and name of a group, and its filters."""

    group: str
    """Name of the group in RocketMQ."""
    name_servers: list[str]
    """Addresses of the name servers, such as rocketmq:9876."""
    tags: dict[str, str] = {}
    """Tags to read, by topic."""
    sql: dict[str, str] = {}
    """SQL92 conditions, by topic."""


class MemberRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The body of `POST /v1/groups/<namespace>/<group>/members/<member>`."""

    session: Annotated[str, Meta(min_length=1, max_length=64)]
    """A random id of one life of the member."""
    number: Annotated[int, Meta(ge=FIRST_NUMBER)]
    """The number of the request. It starts at 1 in each session, and grows."""
    revision: Annotated[int, Meta(ge=0)] = 0
    """The revision of the newest answer that the member has received; 0 before the first answer."""
    holds: Annotated[list[QueueIds], Meta(max_length=MOST_HELD)] = []
    """
    Queues that the member reads, or of which messages may still be in flight. A new session holds
    nothing.
    """
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 60.0
    """How long to wait for news at most."""
    client_id: Annotated[str, Meta(max_length=255)] = ""
    """
    The member's id at the brokers, if it is one of RocketMQ's own consumers. Readers of the group
    whose ids no member tells do not follow the assignment.
    """


class MemberAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The body of an answer with grants. Its HTTP status is 200."""

    epoch: int
    """The epoch of the published assignment that it follows."""
    revision: int
    """It grows when the grants change."""
    grants: list[QueueIds]
    """The queues that the member may read from now on. Each answer replaces all older ones."""
    session_seconds: float
    """
    The session ends this long after its last request was received. The member must count from when
    it sent that request.
    """
    drain_seconds: float
    """
    How long the member may take to finish the messages in flight of a queue that it must release.
    """
    on_outage: OnOutage
    """
    What the member does at the end of its session if no coordinator has answered: `Stop`, or go on
    with what it holds.
    """
    source: GroupSource
    """Where the messages are, and which of them the group reads."""


class MemberRefusal(msgspec.Struct, frozen=True, rename="camel"):
    """The body of every answer that refuses a request."""

    reason: str
    """Why, for programs. Each status has reasons of its own."""
    message: str
    """Why, for people."""
