"""What one job is: read from a JSON file, with errors that name the field."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mq_client.errors import UsageError


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A part of the file: no name in it may be unknown."""


class Sink(_Strict, frozen=True):
    """Where rows go: a format of Spark's, or a Python file with `write(df, query_id, batch_id)`."""

    format: str | None = None
    path: str | None = None
    options: dict[str, str] = {}
    file: str | None = None


class Transform(_Strict, frozen=True):
    """What happens to rows: an SQL text over `messages`, or a Python file with `transform(df)`."""

    sql: str | None = None
    file: str | None = None


class Job(_Strict, frozen=True):
    """A job. `source` holds the options of the rocketmq source."""

    name: Annotated[str, Meta(min_length=1)]
    source: dict[str, str]
    assignments: str
    report: str
    checkpoint: str
    sink: Sink
    transform: Transform = Transform()
    dead_letter: Sink | None = None
    executors: Annotated[int, Meta(ge=1)] = 2
    mode: Literal["Streaming", "Scheduled"] = "Streaming"
    trigger_seconds: Annotated[float, Meta(ge=0)] = 1.0
    metrics_port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    spark: dict[str, str] = {}


def load(path: str | Path) -> Job:
    """Read a job."""
    try:
        job = msgspec.json.decode(Path(path).read_bytes(), type=Job)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"job {path}: {error}") from error
    for name, sink in (("sink", job.sink), ("deadLetter", job.dead_letter)):
        if sink and (sink.format is None) == (sink.file is None):
            raise UsageError(f"job {path}: {name} needs either format or file")
    if job.transform.sql and job.transform.file:
        raise UsageError(f"job {path}: transform takes either sql or file")
    return job
