"""
The options of the source and of the sink, parsed and checked before anything runs.

docs/spark.md lists the options. Their names are not case-sensitive, because Spark changes the case.
An invalid option raises a `UsageError` that names the option.
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
"""The name that error messages give to the use of each list of options."""
SPARKS_OWN = ("checkpointlocation",)
"""Other options that Spark passes to a streaming sink."""


class QueueEdge(Enum):
    """A named position in every queue."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"
    """The offset that the group has committed; the earliest one if it has committed none."""
    TIMESTAMP = "timestamp"


EARLIEST, LATEST = -2, -1
"""The meanings of the offsets -2 and -1 in options, as in Spark's source for Kafka."""


@dataclass(frozen=True, slots=True)
class StartOrEnd:
    """Where to start or end: the queues in `offsets` at these offsets, all others at `edge`."""

    edge: QueueEdge
    timestamp_ms: int = 0
    offsets: Mapping[MessageQueue, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How to reach a cluster. Spark sends this object to executors, so it holds no socket."""

    name_servers: str
    credentials: Credentials | None = None
    """If None, each process reads them from its environment, and Spark does not send them."""
    tls: str = "false"
    """`true`, `false`, or a file of CA certificates."""
    request_timeout: float = DEFAULT_TIMES.answer
    fetch_deadline: float = DEFAULT_TIMES.patience
    fetch_bytes: int = READER_BYTES
    """Approximate maximum, in bytes, of the pulled messages that one task holds in memory."""
    takes_environment: bool = False
    """Whether EVENKEEL_ACCESS_KEY and EVENKEEL_SECRET_KEY belong to this cluster."""

    def connect(self) -> Client:
        """Make a client, which opens connections when they are needed."""
        times = Times(answer=self.request_timeout, patience=self.fetch_deadline)
        return Client(
            self.name_servers, credentials=self.find_credentials(), tls=self.make_tls_context(),
            times=times,
        )  # fmt: skip

    def find_credentials(self) -> Credentials | None:
        """Find the credentials of this process, in the options or in its environment."""
        return self.credentials or (_read_environment() if self.takes_environment else None)

    def make_tls_context(self) -> ssl.SSLContext | None:
        """Make the TLS context; return None without TLS."""
        if self.tls == "false":
            return None
        return ssl.create_default_context(cafile=None if self.tls == "true" else self.tls)


@dataclass(frozen=True, slots=True)
class Reading:
    """What to read, where to start and end, and how to read."""

    cluster: ClusterOptions
    topics: tuple[str, ...]
    pattern: str | None
    group: str
    commits: bool
    """Whether to commit offsets to the brokers. True only if the user has named the group."""
    wanted: Filter
    start: StartOrEnd
    end: StartOrEnd
    most_messages: int | None
    most_bytes: int | None
    fail_on_data_loss: bool
    include_properties: bool

    def reads(self, topic: str) -> bool:
        """Whether this topic is read."""
        if self.pattern is None:
            return topic in self.topics
        return re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True, slots=True)
class Sending:
    """Where and how messages are sent."""

    cluster: ClusterOptions
    topic: str | None
    group: str
    ordering_key: str | None


def parse_reading(options: Mapping[str, str], is_stream: bool) -> Reading:
    """Parse the options of a stream, or of a bounded read."""
    given = _GivenOptions(options, STREAM if is_stream else BATCH)
    topics = tuple(
        name.strip() for name in (given.get_string("topics") or "").split(",") if name.strip()
    )
    pattern = given.get_string("topicPattern")
    if bool(topics) == (pattern is not None):
        raise UsageError("give either topics, as in 'orders,payments', or topicPattern")
    if pattern is not None:
        _check_pattern(pattern)
    group = given.get_string("group")
    return Reading(
        cluster=_parse_cluster(
            given, takes_environment=True
        ),  # not for sinks: a sink may use another cluster
        topics=topics,
        pattern=pattern,
        group=group or "evenkeel-source",
        commits=is_stream and group is not None,
        wanted=_parse_filter(given),
        start=_parse_start(given, is_stream, group),
        end=_parse_end(given),
        most_messages=given.get_number("maxMessagesPerBatch"),
        most_bytes=given.get_number("maxBytesPerBatch"),
        fail_on_data_loss=given.get_flag("failOnDataLoss", default=True),
        include_properties=given.get_flag("includeProperties", default=False),
    )


def parse_sending(options: Mapping[str, str]) -> Sending:
    """Parse the options of a sink."""
    ours = {name: value for name, value in options.items() if name.lower() not in SPARKS_OWN}
    given = _GivenOptions(ours, SINK)
    return Sending(
        cluster=_parse_cluster(given),
        topic=given.get_string("topic"),
        group=given.get_string("group") or "evenkeel-sink",
        ordering_key=given.get_string("orderingKey"),
    )


class _GivenOptions:
    """The given options, by name. Names are not case-sensitive."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        names = {name.lower(): name for name in known}
        for name in options:
            if name.lower() not in names:
                raise UsageError(_explain_unknown(name, known))
        self._values = {names[name.lower()]: value for name, value in options.items()}

    def get_string(self, name: str, default: str | None = None) -> str | None:
        return self._values.get(name, "").strip() or default

    def require(self, name: str, example: str) -> str:
        value = self.get_string(name)
        if value is None:
            raise UsageError(f"option {name} is missing; an example is {example!r}")
        return value

    def get_number(self, name: str) -> int | None:
        value = self.get_string(name)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and int(value) > 0):
            raise UsageError(f"{name}: {value!r} is not a whole number above 0")
        return int(value)

    def get_flag(self, name: str, *, default: bool) -> bool:
        value = self.get_string(name) or str(default)
        if value.lower() not in ("true", "false"):
            raise UsageError(f"{name}: {value!r} is neither true nor false")
        return value.lower() == "true"

    def get_seconds(self, name: str, default: float) -> float:
        value = self.get_string(name)
        if value is None:
            return default
        try:
            found = float(value.removesuffix("s"))
        except ValueError:
            found = 0.0
        if not 0 < found < float("inf"):
            raise UsageError(f"{name}: {value!r} is not a time in seconds, as in '30s'")
        return found


