"""Reads the job file (`contract.job_file`) and checks it; errors name the invalid field."""

import os
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from contract import job_file, names
from contract.job_file import JobCluster, JobFile
from mq_client.errors import UsageError
from spark_jobs.pipeline import sink_paths


def load(path: str | Path) -> JobFile:
    """Read the file of a job, and check it."""
    try:
        job = job_file.decode(Path(path).read_bytes())
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"job {path}: {error}") from error
    for name, sink in (("sink", job.sink), ("deadLetter", job.dead_letter)):
        if sink and (sink.format is None) == (sink.file is None):
            raise UsageError(f"job {path}: {name} needs either format or file")
    _check_paths(path, job)
    job = _add_options(path, job)
    given = [name for name, each in msgspec.structs.asdict(job.transform).items() if each]
    if len(given) > 1:
        raise UsageError(f"job {path}: transform has {' and '.join(given)}; give only one of them")
    if job.kubernetes is None:
        return job
    try:
        return msgspec.structs.replace(job, kubernetes=_fill_in_driver(job.kubernetes))
    except UsageError as error:
        raise UsageError(f"job {path}: kubernetes.{error}") from error


def _add_options(path: str | Path, job: JobFile) -> JobFile:
    """Add the options of `optionsFrom`: others may read the job file, so they are not in it."""
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


def _check_paths(path: str | Path, job: JobFile) -> None:
    """Refuse dead letters that would replace the sink's files, or be read as a part of them."""
    sink, dead = job.sink.path, job.dead_letter.path if job.dead_letter else None
    if sink and dead and sink_paths.overlap(sink, dead):
        raise UsageError(
            f"job {path}: deadLetter.path {dead} and sink.path {sink} are the same, or one lies in "
            "the other; use separate folders"
        )


def _fill_in_driver(found: JobCluster) -> JobCluster:
    """Fill in the id of the driver's pod, and check the server and the credentials."""
    holder = found.holder or os.environ.get(names.POD_UID, "")
    if not holder:
        raise UsageError(f"holder is missing, here and in the environment as {names.POD_UID}")
    if not _is_https(found.server):
        raise UsageError(f"server must be https://HOST or https://HOST:PORT, not {found.server!r}")
    for name in ("token", "ca.crt"):
        file = Path(found.credentials, name)
        if not file.is_file():
            raise UsageError(
                f"credentials: {file} does not exist; the token of a service account is needed"
            )
    return msgspec.structs.replace(found, holder=holder)


def _is_https(server: str) -> bool:
    try:
        parts = urlsplit(server)
        return parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
