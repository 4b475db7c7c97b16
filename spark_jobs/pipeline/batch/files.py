"""
A sink of files: each batch has its own folder, which is replaced if the batch runs again.

A path alone does not prove that the driver and all executors share its folder, or that the dead
letters go to a different folder. So the driver compares the number of files that tasks report with
the files that it sees.
"""

import contextlib
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from contract.job_file import JobSink
from spark_jobs.pipeline.failures import FilesMissingError

_DESCRIPTION = "spark.job.description"
_FILES_WRITTEN = "number of written files"
"""Spark's name for the metric of a write to files; other formats have none."""
_MOST_EXECUTIONS = 50
"""How many of the last executions to search for the one of a write. Warm-ups add others."""


@dataclass(frozen=True, slots=True)
class Files:
    """Writes batches below the path of a sink."""

    sink: JobSink
    confirm: Callable[[], None]
    """Called before a folder is replaced; it returns only if no other driver has taken over."""

    def __call__(self, rows: DataFrame, query: str, batch: int) -> None:
        """
        Replace what this batch wrote before, so that a batch that runs twice leaves one copy.

        If the folder does not exist yet, it is written in a mode that never replaces a folder.
        """
        spark, folder = rows.sparkSession, self._make_path(query, batch)
        is_again = self._list_folder(spark, folder) is not None
        if is_again:
            self.confirm()
        assert self.sink.format is not None
        writer = rows.write.format(self.sink.format).options(**self.sink.options)
        with _mark_executions(spark) as mark:
            writer.mode("overwrite" if is_again else "errorifexists").save(folder)
        seen, written = len(self.list_files(spark, query, batch)), _count_written_files(spark, mark)
        if seen < written:
            raise FilesMissingError(
                f"path {self.sink.path}: executors wrote {written} files of batch {batch}, and the "
                f"driver sees {seen} in {folder}. Does each pod have its own folder there? Use a "
                "path that the driver and all executors share"
            )

    def list_files(self, spark: SparkSession, query: str, batch: int) -> frozenset[str]:
        """List a batch's files as the driver sees them; each write uses new names."""
        names = self._list_folder(spark, self._make_path(query, batch)) or ()
        return frozenset(name for name in names if name[:1] not in "._")

    def _make_path(self, query: str, batch: int) -> str:
        return f"{self.sink.path}/query={query}/batch={batch}"

    def _list_folder(self, spark: SparkSession, folder: str) -> list[str] | None:
        """List a folder; None if it does not exist."""
        jvm: Any = spark._jvm
        state: Any = spark._jsparkSession.sessionState()
        options = jvm.PythonUtils.toScalaMap(self.sink.options)
        path = jvm.org.apache.hadoop.fs.Path(folder)
        system = path.getFileSystem(state.newHadoopConfWithOptions(options))
        if not system.exists(path):
            return None
        return [each.getPath().getName() for each in system.listStatus(path)]


@contextlib.contextmanager
def _mark_executions(spark: SparkSession) -> Iterator[str]:
    """Add a mark to the description of the executions in this block, to find them again."""
    mark, context = uuid.uuid4().hex, spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, f"{before or 'evenkeel'} ({mark})")
    try:
        yield mark
    finally:
        # None removes the property, though PySpark's signature does not allow it.
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]


def _count_written_files(spark: SparkSession, mark: str) -> int:
    """Count the files that a write has created, according to Spark's metrics of the write."""
    context: Any = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()  # the bus delivers the metrics
    store: Any = spark._jsparkSession.sharedState().statusStore()
    first = max(0, store.executionsCount() - _MOST_EXECUTIONS)
    executions = store.executionsList(first, _MOST_EXECUTIONS)
    found = 0
    for index in range(executions.length()):
        execution = executions.apply(index)
        if mark in execution.description():
            found += _read_metric(store, execution)
    return found


def _read_metric(store: Any, execution: Any) -> int:
    metrics, values = execution.metrics(), store.executionMetrics(execution.executionId())
    found = 0
    for index in range(metrics.length()):
        metric = metrics.apply(index)
        if metric.name() == _FILES_WRITTEN:
            value = values.get(metric.accumulatorId())
            found += int(re.sub(r"\D", "", value.get())) if value.isDefined() else 0
    return found
