"""
Runs a first task, the warm-up, on each new executor.

An executor is warm when a task that was sent to it has run there. That task starts the executor's
Python worker and opens its connections. It also proves that Spark runs tasks where they are sent.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_jobs import connections, schema
from spark_jobs.options import ClusterOptions
from spark_jobs.pipeline import executors
from spark_jobs.pipeline.executors import Executor, ExecutorTask
from spark_jobs.pipeline.fetching import find_own_executor, find_own_pod

MOST_STRAYS = 10
log = logging.getLogger("evenkeel.job")
_SCHEMA = pa.schema({"executor": pa.string(), "pod": pa.string()})


@dataclass(frozen=True, slots=True)
class Warmed:
    """Where a warm-up ran."""

    executor: str | None
    pod: str | None


@dataclass(frozen=True)
class SqlWarmUp:
    """Warms up everything in an executor that a DataFrame needs."""

    spark: SparkSession
    cluster: ClusterOptions

    def __call__(self, executor: Executor) -> Warmed:
        """Warm up this executor."""
        work = executors.make_tasks(self.spark, [ExecutorTask("", executor)])
        task = _SqlTask(self.cluster)
        [found] = work.mapInArrow(task, "executor string, pod string").collect()
        return Warmed(found.executor, found.pod)


@dataclass(frozen=True)
class PythonWarmUp:
    """Warms up an executor that runs only Python."""

    context: SparkContext
    cluster: ClusterOptions

    def __call__(self, executor: Executor) -> Warmed:
        """Warm up this executor."""
        [found] = executors.run_on(self.context, executor, _PythonTask(self.cluster))
        return found


@dataclass(frozen=True)
class _SqlTask:
    """Runs in an executor, as a part of a query."""

    cluster: ClusterOptions

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            here = asdict(_open_connections(self.cluster))
            yield pa.RecordBatch.from_pylist([here] * batch.num_rows, _SCHEMA)


@dataclass(frozen=True)
class _PythonTask:
    """Runs in an executor."""

    cluster: ClusterOptions

    def __call__(self, rows: Iterable[str]) -> Iterator[Warmed]:
        list(rows)  # Spark ends a Python process that does not read all its input
        # With the first rows that a process makes, pyarrow imports pandas. That takes 0.2 to 0.6 s.
        schema.make_few_rows([], include_properties=False)
        yield _open_connections(self.cluster)


def _open_connections(cluster: ClusterOptions) -> Warmed:
    connections.get_client(cluster).list_topics()
    return Warmed(find_own_executor(), find_own_pod())


class WarmUps:
    """The warm-ups of one job's executors. Each warm-up runs in a separate thread."""

    def __init__(self, warm_up: Callable[[Executor], Warmed]) -> None:
        """Warm up nothing yet."""
        self._warm_up = warm_up
        self.is_pinned = False
        """Whether a task has run on the executor to which it was sent."""
        self._strays = 0
        """Warm-ups that ran elsewhere: the executor was busy, or Spark ignores locations."""
        self._pods: dict[str, str] = {}
        """The pod of each warm executor. If executors are not pods: the executor's id."""
        self._results: dict[str, Future[bool]] = {}
        self._threads = ThreadPoolExecutor(thread_name_prefix="warm-up")

    def warm_up(self, registered: Iterable[Executor]) -> list[str]:
        """Start the warm-ups of new executors, and list the executors that are warm."""
        warm = []
        for executor in registered:
            result = self._results.get(executor.id)
            if result is None or _has_failed(result):
                result = self._threads.submit(self._run, executor)
                self._results[executor.id] = result
            if result.done() and result.result():
                warm.append(executor.id)
        return warm

    def find_in_pods(self, pods: Set[str]) -> list[str]:
        """List the warm executors that run in these pods."""
        return [name for name, pod in list(self._pods.items()) if pod in pods]

    def _run(self, executor: Executor) -> bool:
        try:
            found = self._warm_up(executor)
        except (PySparkException, Py4JError) as error:
            log.warning("executor %s is not warm: %s", executor.id, error)
            return False
        if found.executor == executor.id:
            self._pods[executor.id] = found.pod or executor.id
            self.is_pinned = True
            return True
        self._strays += 1
        if self.is_pinned or self._strays < MOST_STRAYS:
            return False
        log.warning(
            "Spark does not run tasks on the executors to which they are sent, so any executor may "
            "read any queue"
        )
        return True


def _has_failed(result: Future[bool]) -> bool:
    return result.done() and not result.result()
