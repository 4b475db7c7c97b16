"""
The job file tells a driver which source to read, what to do with rows, and where to write them.

The operator writes it into a ConfigMap, `evenkeel run` writes it into a file, and users who start a
pinned job themselves write it by hand. A driver rejects unknown fields. So `encode` leaves out
fields with default values: an older driver then still starts if new fields are not used.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from contract.following import PopTerms
from contract.kinds.jobs import MOST_EXECUTORS, JobEngine, Mode


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A part of the file."""


class JobSink(_Part, frozen=True):
    """Where rows go: a Spark format, or a Python file with `write(df, query_id, batch_id)`."""

    format: str | None = None
    path: str | None = None
    options: dict[str, str] = {}
    options_from: str | None = None
    """
    A folder, such as a mounted Secret. Each file in it is a further option with the file's name.
    """
    file: str | None = None


class JobTransform(_Part, frozen=True):
    """What happens to rows: a Spark or DuckDB query over `messages`, or a function."""

    sql: str | None = None
    duckdb: str | None = None
    file: str | None = None


class JobCluster(_Part, frozen=True):
    """Where the driver finds its ConsumerGroup, and its identity."""

    namespace: Annotated[str, Meta(min_length=1)]
    name: Annotated[str, Meta(min_length=1)]
    holder: str = ""
    """Default: the uid of the driver's pod, from its environment."""
    server: str = "https://kubernetes.default.svc"
    credentials: str = "/var/run/secrets/kubernetes.io/serviceaccount"


class JobFile(_Part, frozen=True):
    """The whole file."""

    name: Annotated[str, Meta(min_length=1)]
    source: dict[str, str]
    """Options of the rocketmq source; see docs/spark.md."""
    assignments: str
    report: str
    checkpoint: str
    sink: JobSink
    origin: str = ""
    """Identifies the object that the driver runs for, also in its client id (`client_ids`)."""
    transform: JobTransform = JobTransform()
    dead_letter: JobSink | None = None
    messages: PopTerms | None = None
    """How to pop messages, if the group is balanced by message."""
    executors: Annotated[int, Meta(ge=1)] = 2
    """How many executors to start, until an assignment lists the slots."""
    mode: Mode = Mode.STREAMING
    engine: JobEngine | None = None
    """Default: the driver chooses."""
    lanes: Annotated[int, Meta(ge=1, le=MOST_EXECUTORS)] = 1
    """With batches: how many run at the same time, each for a part of the slots."""
    trigger_seconds: Annotated[float, Meta(ge=0)] = 1.0
    skip: str = ""
    """If the value is new to the job, the job skips lost messages once."""
    metrics_port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    spark: dict[str, str] = {}
    """Spark configuration properties."""
    kubernetes: JobCluster | None = None


def encode(job: JobFile) -> str:
    """
    Write the text of a job file, with sorted dictionaries and without fields at their default.

    Drivers with an older image reject new fields, so unused fields must be left out. msgspec itself
    leaves out a field only if its value and the default are the same object, but equal numbers are
    often different objects.
    """
    document = _drop_defaults(job)
    return msgspec.json.format(msgspec.json.encode(document, order="deterministic")).decode()


def _drop_defaults(part: msgspec.Struct) -> dict[str, object]:
    kept: dict[str, object] = {}
    for field in msgspec.structs.fields(part):
        value = getattr(part, field.name)
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        if value != default:
            is_part = isinstance(value, msgspec.Struct)
            kept[field.encode_name] = _drop_defaults(value) if is_part else value
    return kept


def decode(text: bytes | str) -> JobFile:
    """Parse the text of a job file. Errors of msgspec name the field."""
    return msgspec.json.decode(text, type=JobFile)
