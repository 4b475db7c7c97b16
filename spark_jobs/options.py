"""
What users may ask of the source and of the sink, read and checked before anything runs.

Names are as in docs/spark.md, in any case, as Spark gives them. What cannot be is a `UsageError`
that names the option.
"""

import difflib
import json
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path

from contract.names import ACCESS_KEY, SECRET_KEY
from mq_client import filters
from mq_client.acl import Credentials
from mq_client.blocking import Client
from mq_client.directory import DEFAULT_TIMES, Times, check_address
from mq_client.errors import UsageError
from mq_client.filters import Filter
from mq_client.pulling import READER_BYTES
from mq_client.values import MessageQueue
from spark_jobs import journal

CLUSTER = ("nameServers", "accessKey", "secretKey", "tls", "requestTimeout")
READING = (
    *CLUSTER, "topics", "topicPattern", "group", "tags", "sqlFilter", "startFrom", "startTimestamp",
    "failOnDataLoss", "includeProperties", "fetchDeadline",
    "fetchMemory",
)  # fmt: skip
STREAM = (*READING, "maxMessagesPerBatch", "maxBytesPerBatch")
BATCH = (*READING, "endAt", "endTimestamp")
SINK = (*CLUSTER, "topic", "group", "orderingKey")
WHERE = {
    STREAM: "a stream (spark.readStream)",
    BATCH: "a batch read (spark.read)",
    SINK: "the sink (df.write, df.writeStream)",
}
"""What takes which options, for errors."""
SPARKS_OWN = ("checkpointlocation",)
"""What a streaming sink is told besides."""


class QueueEdge(Enum):
    """A place in every queue that has a name."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"
    """Where the consumer group stands; the earliest message of a queue that it never read."""
    TIMESTAMP = "timestamp"


EARLIEST, LATEST = -2, -1
"""In offsets that a user gives, as Kafka's source has them."""


@dataclass(frozen=True, slots=True)
class StartOrEnd:
    """Where to start or to end: at an edge, or at these offsets; the edge for all other queues."""

    edge: QueueEdge
    timestamp_ms: int = 0
    offsets: Mapping[MessageQueue, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How to reach a cluster. It travels to executors, so it holds no socket."""

    name_servers: str
    credentials: Credentials | None = None
    """None: those of the environment, if it has some; so they do not travel."""
    tls: str = "false"
    """`true`, `false`, or a file of the authorities to trust."""
    request_timeout: float = DEFAULT_TIMES.answer
    fetch_deadline: float = DEFAULT_TIMES.patience
    fetch_bytes: int = READER_BYTES
    """What one task holds of pulled messages that it has not given yet, about."""
    takes_environment: bool = False
    """Whether EVENKEEL_ACCESS_KEY and EVENKEEL_SECRET_KEY are for this cluster."""

    def connect(self) -> Client:
        """Make a client; it opens connections when they are needed."""
        times = Times(answer=self.request_timeout, patience=self.fetch_deadline)
        credentials = self.credentials or (_of_environment() if self.takes_environment else None)
        return Client(self.name_servers, credentials=credentials, tls=self._context(), times=times)

    def _context(self) -> ssl.SSLContext | None:
        if self.tls == "false":
            return None
        return ssl.create_default_context(cafile=None if self.tls == "true" else self.tls)


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read, from where to where, and how."""

    cluster: ClusterOptions
    topics: tuple[str, ...]
    pattern: str | None
    group: str
    commits: bool
    """Whether the broker is told how far the group is: only if the user named it."""
    wanted: Filter
    start: StartOrEnd
    end: StartOrEnd
    most_messages: int | None
    most_bytes: int | None
    fail_on_data_loss: bool
    include_properties: bool

    def reads(self, topic: str) -> bool:
        """Whether this topic is asked for."""
        if self.pattern is None:
            return topic in self.topics
        return re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True, slots=True)
class Sending:
    """Where messages go."""

    cluster: ClusterOptions
    topic: str | None
    group: str
    ordering_key: str | None


