"""Chooses the engine of a job whose user has not chosen one."""

from dataclasses import dataclass

from contract.job_file import JobFile, JobSink
from contract.kinds.jobs import JobEngine, Mode
from mq_client.errors import UsageError
from spark_jobs.options import Reading
from spark_jobs.pipeline import users_part
from spark_jobs.pipeline.flow import users
from spark_jobs.pipeline.flow.sinks import choosing, postgres

IN_SPARKS_WAY = ("csv", *choosing.TABLES)
"""Formats that a flow writes differently from Spark. For them, only a user may choose Flow."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine of a job, and why it was chosen."""

    engine: JobEngine
    reason: str = ""
    """Empty if the user has chosen."""

    def __str__(self) -> str:
        """Describe the choice for people."""
        return f"{self.engine.value}, {self.reason}" if self.reason else self.engine.value


def choose(job: JobFile, reading: Reading) -> EngineChoice:
    """Choose the engine. Refuse engine Batch for a sink or a query that only engine Flow has."""
    choice = _choose(job, reading)
    if choice.engine is JobEngine.BATCH:
        if job.messages is not None:
            raise _make_refusal("a group with balance Messages", choice)
        if postgres.FORMAT in [each.format for each in _list_sinks(job)]:
            raise _make_refusal(f"format {postgres.FORMAT}", choice)
        if job.transform.duckdb:
            raise _make_refusal("transform.duckdb", choice)
    return choice


def _make_refusal(what: str, choice: EngineChoice) -> UsageError:
    return UsageError(f"{what} is for engine Flow, and the engine is {choice}")


def _list_sinks(job: JobFile) -> list[JobSink]:
    return [each for each in (job.sink, job.dead_letter) if each is not None]


def _choose(job: JobFile, reading: Reading) -> EngineChoice:
    """Return the user's choice. Without one, return Flow if it does the same as Batch, faster."""
    if job.engine is not None:
        return EngineChoice(job.engine)
    if job.messages is not None:
        return EngineChoice(JobEngine.FLOW, "because the group has balance Messages")
    obstacles = users.list_obstacles(job)
    if reading.most_messages is not None or reading.most_bytes is not None:
        obstacles.append("a limit for the messages of a batch")
    if job.mode is Mode.SCHEDULED:
        obstacles.append("a scheduled run that ends although a queue stands still")
    sinks = _list_sinks(job)
    if any(map(choosing.writes_to_s3, sinks)):
        obstacles.append("files in S3 in Spark's way")
    formats = [each.format for each in sinks]
    obstacles += [f"{each} in Spark's way" for each in IN_SPARKS_WAY if each in formats]
    file = job.transform.file
    if file is not None and not users_part.has_function(file, users.FUNCTION):
        obstacles.append(f"transform.file without a function {users.FUNCTION}")
    if obstacles:
        reason = f"because a flow cannot do this: {'; '.join(obstacles)}"
        return EngineChoice(JobEngine.BATCH, reason)
    return EngineChoice(JobEngine.FLOW, "because a flow can do all that this job needs")
