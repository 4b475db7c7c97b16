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
"""The audience of the tokens that pods send with their requests."""
FIRST_NUMBER = 1
"""The number of a session's first request."""
MOST_HELD = 8192
"""Maximum number of entries in the list of held queues in a request."""
MOST_REQUEST_BYTES = 1024 * 1024
"""A request with a longer body is refused. MOST_HELD entries of 128 bytes each fit."""
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of reading a document. The last two: the document is not UTF-8, or nested too deeply."""


class Refusal(enum.Enum):
    """Why a request gets no grants. Answers and metrics contain the value."""

    ANOTHER_SESSION = "AnotherSession"
    """Another process with this member's name is alive. Send the request again later."""
    SESSION_OVER = "SessionOver"
    """
    This session has ended, or the coordinator does not know it. Stop reading, and begin a new
    session.
    """
    STALE = "Stale"
    """A newer request of the same session arrived before this one. Ignore this answer."""
    UNKNOWN_REVISION = "UnknownRevision"
    """The request names a revision that no answer had. This is a bug in the member."""
    RELEASE_OVERDUE = "ReleaseOverdue"
    """The member still holds queues that it had to release long ago. Its session is not renewed."""


class Denial(enum.Enum):
    """
    Why a request does not reach the group's coordinator. Answers and metrics contain the value.

    A denial does not end the session. Send the next request, at most once every few seconds.
    """

    FORBIDDEN = "Forbidden"
    """
    The token is missing, has expired, has another audience, or differs from the token in the file
    of `evenkeel run`.
    """
    NOT_A_POD = "NotAPod"
    """The token is valid, but was issued for no pod."""
    ANOTHER_NAMESPACE = "AnotherNamespace"
    """The token belongs to a pod outside the group's namespace."""
    ANOTHER_POD = "AnotherPod"
    """The token belongs to a pod other than the one in the path."""
    NOT_SELECTED = "NotSelected"
    """The group's `members.selector` does not select the pod, or is not set."""
    POD_UNSEEN = "PodUnseen"
    """The coordinator has not seen this pod yet, or has seen that it has ended."""
    REVIEW_UNAVAILABLE = "ReviewUnavailable"
    """The API server could not say whose token this is."""
    NOT_LEADING = "NotLeading"
    """This process no longer leads; another process will take over."""
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
    """The random id of the member's session."""
    number: int
    """The number of the request. It starts at FIRST_NUMBER in each session, and grows."""
    revision: int
    """The revision of the newest answer that the member has received; 0 before the first answer."""
    holds: frozenset[QueueT]
    """Queues that the member reads, and queues whose messages may still be in flight."""


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
    """How long a member may take to finish the messages in flight of a queue to be released."""
    on_outage: OnOutage = OnOutage.STOP
    """What a member does at the end of its session if no coordinator has answered."""

    @property
    def poll(self) -> float:
        """
        How long the coordinator waits for a change of the grants before it answers.

        A member counts the session time from when it sent the last request that was answered. When
        the next answer arrives, up to two poll times may have passed since then. So two poll times
        must be well below the session time.
        """
        return 0.3 * self.session


class PopTerms(msgspec.Struct, frozen=True, rename="camel"):
    """How the members of a group that is balanced by message pop messages."""

    topics: list[str]
    """RocketMQ's names of the topics."""
    invisible_seconds: float
    """How long nobody else gets a popped message, unless the member renews this time."""
    batch: int
    """Maximum number of messages in one call of the handler."""
    most_attempts: int
    """After this number of deliveries, a message is put aside."""
    backoff_seconds: float
    """
    After how many seconds a message comes again with which the handler has failed for the first
    time. Each failure doubles this time.
    """


class GroupSource(msgspec.Struct, frozen=True, rename="camel"):
    """The name servers of a group, its name in RocketMQ, and its filters."""

    group: str
    """Name of the group in RocketMQ."""
    name_servers: list[str]
    """Addresses of the name servers, such as rocketmq:9876."""
    tags: dict[str, str] = {}
    """Tags to read, by topic."""
    sql: dict[str, str] = {}
    """SQL92 conditions, by topic."""
    messages: PopTerms | None = None
    """
    How to pop messages, if the group is balanced by message. The answers then grant no queues.
    """
    ordered: PopTerms | None = None
    """
    How to pop the granted queues in their order, if `messages.ordered` is set. A member may pull
    them instead.
    """
    leftovers: PopTerms | None = None
    """
    How to pop messages that were popped without an order before the balance of the group changed,
    and come again. The member also reads its queues.
    """


class MemberRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The body of `POST /v1/groups/<namespace>/<group>/members/<member>`."""

    session: Annotated[str, Meta(min_length=1, max_length=64)]
    """The random id of the member's session. The member chooses a new one for each session."""
    number: Annotated[int, Meta(ge=FIRST_NUMBER)]
    """The number of the request. It starts at 1 in each session, and grows."""
    revision: Annotated[int, Meta(ge=0)] = 0
    """The revision of the newest answer that the member has received; 0 before the first answer."""
    holds: Annotated[list[QueueIds], Meta(max_length=MOST_HELD)] = []
    """
    Queues that the member reads, and queues whose messages may still be in flight. A new session
    holds nothing.
    """
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 60.0
    """How long the coordinator may wait for a change of the grants before it answers."""
    client_id: Annotated[str, Meta(max_length=255)] = ""
    """
    The member's client id at the brokers, if the member is one of RocketMQ's own consumers. The
    operator reports clients of the group whose ids no member has sent: they do not follow the
    assignment.
    """
    pops: bool = False
    """
    Whether the member pops as `source.messages` says, or still has such messages. Leftovers do not
    count, nor do queues that it holds and pops in their order.
    """


class MemberAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The body of an answer with grants. Its HTTP status is 200."""

    epoch: int
    """The epoch of the published assignment that the grants follow."""
    revision: int
    """The revision of the grants. It grows when they change."""
    grants: list[QueueIds]
    """The queues that the member may read from now on. Each answer replaces all older ones."""
    session_seconds: float
    """
    The session ends this long after its last request was received. The member must count from the
    time when it sent that request.
    """
    drain_seconds: float
    """
    How long the member may take to finish the messages in flight of a queue that it must release.
    """
    on_outage: OnOutage
    """
    What the member does at the end of its session if no coordinator has answered: `Stop` reading,
    or `KeepReading` the queues that it holds.
    """
    source: GroupSource
    """Where the messages are, and which of them the group reads."""


class MemberRefusal(msgspec.Struct, frozen=True, rename="camel"):
    """The body of every answer that refuses a request."""

    reason: str
    """The reason in one word, for programs. One HTTP status can have several reasons."""
    message: str
    """The explanation, for people."""