def reading(options: Mapping[str, str], is_stream: bool) -> Reading:
    """Read the options of a stream, or of a bounded read."""
    given = _Given(options, STREAM if is_stream else BATCH)
    topics = tuple(name.strip() for name in (given.text("topics") or "").split(",") if name.strip())
    pattern = given.text("topicPattern")
    if bool(topics) == (pattern is not None):
        raise UsageError("give either topics, as in 'orders,payments', or topicPattern")
    if pattern is not None:
        _check_pattern(pattern)
    group = given.text("group")
    return Reading(
        cluster=_cluster(given, takes_environment=True),  # a sink may be another cluster
        topics=topics,
        pattern=pattern,
        group=group or "evenkeel-source",
        commits=is_stream and group is not None,
        wanted=_filter(given),
        start=_start(given, is_stream, group),
        end=_end(given),
        most_messages=given.number("maxMessagesPerBatch"),
        most_bytes=given.number("maxBytesPerBatch"),
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        include_properties=given.flag("includeProperties", default=False),
    )


def sending(options: Mapping[str, str]) -> Sending:
    """Read the options of a sink."""
    ours = {name: value for name, value in options.items() if name.lower() not in SPARKS_OWN}
    given = _Given(ours, SINK)
    return Sending(
        cluster=_cluster(given),
        topic=given.text("topic"),
        group=given.text("group") or "evenkeel-sink",
        ordering_key=given.text("orderingKey"),
    )


