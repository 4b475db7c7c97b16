"""The user's part of a flow: its function and its sinks. Also checks what a flow can run."""

import re
from dataclasses import dataclass

from contract.job_file import JobFile, JobTransform
from contract.kinds.jobs import Mode
from mq_client.errors import UsageError
from spark_jobs.options import Reading
from spark_jobs.pipeline import users_part
from spark_jobs.pipeline.flow.calls import Function
from spark_jobs.pipeline.flow.duckdb_query import DuckDbQuery
from spark_jobs.pipeline.flow.sinks import choosing
from spark_jobs.pipeline.flow.sinks.choosing import OpenSinks

FUNCTION = "transform_batches"
_WITHOUT_EXECUTORS = re.compile(r"local(\[.*\])?")


@dataclass(frozen=True, slots=True)
class FlowPart:
    """The user's part of a flow."""

    function: Function | None
    open_sinks: OpenSinks


def list_obstacles(job: JobFile) -> list[str]:
    """List what the job needs and a flow cannot do."""
    found = ["transform.sql"] if job.transform.sql else []
    if job.messages is not None and job.mode is Mode.SCHEDULED:
        found.append("a scheduled run of a group with balance Messages")
    if job.lanes > 1:
        found.append("lanes")
    master = job.spark.get("spark.master", "")
    if _WITHOUT_EXECUTORS.fullmatch(master):
        found.append(f"spark.master {master}, which has no separate executors")
    found += choosing.list_obstacles(job)
    return found


def read(job: JobFile, reading: Reading) -> FlowPart:
    """Load the user's function or query, and check that a flow can do what the job wants."""
    if obstacles := list_obstacles(job):
        other = "Set engine to Batch, or leave it out"
        if job.messages is not None:
            other = "Only engine Flow can read a group with balance Messages. Use balance Queues"
        raise UsageError(f"engine Flow cannot do this yet: {'; '.join(obstacles)}. {other}")
    return FlowPart(_read_function(job.transform, reading), choosing.read(job))


def _read_function(chosen: JobTransform, reading: Reading) -> Function | None:
    if chosen.file is not None:
        return users_part.load_function(chosen.file, FUNCTION)
    if chosen.duckdb is not None:
        query = DuckDbQuery(chosen.duckdb)
        query.check(include_properties=reading.include_properties)
        return query
    return None
