"""
Builds the job file of a group (`contract.job_file`). Pure.

The file is the same with and without Kubernetes, except for paths and Spark's settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from contract.job_file import JobCluster, JobFile, JobSink, JobTransform
from contract.kinds.groups import MessageFilter
from contract.kinds.jobs import Job, Sink
from contract.kinds.parts import KeyRef
from contract.names import SKIP
from evenkeel import planning, quantities, times
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic

MIB = 1024 * 1024
LEAST_FETCH_MIB, MOST_FETCH_MIB = 16, 256
"""
Limits of the default for a task's memory for messages. Less memory would be slow, and more would
not help.
"""


@dataclass(frozen=True, slots=True)
class Places:
    """The paths, secrets and cluster that a job file contains."""

    assignments: str
    report: str
    checkpoint: str
    files: Mapping[KeyRef, str] = field(default_factory=dict)
    """The paths of the users' Python files."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The folder of each Secret from which sinks read options, by the name of the Secret."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Options of the source that contain credentials."""
    metrics_port: int | None = None
    cluster: JobCluster | None = None
    """The ConsumerGroup that the driver follows; None if the driver follows files."""


def build(
    group: ConsumerGroup,
    topics: Mapping[Key, Topic],
    places: Places,
    spark: Mapping[str, str],
    executors: int,
) -> JobFile:
    """Build a group's job file. `spark` contains all of Spark's settings, including the user's."""
    job = _job(group)
    return JobFile(
        name=group.group,
        origin=group.head.origin,
        source=_source(group, job, topics) | dict(places.secrets),
        assignments=places.assignments,
        report=places.report,
        checkpoint=places.checkpoint,
        transform=_transform(job, places),
        sink=_sink(job.sink, places),
        dead_letter=_sink(job.dead_letter, places) if job.dead_letter else None,
        messages=planning.find_pop_terms(group, topics) if planning.is_by_message(group) else None,
        executors=executors,
        mode=job.mode,
        engine=job.engine,
        lanes=job.lanes or 1,
        trigger_seconds=times.parse_duration(job.trigger),
        skip=group.head.annotations.get(SKIP, ""),
        metrics_port=places.metrics_port,
        spark=dict(spark),
        kubernetes=places.cluster,
    )


def list_refs(group: ConsumerGroup) -> list[KeyRef]:
    """List the users' Python files that a job needs."""
    job = _job(group)
    parts = (job.transform, job.sink, job.dead_letter)
    return [part.config_map_ref for part in parts if part and part.config_map_ref]


def list_secrets(group: ConsumerGroup) -> list[str]:
    """List the Secrets from which the sinks of a job read options."""
    job = _job(group)
    sinks = (job.sink, job.dead_letter)
    return sorted({each.options_from.name for each in sinks if each and each.options_from})


def _job(group: ConsumerGroup) -> Job:
    if group.spec.job is None:
        raise ManifestError(f"{group} has no job")
    return group.spec.job


def _source(group: ConsumerGroup, job: Job, topics: Mapping[Key, Topic]) -> dict[str, str]:
    if missing := [str(key) for key in group.topic_keys if key not in topics]:
        raise ManifestError(f"{group}: there is no Topic {' and no '.join(missing)}")
    found = [topics[key] for key in group.topic_keys]
    servers = {tuple(topic.spec.name_servers or ()) for topic in found}
    if servers == {()}:
        raise ManifestError(
            f"{group}: none of its topics has spec.nameServers, which its job needs to read them"
        )
    if len(servers) > 1:
        raise ManifestError(
            f"{group}: its topics are on different name servers; create a group for each topic"
        )
    most = job.max_messages_per_batch
    return _drop_none(
        {
            "nameServers": ";".join(*servers),
            "topics": ",".join(topic.topic for topic in found),
            "group": group.group,
            "startFrom": job.start_from.value.lower(),
            "startTimestamp": job.start_timestamp,
            "maxMessagesPerBatch": None if most is None else str(most),
            "fetchDeadline": f"{times.parse_duration(job.fetch_deadline):g}s",
            "fetchMemory": str(_fetch_bytes(job)),
            "failOnDataLoss": str(job.fail_on_data_loss).lower(),
            **_filter(group),
        }
    )


def _fetch_bytes(job: Job) -> int:
    """
    Compute the memory of a task for messages.

    By default it is a small part of the executor's memory. Each core runs one task, and Java needs
    most of the memory.
    """
    if job.fetch_memory is not None:
        return max(1, quantities.parse_mib(job.fetch_memory)) * MIB
    part = quantities.parse_mib(job.executor.memory) // (16 * job.executor.cores)
    return min(max(part, LEAST_FETCH_MIB), MOST_FETCH_MIB) * MIB


def _filter(group: ConsumerGroup) -> dict[str, str]:
    wanted = {each.filter or MessageFilter() for each in group.spec.topics}
    if len(wanted) > 1:
        raise ManifestError(
            f"{group}: a job can have only one filter; use the same filter for all its topics"
        )
    (only,) = wanted
    return _drop_none({"tags": only.tags, "sqlFilter": only.sql})


def _transform(job: Job, places: Places) -> JobTransform:
    if job.transform is None:
        return JobTransform()
    ref = job.transform.config_map_ref
    given = job.transform
    file = places.files[ref] if ref else None
    return JobTransform(sql=given.sql, duckdb=given.duckdb, file=file)


def _sink(sink: Sink, places: Places) -> JobSink:
    if sink.config_map_ref is not None:
        return JobSink(file=places.files[sink.config_map_ref])
    secret = sink.options_from
    return JobSink(
        format=sink.format,
        path=sink.path,
        options=sink.options,
        options_from=places.options[secret.name] if secret else None,
    )


def _drop_none(options: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}