class _Given:
    """Options by name, in any case."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        names = {name.lower(): name for name in known}
        for name in options:
            if name.lower() not in names:
                raise UsageError(_unknown(name, known))
        self._values = {names[name.lower()]: value for name, value in options.items()}

    def text(self, name: str, default: str | None = None) -> str | None:
        return self._values.get(name, "").strip() or default

    def needed(self, name: str, example: str) -> str:
        value = self.text(name)
        if value is None:
            raise UsageError(f"option {name} is needed, as in {example!r}")
        return value

    def number(self, name: str) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and int(value) > 0):
            raise UsageError(f"{name}: {value!r} is no whole number above 0")
        return int(value)

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.text(name) or str(default)
        if value.lower() not in ("true", "false"):
            raise UsageError(f"{name}: {value!r} is neither true nor false")
        return value.lower() == "true"

    def seconds(self, name: str, default: float) -> float:
        value = self.text(name)
        if value is None:
            return default
        try:
            found = float(value.removesuffix("s"))
        except ValueError:
            found = 0.0
        if not 0 < found < float("inf"):
            raise UsageError(f"{name}: {value!r} is no time in seconds, as in '30s'")
        return found


def _unknown(name: str, known: tuple[str, ...]) -> str:
    """Say what is wrong with an option: it belongs to another kind, or is perhaps misspelt."""
    others = [
        where
        for taken, where in WHERE.items()
        if taken != known and name.lower() in map(str.lower, taken)
    ]
    lowered = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), lowered, 1, cutoff=0.9 if others else 0.6)
    hint = f"; did you mean {lowered[near[0]]}?" if near else ""
    if others:
        return f"option {name!r} is for {' and '.join(others)}, not for {WHERE[known]}{hint}"
    return f"option {name!r} is unknown here{hint}"


def _of_environment() -> Credentials | None:
    access, secret = (os.environ.get(name) for name in (ACCESS_KEY, SECRET_KEY))
    return Credentials(access, secret) if access and secret else None


def _cluster(given: _Given, *, takes_environment: bool = False) -> ClusterOptions:
    access, secret = given.text("accessKey"), given.text("secretKey")
    if (access is None) != (secret is None):
        raise UsageError("accessKey and secretKey belong together: one of them is missing")
    tls = given.text("tls") or "false"
    if tls not in ("true", "false") and not Path(tls).is_file():
        raise UsageError(f"tls: {tls!r} is neither true nor false, and no file of authorities")
    return ClusterOptions(
        name_servers=_name_servers(given.needed("nameServers", "localhost:9876")),
        credentials=Credentials(access, secret) if access and secret else None,
        tls=tls,
        request_timeout=given.seconds("requestTimeout", DEFAULT_TIMES.answer),
        fetch_deadline=given.seconds("fetchDeadline", DEFAULT_TIMES.patience),
        fetch_bytes=given.number("fetchMemory") or READER_BYTES,
        takes_environment=takes_environment,
    )


def _name_servers(text: str) -> str:
    """Check the addresses of name servers."""
    if "," in text:
        raise UsageError(
            f"nameServers: {text!r} has commas; put ; between name servers, as in "
            "'mq-1:9876;mq-2:9876'"
        )
    addresses = [each for each in text.split(";") if each.strip()]
    try:
        return ";".join(map(check_address, addresses))
    except UsageError as error:
        raise UsageError(f"nameServers: {error}") from error


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(f"topicPattern: {pattern!r} is no regular expression: {error}") from error


def _filter(given: _Given) -> Filter:
    tags, sql = given.text("tags"), given.text("sqlFilter")
    if tags and sql:
        raise UsageError("give either tags or sqlFilter")
    return filters.match_sql(sql) if sql else filters.match_tags(tags or filters.ALL)


def _start(given: _Given, is_stream: bool, group: str | None) -> StartOrEnd:
    default = QueueEdge.GROUP if group else QueueEdge.LATEST if is_stream else QueueEdge.EARLIEST
    place = _place(given, "startFrom", "startTimestamp", default)
    if place.edge is QueueEdge.GROUP and not group:
        raise UsageError("startFrom: 'group' needs the option group")
    return place


def _end(given: _Given) -> StartOrEnd:
    place = _place(given, "endAt", "endTimestamp", QueueEdge.LATEST)
    if place.edge in (QueueEdge.GROUP, QueueEdge.EARLIEST):
        raise UsageError(
            f"endAt: {place.edge.value!r} is not an end; take latest, timestamp, or offsets, as in "
            f"{journal.EXAMPLE}"
        )
    return place


def _place(given: _Given, name: str, time_name: str, default: QueueEdge) -> StartOrEnd:
    """Read an edge, or offsets as JSON. A queue that the offsets leave out has the default edge."""
    text = given.text(name)
    timestamp = given.text(time_name)
    if text is None:
        text = QueueEdge.TIMESTAMP.value if timestamp else default.value
    if text.startswith("{"):
        return StartOrEnd(_beside_offsets(default), offsets=_offsets(name, text))
    try:
        edge = QueueEdge(text.lower())
    except ValueError:
        edges = ", ".join(each.value for each in QueueEdge)
        raise UsageError(
            f"{name}: {text!r} is neither one of {edges}, nor offsets, as in {journal.EXAMPLE}"
        ) from None
    if (edge is QueueEdge.TIMESTAMP) != (timestamp is not None):
        raise UsageError(f"{name}=timestamp and {time_name} belong together")
    return StartOrEnd(edge, _milliseconds(time_name, timestamp) if timestamp else 0)


def _beside_offsets(default: QueueEdge) -> QueueEdge:
    return QueueEdge.LATEST if default is QueueEdge.LATEST else QueueEdge.EARLIEST


def _offsets(name: str, text: str) -> Mapping[MessageQueue, int]:
    try:
        written = json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"{name}: {text!r} is not JSON ({error}); offsets look like {journal.EXAMPLE}"
        ) from error
    try:
        return journal.offsets(written, least=EARLIEST)
    except ValueError as error:
        raise UsageError(f"{name}: {error}; -2 is the earliest offset, -1 the latest") from error


def _milliseconds(name: str, text: str) -> int:
    """Read RFC 3339, or milliseconds since 1970."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise UsageError(
            f"{name}: {text!r} is no time, as in 2026-11-21T08:00:00Z or 1795248000000"
        )
    return (time - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
