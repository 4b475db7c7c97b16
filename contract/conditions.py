"""
The types and reasons of the conditions of both kinds.

docs/operator.md explains every reason, and alerts select by reasons. A status may contain types and
reasons of a later version, so readers must expect strings that are not listed here.
"""

from enum import StrEnum


class ConditionType(StrEnum):
    """What a condition is about."""

    READY = "Ready"
    ASSIGNED = "Assigned"
    BALANCED = "Balanced"
    JOB_RUNNING = "JobRunning"
    PINNED = "Pinned"
    ADVISORY = "Advisory"
    PAUSED = "Paused"
    DRAINED = "Drained"
    CONFLICTED = "Conflicted"
    PROVISIONED = "Provisioned"
    FOLLOWED = "Followed"


class ConditionReason(StrEnum):
    """Why a condition has its status, in one word."""

    # Reasons of a group that is ready.
    RUNNING = "Running"
    ASSIGNED = "Assigned"
    NOT_RUNNING = "NotRunning"

    # Reasons of a group that is not ready.
    STARTING = "Starting"
    ROUTE_PENDING = "RoutePending"
    TOPIC_NOT_FOUND = "TopicNotFound"
    ROUTE_UNKNOWN = "RouteUnknown"
    SLICES_MISSING = "SlicesMissing"
    PODS_UNKNOWN = "PodsUnknown"
    MEMBERS_UNKNOWN = "MembersUnknown"
    BALANCE_CHANGES = "BalanceChanges"
    NAMESPACE_FORBIDDEN = "NamespaceForbidden"
    UNOWNED = "Unowned"
    NOT_READABLE = "NotReadable"
    BROKERS_UNFIT = "BrokersUnfit"
    INVALID_SPEC = "InvalidSpec"
    OLDER_GROUP = "OlderGroup"
    OLDER_TOPIC = "OlderTopic"
    STATUS_UNREADABLE = "StatusUnreadable"
    STATUS_REFUSED = "StatusRefused"
    FOREIGN_CONSUMERS = "ForeignConsumers"
    OTHER_DRIVER = "OtherDriver"
    JOB_ENDS = "JobEnds"
    BACKING_OFF = "BackingOff"
    FAILED = "Failed"
    ENDED = "Ended"
    JOB_REPORTS = "JobReports"
    JOB_CHANGES = "JobChanges"

    # Reasons of other conditions of a group.
    ALL_OWNED = "AllOwned"
    BROADCASTING = "Broadcasting"
    BY_MESSAGE = "ByMessage"
    EVEN = "Even"
    UNEVEN = "Uneven"
    IDLE_CONSUMERS = "IdleConsumers"
    DEFERRED = "Deferred"
    NO_CONSUMERS = "NoConsumers"
    SEEN = "Seen"
    NOT_SEEN = "NotSeen"
    NO_JOB = "NoJob"
    ASKED = "Asked"
    NOT_UNDERSTOOD = "NotUnderstood"
    READ_BY_OWNERS = "ReadByOwners"
    LENT = "Lent"
    HANDING_OVER = "HandingOver"
    EMPTY = "Empty"
    DRAINING = "Draining"

    # Reasons of a topic.
    ROUTE_READ = "RouteRead"
    BROKER_AWAY = "BrokerAway"
    TOPIC_UNKNOWN = "TopicUnknown"
    NAME_SERVER_UNREACHABLE = "NameServerUnreachable"
    NAME_SERVER_REFUSES = "NameServerRefuses"
    NAME_SERVER_NOT_ALLOWED = "NameServerNotAllowed"
    NO_QUEUES = "NoQueues"
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105  a reason
    SECRET_INCOMPLETE = "SecretIncomplete"  # noqa: S105  a reason
    SECRET_FORBIDDEN = "SecretForbidden"  # noqa: S105  a reason
    TLS_NOT_HERE = "TlsNotHere"
    AS_ASKED = "AsAsked"
    CREATING = "Creating"
    REFUSED = "Refused"
    BROKER_UNAVAILABLE = "BrokerUnavailable"
