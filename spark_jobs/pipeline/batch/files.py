"""
A sink of files: each batch has its own folder, which is replaced if the batch runs again.

A path alone does not prove that the driver and all executors share its folder, or that the dead
letters go to a different folder. So the driver compares the number of files that tasks report with
the files that it sees.
"""

import contextlib
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from contract.job_file import JobSink
from spark_jobs.pipeline.checkpoint.plans import BatchName
from spark_jobs.pipeline.failures import FilesMissingError

log = logging.getLogger("evenkeel.job")
_DESCRIPTION = "spark.job.description"
_FILES_WRITTEN = re.compile(r"SQLPlanMetric\(number of written files,(\d+),")
"""The metric of a write to files in Spark's list of metrics. Other formats have none."""
BUS_SECONDS = 10.0
"""How long to wait for Spark's metrics of a write."""
_PAGE = 50
"""How many executions to list at a time."""


class Files:
    """Writes batches below the path of a sink."""

    def __init__(self, sink: JobSink, confirm: Callable[[], None]) -> None:
        """
        Write nothing yet.

        `confirm` is called before a folder is replaced. It returns only if no other driver has
        taken over.
        """
        self._sink = sink
        self._confirm = confirm
        self._hadoop: tuple[Any, Any] | None = None
        """The file system, and its class for paths: each batch needs them, and they take long."""

    def __call__(self, rows: DataFrame, name: BatchName) -> None:
        """
        Replace what this batch wrote before, so that a batch that runs twice leaves one copy.

        If the folder does not exist yet, it is written in a mode that never replaces a folder.
        """
        spark, folder = rows.sparkSession, self._make_path(name)
        is_again = self._list_folder(spark, folder) is not None
        if is_again:
            self._confirm()
        assert self._sink.format is not None
        writer = rows.write.format(self._sink.format).options(**self._sink.options)
        executions = _Executions(spark)
        with _mark_executions(spark) as mark:
            writer.mode("overwrite" if is_again else "errorifexists").save(folder)
        seen, written = len(self.list_files(spark, name)), executions.count_written_files(mark)
        if seen < written:
            raise FilesMissingError(
                f"path {self._sink.path}: executors wrote {written} files of batch {name.number}, "
                f"and the driver sees {seen} in {folder}. Does each pod have its own folder there? "
                "Use a path that the driver and all executors share"
            )

    def remove(self, spark: SparkSession, name: BatchName) -> None:
        """Remove what this batch wrote before, if anything."""
        system, make_path = self._open(spark)
        path = make_path(self._make_path(name))
        if system.exists(path):
            self._confirm()
            system.delete(path, True)

    def list_files(self, spark: SparkSession, name: BatchName) -> frozenset[str]:
        """List a batch's files as the driver sees them; each write uses new names."""
        found = self._list_folder(spark, self._make_path(name)) or ()
        return frozenset(file for file in found if file[:1] not in "._")

    def _make_path(self, name: BatchName) -> str:
        return f"{self._sink.path}/query={name.query}/batch={name.number}"

    def _list_folder(self, spark: SparkSession, folder: str) -> list[str] | None:
        """List a folder; None if it does not exist."""
        system, make_path = self._open(spark)
        path = make_path(folder)
        if not system.exists(path):
            return None
        return [each.getPath().getName() for each in system.listStatus(path)]

    def _open(self, spark: SparkSession) -> tuple[Any, Any]:
        """Return Hadoop's file system for the path of the sink, and its class for paths."""
        if self._hadoop is None:
            jvm: Any = spark._jvm
            state: Any = spark._jsparkSession.sessionState()
            options = state.newHadoopConfWithOptions(jvm.PythonUtils.toScalaMap(self._sink.options))
            make_path = jvm.org.apache.hadoop.fs.Path
            self._hadoop = make_path(self._sink.path).getFileSystem(options), make_path
        return self._hadoop


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


class _Executions:
    """The executions of Spark from now on. Other lanes and warm-ups add some."""

    def __init__(self, spark: SparkSession) -> None:
        self._store: Any = spark._jsparkSession.sharedState().statusStore()
        self._last = -1
        self._last = next((each.executionId() for each in self._list_new()), -1)

    def count_written_files(self, mark: str) -> int:
        """Count the files that a write with this mark has created, by Spark's metrics."""
        # Spark delivers the metrics later, on a bus that other lanes may keep busy.
        until = time.monotonic() + BUS_SECONDS
        while True:
            found = [each for each in self._list_new() if mark in each.description()]
            if found and all(each.completionTime().isDefined() for each in found):
                return sum(_read_metric(self._store, each) for each in found)
            if time.monotonic() > until:
                log.warning("Spark has not told how many files a batch has: they are not checked")
                return 0
            time.sleep(0.01)

    def _list_new(self) -> Iterator[Any]:
        """List them, the newest first."""
        end = self._store.executionsCount()
        while end > 0:
            start = max(0, end - _PAGE)
            page = self._store.executionsList(start, end - start)
            for index in reversed(range(page.length())):
                execution = page.apply(index)
                if execution.executionId() <= self._last:
                    return
                yield execution
            end = start


def _read_metric(store: Any, execution: Any) -> int:
    values = store.executionMetrics(execution.executionId())
    found = 0
    for number in _FILES_WRITTEN.findall(execution.metrics().mkString()):
        value = values.get(int(number))
        found += int(re.sub(r"\D", "", value.get())) if value.isDefined() else 0
    return found
