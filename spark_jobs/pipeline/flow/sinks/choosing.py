"""Makes the sinks of a job, or lists why a flow cannot have them."""

from collections.abc import Callable, Iterator, Mapping

from contract.job_file import JobFile, JobSink
from mq_client.errors import UsageError
from spark_jobs import options
from spark_jobs.pipeline import users_part
from spark_jobs.pipeline.checkpoint.stores import find_local
from spark_jobs.pipeline.flow.libraries import check_installed
from spark_jobs.pipeline.flow.sinks import (
    delta,
    files,
    functions,
    iceberg,
    postgres,
    s3_files,
    topics,
)
from spark_jobs.pipeline.flow.sinks.delta import DeltaPlace
from spark_jobs.pipeline.flow.sinks.files import FileSink
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.functions import FunctionSink
from spark_jobs.pipeline.flow.sinks.iceberg import IcebergPlace
from spark_jobs.pipeline.flow.sinks.kinds import FlowSink, FlowSinks
from spark_jobs.pipeline.flow.sinks.postgres import PostgresSinks
from spark_jobs.pipeline.flow.sinks.separate import SeparateSinks
from spark_jobs.pipeline.flow.sinks.tables import TablePlace, TableSink
from spark_jobs.pipeline.flow.sinks.topics import TopicSink

OpenSinks = Callable[[str, int], FlowSinks]
"""Makes the sinks for a journal with this id, and for a driver with this term."""
TABLES: dict[str, tuple[Callable[[str, Mapping[str, str]], TablePlace], str]] = {
    delta.FORMAT: (DeltaPlace, delta.PACKAGE),
    iceberg.FORMAT: (IcebergPlace, iceberg.PACKAGE),
}
"""By format: the class for the place of a table, and the Python package that the class needs."""
FORMATS = sorted([*files.FORMATS, *TABLES, postgres.FORMAT, topics.FORMAT])


def list_obstacles(job: JobFile) -> Iterator[str]:
    """List what the sinks of a job need and a flow cannot do."""
    yield from _list_sink_obstacles("sink", job.sink)
    if job.dead_letter is None:
        return
    yield from _list_sink_obstacles("deadLetter", job.dead_letter)
    if job.dead_letter.format == topics.FORMAT:
        yield f"deadLetter.format {topics.FORMAT}"
    ours, theirs = (each.format == postgres.FORMAT for each in (job.sink, job.dead_letter))
    if ours != theirs:
        yield f"deadLetter and sink of which only one is {postgres.FORMAT}"


def _list_sink_obstacles(field: str, sink: JobSink) -> Iterator[str]:
    if sink.file is not None:
        if not users_part.has_function(sink.file, functions.NAME):
            yield f"{field}.file without a function {functions.NAME}"
    elif sink.format in files.FORMATS:
        yield from _list_file_obstacles(field, sink)
    elif sink.format in TABLES:
        if sink.path is None:
            yield f"{field} without a path"
        elif sink.format == iceberg.FORMAT and not iceberg.NAME.fullmatch(sink.path):
            yield f"{field}.path {sink.path}, other than CATALOG.NAMESPACE.TABLE"
    elif sink.format not in FORMATS:
        yield f"{field}.format {sink.format}, other than {', '.join(FORMATS)}"
    elif sink.path is not None:
        yield f"{field}.path with format {sink.format}"


def writes_to_s3(sink: JobSink) -> bool:
    """Whether a sink writes files into a bucket."""
    return sink.format in files.FORMATS and sink.path is not None and s3_files.is_s3(sink.path)


def _list_file_obstacles(field: str, sink: JobSink) -> Iterator[str]:
    if sink.path is None:
        yield f"{field} without a path"
    elif find_local(sink.path) is None and not writes_to_s3(sink):
        yield f"{field}.path {sink.path}, other than a folder that all pods share, or s3://"
    if sink.options and not writes_to_s3(sink):
        yield f"{field}.options"


def read(job: JobFile) -> OpenSinks:
    """Read the sinks of a job that has no obstacles. Return the function that makes them."""
    if job.sink.format == postgres.FORMAT:
        sinks = _read_postgres(job.sink, job.dead_letter)
        return lambda query, term: sinks
    make_rows = _read_sink("sink", job.sink)
    if job.dead_letter is None:
        return lambda query, term: SeparateSinks(make_rows(query, term))
    make_dead = _read_sink("deadLetter", job.dead_letter)
    _check_positions(make_rows("", 0), make_dead("", 0))
    return lambda query, term: SeparateSinks(make_rows(query, term), make_dead(query, term))


def _read_sink(field: str, sink: JobSink) -> Callable[[str, int], FlowSink]:
    if sink.file is not None:
        function = FunctionSink(users_part.load_function(sink.file, functions.NAME))
        return lambda query, term: function
    if sink.format == topics.FORMAT:
        try:
            topic = TopicSink(options.parse_sending(sink.options))
        except UsageError as error:
            raise UsageError(f"{field}.options: {error}") from error
        return lambda query, term: topic
    assert sink.path is not None, "checked by `list_obstacles`"
    assert sink.format is not None
    if sink.format in TABLES:
        if sink.format == iceberg.FORMAT and sink.options.get("type") not in iceberg.CATALOGS:
            raise UsageError(
                f"{field}.options: type must be the kind of the catalog: "
                f"{', '.join(iceberg.CATALOGS)}"
            )
        make_place, package = TABLES[sink.format]
        check_installed(f"format {sink.format}", package)
        table = TableSink(make_place(sink.path, sink.options), has_positions=field == "sink")
        return lambda query, term: table
    path, form, given = sink.path, sink.format, sink.options
    if s3_files.is_s3(path):
        s3_files.check(field, path, given)
    return lambda query, term: FileSink(SinkFolders(path, query, term, given), form)


def _check_positions(sink: FlowSink, dead: FlowSink) -> None:
    """
    Refuse sinks with positions if dead letters could be lost.

    After a sink's own transaction has stored the rows, their messages are not read again. So
    no step that can fail may come after that transaction. But a folder of dead letters becomes
    visible only after the driver's commit.
    """
    if dead.has_positions:
        raise UsageError("deadLetter.file: only the function of the sink may keep positions")
    if sink.has_positions and dead.folders is not None:
        raise UsageError(
            "deadLetter.path: files of dead letters could be lost, because the sink keeps "
            "positions. Use a deadLetter with the format of a table or with a file"
        )


def _read_postgres(sink: JobSink, dead: JobSink | None) -> PostgresSinks:
    given = _check_options("sink", sink)
    dead_table = None
    if dead is not None:
        others = _check_options("deadLetter", dead)
        dead_table = others["table"]
        if others | {"table": ""} != given | {"table": ""}:
            raise UsageError(
                "deadLetter.options: url, user and password must be those of the sink, because "
                "one transaction writes rows and dead letters"
            )
    login = {name: text for name, text in given.items() if name in postgres.LOGIN}
    return PostgresSinks(given["url"], given["table"], dead_table, login)


def _check_options(field: str, sink: JobSink) -> dict[str, str]:
    known = ", ".join(sorted(postgres.OPTIONS))
    for name in sink.options:
        if name not in postgres.OPTIONS:
            raise UsageError(f"{field}.options: {name} is unknown; {postgres.FORMAT} has {known}")
    for name in ("url", "table"):
        if not sink.options.get(name):
            raise UsageError(f"{field}.options: {name} is missing; {postgres.FORMAT} has {known}")
    return sink.options
