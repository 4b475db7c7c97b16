"""What one job is: read from a JSON file, with errors that name the field."""

import os
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from mq_client.errors import UsageError
from spark_jobs.pipeline import sink_paths

POD_UID = "EVENKEEL_POD_UID"


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A part of the file: no name in it may be unknown."""


class Sink(_Strict, frozen=True):
    """Where rows go: a format of Spark's, or a Python file with `write(df, query_id, batch_id)`."""

    format: str | None = None
    path: str | None = None
    options: dict[str, str] = {}
    options_from: str | None = None
    """A folder of files: each is an option more, by its name. A mounted Secret is one."""
    file: str | None = None


class Transform(_Strict, frozen=True):
    """What happens to rows: an SQL text over `messages`, or a Python file with `transform(df)`."""

    sql: str | None = None
    file: str | None = None


class Kubernetes(_Strict, frozen=True):
    """Where the driver finds its ConsumerGroup, and who it is there."""

    namespace: Annotated[str, Meta(min_length=1)]
    name: Annotated[str, Meta(min_length=1)]
    holder: str = ""
    """By default what the environment says."""
    server: str = "https://kubernetes.default.svc"
    credentials: str = "/var/run/secrets/kubernetes.io/serviceaccount"


class Job(_Strict, frozen=True):
    """A job. `source` holds the options of the rocketmq source."""

    name: Annotated[str, Meta(min_length=1)]
    source: dict[str, str]
    assignments: str
    report: str
    checkpoint: str
    sink: Sink
    origin: str = ""
    """Which object it runs for: its client id ends with it, so that others know it apart."""
    transform: Transform = Transform()
    dead_letter: Sink | None = None
    executors: Annotated[int, Meta(ge=1)] = 2
    mode: Literal["Streaming", "Scheduled"] = "Streaming"
    trigger_seconds: Annotated[float, Meta(ge=0)] = 1.0
    skip: str = ""
    """A text that it did not have before: pass over what is lost, once."""
    metrics_port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    spark: dict[str, str] = {}
    kubernetes: Kubernetes | None = None


def load(path: str | Path) -> Job:
    """Read a job."""
    try:
        job = msgspec.json.decode(Path(path).read_bytes(), type=Job)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"job {path}: {error}") from error
    for name, sink in (("sink", job.sink), ("deadLetter", job.dead_letter)):
        if sink and (sink.format is None) == (sink.file is None):
            raise UsageError(f"job {path}: {name} needs either format or file")
    _check_paths(path, job)
    job = _with_options(path, job)
    if job.transform.sql and job.transform.file:
        raise UsageError(f"job {path}: transform takes either sql or file")
    if job.kubernetes is None:
        return job
    try:
        return msgspec.structs.replace(job, kubernetes=_named(job.kubernetes))
    except UsageError as error:
        raise UsageError(f"job {path}: kubernetes.{error}") from error


def _with_options(path: str | Path, job: Job) -> Job:
    """Read options that the job's file does not hold, for others may read that."""
    sinks = {"sink": job.sink, "dead_letter": job.dead_letter}
    try:
        read = {
            name: msgspec.structs.replace(
                each, options=each.options | _read_options(Path(each.options_from))
            )
            for name, each in sinks.items()
            if each and each.options_from
        }
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"job {path}: optionsFrom cannot be read: {error}") from error
    return msgspec.structs.replace(job, **read)


def _read_options(folder: Path) -> dict[str, str]:
    files = [each for each in sorted(folder.iterdir()) if not each.name.startswith(".")]
    return {each.name: each.read_text(encoding="utf-8").removesuffix("\n") for each in files}


def _check_paths(path: str | Path, job: Job) -> None:
    """Refuse dead letters that would replace what the sink writes, or be read as a part of it."""
    sink, dead = job.sink.path, job.dead_letter.path if job.dead_letter else None
    if sink and dead and sink_paths.overlap(sink, dead):
        raise UsageError(
            f"job {path}: deadLetter.path {dead} and sink.path {sink} are the same, or one lies in "
            "the other; give them places apart"
        )


def _named(found: Kubernetes) -> Kubernetes:
    """Check what a file cannot say of itself, and fill in who the driver is."""
    holder = found.holder or os.environ.get(POD_UID, "")
    if not holder:
        raise UsageError(f"holder is needed, here or in the environment as {POD_UID}")
    if not _is_https(found.server):
        raise UsageError(f"server must be https://HOST or https://HOST:PORT, not {found.server!r}")
    for name in ("token", "ca.crt"):
        file = Path(found.credentials, name)
        if not file.is_file():
            raise UsageError(
                f"credentials: {file} is not there; a service account's token is needed"
            )
    return msgspec.structs.replace(found, holder=holder)


def _is_https(server: str) -> bool:
    try:
        parts = urlsplit(server)
        return parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
