"""The user's part of a flow: what a flow can run, the function, and the sinks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from contract.job_file import JobFile, JobSink
from contract.kinds.jobs import Mode
from mq_client.errors import UsageError
from spark_jobs.pipeline import users_part
from spark_jobs.pipeline.flow.folders import find_local
from spark_jobs.pipeline.flow.rows import FORMATS, FileFormat, FlowSinks, SinkPlace
from spark_jobs.pipeline.flow.task import Function

FUNCTION = "transform_batches"
_WITHOUT_EXECUTORS = re.compile(r"local(\[.*\])?")


@dataclass(frozen=True, slots=True)
class FlowPart:
    """The user's part of a flow."""

    function: Function | None
    sink: SinkPlace
    dead: SinkPlace | None

    @property
    def places(self) -> list[SinkPlace]:
        """Where it writes."""
        return [self.sink, self.dead] if self.dead else [self.sink]

    def open_sinks(self, query: str) -> FlowSinks:
        """Make the sinks for a journal with this id."""
        return FlowSinks(self.sink.open(query), self.dead.open(query) if self.dead else None)


def list_obstacles(job: JobFile) -> list[str]:
    """List what the job wants and a flow cannot do."""
    wishes = {"mode Scheduled": job.mode is Mode.SCHEDULED, "transform.sql": job.transform.sql}
    found = [wish for wish, is_there in wishes.items() if is_there]
    master = job.spark.get("spark.master", "")
    if _WITHOUT_EXECUTORS.fullmatch(master):
        found.append(f"spark.master {master}, which has no separate executors")
    found += _list_sink_obstacles("sink", job.sink)
    if job.dead_letter:
        found += _list_sink_obstacles("deadLetter", job.dead_letter)
    return found


def _list_sink_obstacles(field: str, sink: JobSink) -> Iterator[str]:
    if sink.file is not None:
        yield f"{field}.file"
    elif sink.format not in FORMATS:
        yield f"{field}.format {sink.format}, other than {', '.join(FORMATS)}"
    elif sink.path is None:
        yield f"{field} without a path"
    elif find_local(sink.path) is None:
        yield f"{field}.path {sink.path}, other than a folder that all pods share"
    if sink.options:
        yield f"{field}.options"


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
    return FlowPart(
        function, _read_place(job.sink), _read_place(job.dead_letter) if job.dead_letter else None
    )


def _read_place(sink: JobSink) -> SinkPlace:
    assert sink.path is not None
    assert sink.format is not None
    return SinkPlace(sink.path, FileFormat(sink.format))
