"""
A sink of files: each batch has a folder of its own, which is replaced when the batch runs again.

A path's name proves nothing: it may be one that each pod has for itself, or another name of the
dead letters' place. So what tasks say they have written is compared with what the driver sees.
"""

import contextlib
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from contract.job_file import JobSink

_DESCRIPTION = "spark.job.description"
_FILES_WRITTEN = "number of written files"
"""What Spark calls the metric of a write to files; other formats have none."""
_MOST_EXECUTIONS = 50
"""Looked through for the write's own: executors that are warmed up meanwhile have some too."""


class NotThereError(Exception):
    """Files are not where they were written: trying again does not help."""


@dataclass(frozen=True, slots=True)
class Files:
    """Writes batches below the path of a sink."""

    sink: JobSink
    confirm: Callable[[], None]
    """Called before a folder is replaced: it returns only if no other driver has taken over."""

    def __call__(self, rows: DataFrame, query: str, batch: int) -> None:
        """
        Replace what this batch wrote before: a batch that runs twice leaves one copy.

        A folder that is not there is not replaced, whatever happens until it is written.
        """
        spark, folder = rows.sparkSession, self._folder(query, batch)
        is_again = self._listed(spark, folder) is not None
        if is_again:
            self.confirm()
        assert self.sink.format is not None
        writer = rows.write.format(self.sink.format).options(**self.sink.options)
        with _marked(spark) as mark:
            writer.mode("overwrite" if is_again else "errorifexists").save(folder)
        seen, written = len(self.seen(spark, query, batch)), _files_written(spark, mark)
        if seen < written:
            raise NotThereError(
                f"path {self.sink.path}: executors wrote {written} files of batch {batch}, and the "
                f"driver sees {seen} in {folder}. Has each pod a folder of its own there? Give a "
                "path that the driver and all executors share"
            )

    def seen(self, spark: SparkSession, query: str, batch: int) -> frozenset[str]:
        """List a batch's files as the driver sees them; each write names its files anew."""
        names = self._listed(spark, self._folder(query, batch)) or ()
        return frozenset(name for name in names if name[:1] not in "._")

    def _folder(self, query: str, batch: int) -> str:
        return f"{self.sink.path}/query={query}/batch={batch}"

    def _listed(self, spark: SparkSession, folder: str) -> list[str] | None:
        """List a folder; None if it is not there."""
        jvm: Any = spark._jvm
        state: Any = spark._jsparkSession.sessionState()
        options = jvm.PythonUtils.toScalaMap(self.sink.options)
        path = jvm.org.apache.hadoop.fs.Path(folder)
        system = path.getFileSystem(state.newHadoopConfWithOptions(options))
        if not system.exists(path):
            return None
        return [each.getPath().getName() for each in system.listStatus(path)]


@contextlib.contextmanager
def _marked(spark: SparkSession) -> Iterator[str]:
    """Describe what is executed here, to find it again."""
    mark, context = uuid.uuid4().hex, spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, f"{before or 'evenkeel'} ({mark})")
    try:
        yield mark
    finally:
        # None takes it away; PySpark's signature does not say so.
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]


def _files_written(spark: SparkSession, mark: str) -> int:
    """Tell how many files the tasks of a write have left, by what its commit has counted."""
    context: Any = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()  # metrics come by way of it
    store: Any = spark._jsparkSession.sharedState().statusStore()
    first = max(0, store.executionsCount() - _MOST_EXECUTIONS)
    executions = store.executionsList(first, _MOST_EXECUTIONS)
    found = 0
    for place in range(executions.length()):
        execution = executions.apply(place)
        if mark in execution.description():
            found += _metric(store, execution)
    return found


def _metric(store: Any, execution: Any) -> int:
    metrics, values = execution.metrics(), store.executionMetrics(execution.executionId())
    found = 0
    for place in range(metrics.length()):
        metric = metrics.apply(place)
        if metric.name() == _FILES_WRITTEN:
            value = values.get(metric.accumulatorId())
            found += int(re.sub(r"\D", "", value.get())) if value.isDefined() else 0
    return found
