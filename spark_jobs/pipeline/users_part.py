"""The user's part of a job: its transform and its sinks."""

import functools
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from contract.job_file import JobFile, JobSink, JobTransform
from spark_jobs.pipeline.batch.files import Files
from spark_jobs.pipeline.checkpoint.plans import BatchName, BatchPlan
from spark_jobs.pipeline.failures import Cure, UsersPartError, judge

Write = Callable[[DataFrame, BatchName], None]
"""Writes the rows of a batch."""


FEWER_ROWS = "FEWER_ROWS"
"""A user's file sets this to true if its sink takes a batch again with fewer rows."""


@dataclass(frozen=True, slots=True)
class UsersPart:
    """The transform and the sinks of a job, loaded."""

    transform: Callable[[DataFrame], DataFrame]
    write: Write
    write_dead_letters: Write | None
    """Takes the rows in which the transform set an error. None without dead letters."""
    is_once: bool
    """Whether the sink is known to read its rows only once."""
    takes_fewer_rows: bool = False
    """Whether all sinks take a batch again with fewer rows, under its number."""

    def may_leave_out(self, plan: BatchPlan) -> bool:
        """Whether this batch may run again without queues that it was planned with."""
        return self.takes_fewer_rows and not plan.is_request


def read(job: JobFile, confirm: Callable[[], None]) -> UsersPart:
    """Load the transform and the sinks; `confirm` is called before files are replaced."""
    return UsersPart(
        _load_transform(job.transform),
        _load_sink(job.sink, confirm),
        _load_sink(job.dead_letter, confirm) if job.dead_letter else None,
        is_once=job.sink.file is None,
        takes_fewer_rows=all(_takes_fewer(each) for each in (job.sink, job.dead_letter) if each),
    )


def _load_transform(chosen: JobTransform) -> Callable[[DataFrame], DataFrame]:
    if chosen.file is not None:
        return _name_culprit(chosen.file, load_function(chosen.file, "transform"))
    if chosen.sql is not None:
        text = chosen.sql
        return lambda rows: _transform_by_sql(rows, text)
    return lambda rows: rows


def _load_sink(chosen: JobSink, confirm: Callable[[], None]) -> Write:
    if chosen.file is not None:
        write = load_function(chosen.file, "write")
        return lambda rows, name: write(rows, name.sequence, name.number)
    if chosen.path is not None:
        return Files(chosen, confirm)
    return lambda rows, _: _append(rows, chosen)


def _takes_fewer(chosen: JobSink) -> bool:
    """
    Whether a sink takes a batch again with fewer rows.

    A folder is replaced. Only users know it of a sink of their own. Other formats append, so rows
    that an earlier attempt has written would come twice.
    """
    if chosen.file is not None:
        return getattr(_load_module(chosen.file), FEWER_ROWS, False) is True
    return chosen.path is not None


def _name_culprit(
    path: str, change: Callable[[DataFrame], DataFrame]
) -> Callable[[DataFrame], DataFrame]:
    """Make the function's errors name the user's file in which the function is."""

    def transform(rows: DataFrame) -> DataFrame:
        try:
            return change(rows)
        except (Exception, SystemExit) as error:
            if judge(str(error)).cure is Cure.TIME:
                raise  # the function read the rows while a broker was down
            raise UsersPartError(f"{path}: {type(error).__name__}: {error}") from error

    return transform


def _transform_by_sql(rows: DataFrame, text: str) -> DataFrame:
    rows.createOrReplaceTempView("messages")
    try:
        return rows.sparkSession.sql(text)
    except PySparkException as error:
        raise UsersPartError(f"transform.sql: {error}") from error


def _append(rows: DataFrame, chosen: JobSink) -> None:
    assert chosen.format is not None
    rows.write.format(chosen.format).options(**chosen.options).mode("append").save()


def has_function(path: str, name: str) -> bool:
    """Whether a user's file defines this function."""
    return callable(getattr(_load_module(path), name, None))


def load_function(path: str, name: str) -> Callable[..., Any]:
    """Load a function from a user's file."""
    module = _load_module(path)
    found = getattr(module, name, None)
    if not callable(found):
        raise UsersPartError(f"{path}: there is no function {name}")
    function: Callable[..., Any] = found
    return function


@functools.cache
def _load_module(path: str) -> ModuleType:
    file = Path(path)
    spec = importlib.util.spec_from_file_location(f"evenkeel_users_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise UsersPartError(f"{path}: this is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsersPartError(f"{path}: {type(error).__name__}: {error}") from error
    # Executors do not have the file, so Spark must send them the code of its functions.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module
