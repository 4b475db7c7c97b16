"""
The job file: what a driver runs, from where to where.

The operator writes it into a ConfigMap, `evenkeel run` into a file, and users of pinned jobs write
it by hand. A driver rejects fields that it does not know. So a field at its default is left out of
the text: a driver that is older than the field still starts, as long as the field is not used.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from contract.kinds.jobs import Mode


class _Part(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """A part of the file."""


class JobSink(_Part, frozen=True):
    """Where rows go: a format of Spark's, or a Python file with `write(df, query_id, batch_id)`."""

    format: str | None = None
    path: str | None = None
    options: dict[str, str] = {}
    options_from: str | None = None
    """A folder: each file in it is one more option, with its name. A mounted Secret is one."""
    file: str | None = None


class JobTransform(_Part, frozen=True):
    """What happens to rows: an SQL text over `messages`, or a Python file with `transform(df)`."""

    sql: str | None = None
    file: str | None = None


class JobCluster(_Part, frozen=True):
    """Where the driver finds its ConsumerGroup, and who it is there."""

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
    """Options of the rocketmq source, as in docs/spark.md."""
    assignments: str
    report: str
    checkpoint: str
    sink: JobSink
    origin: str = ""
    """The object that the driver runs for. Its client id ends with it (`contract.client_ids`)."""
    transform: JobTransform = JobTransform()
    dead_letter: JobSink | None = None
    executors: Annotated[int, Meta(ge=1)] = 2
    """How many, until an assignment lists the slots."""
    mode: Mode = Mode.STREAMING
    trigger_seconds: Annotated[float, Meta(ge=0)] = 1.0
    skip: str = ""
    """A value that the job did not have before skips lost messages, once."""
    metrics_port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    spark: dict[str, str] = {}
    """Spark's own settings."""
    kubernetes: JobCluster | None = None


def encode(job: JobFile) -> str:
    """Write the text of a job, with the entries of its dicts in order."""
    return msgspec.json.format(msgspec.json.encode(job, order="deterministic")).decode()


def decode(text: bytes | str) -> JobFile:
    """Read the text of a job. An error of msgspec names the field."""
    return msgspec.json.decode(text, type=JobFile)