def _explain_unknown(name: str, known: tuple[str, ...]) -> str:
    """Explain an unknown option: it is for another kind of read or write, or may be misspelt."""
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


def _read_environment() -> Credentials | None:
    access, secret = (os.environ.get(name) for name in (ACCESS_KEY, SECRET_KEY))
    return Credentials(access, secret) if access and secret else None


def _parse_cluster(given: _GivenOptions, *, takes_environment: bool = False) -> ClusterOptions:
    access, secret = given.get_string("accessKey"), given.get_string("secretKey")
    if (access is None) != (secret is None):
        raise UsageError("accessKey and secretKey belong together: one of them is missing")
    tls = given.get_string("tls") or "false"
    if tls not in ("true", "false") and not Path(tls).is_file():
        raise UsageError(f"tls: {tls!r} is neither true nor false, nor a file of CA certificates")
    return ClusterOptions(
        name_servers=_parse_name_servers(given.require("nameServers", "localhost:9876")),
        credentials=Credentials(access, secret) if access and secret else None,
        tls=tls,
        request_timeout=given.get_seconds("requestTimeout", DEFAULT_TIMES.answer),
        fetch_deadline=given.get_seconds("fetchDeadline", DEFAULT_TIMES.patience),
        fetch_bytes=given.get_number("fetchMemory") or READER_BYTES,
        takes_environment=takes_environment,
    )


def _parse_name_servers(text: str) -> str:
    """Parse the addresses of name servers."""
    if "," in text:
        raise UsageError(
            f"nameServers: {text!r} has commas; separate name servers with ;, as in "
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
        raise UsageError(
            f"topicPattern: {pattern!r} is not a regular expression: {error}"
        ) from error


def _parse_filter(given: _GivenOptions) -> Filter:
    tags, sql = given.get_string("tags"), given.get_string("sqlFilter")
    if tags and sql:
        raise UsageError("give either tags or sqlFilter, not both")
    return filters.match_sql(sql) if sql else filters.match_tags(tags or filters.ALL)


def _parse_start(given: _GivenOptions, is_stream: bool, group: str | None) -> StartOrEnd:
    default = QueueEdge.GROUP if group else QueueEdge.LATEST if is_stream else QueueEdge.EARLIEST
    start = _parse_edge(given, "startFrom", "startTimestamp", default)
    if start.edge is QueueEdge.GROUP and not group:
        raise UsageError("startFrom: 'group' needs the option group")
    return start


def _parse_end(given: _GivenOptions) -> StartOrEnd:
    end = _parse_edge(given, "endAt", "endTimestamp", QueueEdge.LATEST)
    if end.edge in (QueueEdge.GROUP, QueueEdge.EARLIEST):
        raise UsageError(
            f"endAt: {end.edge.value!r} is not an end; use latest, timestamp, or offsets, as in "
            f"{journal.EXAMPLE}"
        )
    return end


def _parse_edge(given: _GivenOptions, name: str, time_name: str, default: QueueEdge) -> StartOrEnd:
    """
    Parse where reading starts or ends: earliest, latest and so on, or offsets as JSON.

    Queues that the JSON leaves out start or end at the default position.
    """
    text = given.get_string(name)
    timestamp = given.get_string(time_name)
    if text is None:
        text = QueueEdge.TIMESTAMP.value if timestamp else default.value
    if text.startswith("{"):
        return StartOrEnd(_choose_other_edge(default), offsets=_parse_offsets(name, text))
    try:
        edge = QueueEdge(text.lower())
    except ValueError:
        edges = ", ".join(each.value for each in QueueEdge)
        raise UsageError(
            f"{name}: {text!r} is neither one of {edges}, nor offsets, as in {journal.EXAMPLE}"
        ) from None
    if (edge is QueueEdge.TIMESTAMP) != (timestamp is not None):
        raise UsageError(f"{name}=timestamp and {time_name} belong together: one is missing")
    return StartOrEnd(edge, _parse_time(time_name, timestamp) if timestamp else 0)


def _choose_other_edge(default: QueueEdge) -> QueueEdge:
    return QueueEdge.LATEST if default is QueueEdge.LATEST else QueueEdge.EARLIEST


def _parse_offsets(name: str, text: str) -> Mapping[MessageQueue, int]:
    try:
        written = json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"{name}: {text!r} is not JSON ({error}); offsets look like {journal.EXAMPLE}"
        ) from error
    try:
        return journal.read_offsets(written, least=EARLIEST)
    except ValueError as error:
        raise UsageError(f"{name}: {error}; -2 is the earliest offset, -1 the latest") from error


def _parse_time(name: str, text: str) -> int:
    """Parse RFC 3339, or milliseconds since 1970."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise UsageError(
            f"{name}: {text!r} is not a time, as in 2026-11-21T08:00:00Z or 1795248000000"
        )
    return (time - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
