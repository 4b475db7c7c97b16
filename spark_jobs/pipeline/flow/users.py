"""The user's part of a flow: what a flow can run, the function, and the sinks."""

import re
from dataclasses import dataclass

from contract.job_file import JobFile
from mq_client.errors import UsageError
from spark_jobs.pipeline import users_part
from spark_jobs.pipeline.flow.calls import Function
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
    """List what the job wants and a flow cannot do."""
    found = ["transform.sql"] if job.transform.sql else []
    master = job.spark.get("spark.master", "")
    if _WITHOUT_EXECUTORS.fullmatch(master):
        found.append(f"spark.master {master}, which has no separate executors")
    found += choosing.list_obstacles(job)
    return found


def read(job: JobFile) -> FlowPart:
    """Load the user's function, and check that a flow can do what the job wants."""
    if obstacles := list_obstacles(job):
        raise UsageError(
            f"engine Flow cannot do this yet: {'; '.join(obstacles)}. Set engine to Batch, or "
            "leave it out"
        )
    function = None
    if job.transform.file is not None:
        function = users_part.load_function(job.transform.file, FUNCTION)
    return FlowPart(function, choosing.read(job))
