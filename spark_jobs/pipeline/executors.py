"""
List Spark's executors, and make tasks that run on a given executor.

PySpark has no interface for this, so this module calls the driver's JVM. A partition with the
location `executor_<host>_<id>` runs on that executor if the executor is alive and has a free core
within `spark.locality.wait.process`. Otherwise, the partition runs on any executor. `warm_ups`
checks that tasks run at their locations.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from pyspark import RDD, SparkContext
from pyspark.serializers import UTF8Deserializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.util import PythonEvalType

Found = TypeVar("Found")
DRIVER = "driver"
SEPARATOR = "\x1e"
MOST_TASKS = 10_000


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor that is registered with the driver."""

    id: str
    host: str
    cores: int

    @property
    def location(self) -> str:
        """Name the executor as Spark's scheduler does."""
        return f"executor_{self.host}_{self.id}"


@dataclass(frozen=True, slots=True)
class ExecutorTask:
    """One partition: a string that says what to do, and the executor. None means any executor."""

    spec: str
    executor: Executor | None = None


class RegisteredExecutors:
    """
    Lists the executors that are registered with the driver, fast enough to be called in a loop.

    To make a new list takes six calls of the JVM for each executor. So the list is kept while the
    ids of the executors stay the same. Two calls read all ids.
    """

    def __init__(self, context: SparkContext) -> None:
        """Ask nothing yet."""
        self._java = _find_java(context)
        self._known: list[Executor] = []

    def list(self) -> list[Executor]:
        """List the executors that are registered now."""
        # Spark registers an executor before it lists it. Until then, each call makes a new list.
        if not self._known or _list_ids(self._java) != {each.id for each in self._known}:
            self._known = _list_all(self._java)
        return self._known


def _list_ids(java: Any) -> set[str]:
    text = java.getExecutorIds().mkString(SEPARATOR)
    return set(text.split(SEPARATOR)) if text else set()


def _list_all(java: Any) -> list[Executor]:
    found = java.statusStore().executorList(True)
    return [
        Executor(each.id(), each.hostPort().rpartition(":")[0], each.totalCores())
        for each in (found.apply(index) for index in range(found.length()))
        if each.id() != DRIVER and ":" in each.hostPort()  # an executor without a port is not ready
    ]


def make_tasks(spark: SparkSession, wanted: Sequence[ExecutorTask]) -> DataFrame:
    """Make a DataFrame with a partition for each task; its column `value` holds the spec."""
    session: Any = spark._jsparkSession
    rdd = _make_placed(spark.sparkContext, wanted)
    found = session.createDataset(rdd, _find_classes(spark._jvm).encoder).toDF()
    return DataFrame(found, spark)


class ArrowFunction:
    """
    A function on Arrow batches, for many DataFrames that `make_tasks` makes.

    `DataFrame.mapInArrow` would convert the function for the JVM each time, with dozens of calls.
    """

    def __init__(self, function: Callable[[Iterable[Any]], Iterator[Any]], ddl: str) -> None:
        """Convert the function. `ddl` has the columns of its rows."""
        kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
        udf: Any = pandas_udf(function, returnType=ddl, functionType=kind)  # type: ignore[call-overload]  # PySpark does so itself
        self._column = udf("value")

    def map(self, tasks: DataFrame) -> DataFrame:
        """Call the function in these tasks."""
        found = tasks._jdf.mapInArrow(self._column._jc, False, None)
        return DataFrame(found, tasks.sparkSession)


def run_on(
    context: SparkContext, executor: Executor, work: Callable[[Iterable[str]], Iterator[Found]]
) -> list[Found]:
    """Run Python code on an executor, without Spark's SQL, and return what it yields."""
    placed = _make_placed(context, [ExecutorTask("", executor)]).toJavaRDD()
    read = UTF8Deserializer()  # type: ignore[no-untyped-call]  # PySpark's
    return RDD(placed, context, read).mapPartitions(work).collect()


class ExecutorPings:
    """
    Asks executors for a sign of life, without waiting for the answer.

    The block manager of an executor answers in a few milliseconds, also while tasks run. That of a
    frozen one does not, though the connection is still there.
    """

    def __init__(self, context: SparkContext) -> None:
        """Ask nothing yet."""
        jvm: Any = context._jvm
        # Py4J can call no method that leads to the block managers: some methods of `SparkEnv` need
        # classes that PySpark does not have. So the field is read.
        scheduler = _find_java(context).dagScheduler()
        field = scheduler.getClass().getDeclaredField("blockManagerMaster")
        field.setAccessible(True)
        self._managers = field.get(scheduler)
        make = getattr(jvm, "org.apache.spark.storage.BlockManagerMessages$GetBlockStatus")
        self._question = make(jvm.org.apache.spark.storage.BlockId.apply("rdd_0_0"), True)
        kind = jvm.java.lang.Class.forName("java.lang.Object")
        self._kind = jvm.scala.reflect.ClassTag.apply(kind)

    def ask(self, executor: str) -> Callable[[], bool] | None:
        """Ask this executor; return a function that tells whether it has answered."""
        found = self._managers.getExecutorEndpointRef(executor)
        if not found.isDefined():
            return None  # it is not registered any more
        answer = found.get().ask(self._question, self._kind)
        return lambda: bool(answer.isCompleted())


def find_running(context: SparkContext, group: str) -> set[str]:
    """Find the executors on which tasks of a job group run."""
    store = _find_java(context).statusStore()
    found: set[str] = set()
    tracker = context.statusTracker()
    for job in tracker.getJobIdsForGroup(group):
        facts = tracker.getJobInfo(job)
        for stage in facts.stageIds if facts else ():
            seen = tracker.getStageInfo(stage)
            # While a stage begins, it may have tasks that are not counted yet.
            if seen is None or not (seen.numActiveTasks or seen.numCompletedTasks < seen.numTasks):
                continue
            tasks = store.taskList(stage, seen.currentAttemptId, MOST_TASKS)
            for task in (tasks.apply(index) for index in range(tasks.length())):
                if task.status() == "RUNNING":
                    found.add(task.executorId())
    return found


def cancel(context: SparkContext, group: str) -> None:
    """Cancel the jobs of a job group, and those that its thread would still start."""
    _find_java(context).cancelJobGroupAndFutureJobs(group)


def request(context: SparkContext, count: int) -> None:
    """Request this number of executors."""
    jvm: Any = context._jvm
    _find_java(context).requestTotalExecutors(count, 0, jvm.scala.collection.immutable.HashMap())


def let_go(context: SparkContext, names: Sequence[str], remaining: int) -> None:
    """End these executors when their tasks are done, and keep `remaining` others."""
    _decommission(context, names, is_for_good=True)
    request(context, remaining)  # otherwise Spark would not replace executors that it loses later


def replace(context: SparkContext, names: Sequence[str]) -> None:
    """End these executors when their tasks are done, and start others instead."""
    _decommission(context, names, is_for_good=False)


def _decommission(context: SparkContext, names: Sequence[str], *, is_for_good: bool) -> None:
    jvm: Any = context._jvm
    why = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
        "drain", jvm.scala.Option.apply(None)
    )
    for name in names:
        _find_java(context).schedulerBackend().decommissionExecutor(name, why, is_for_good, False)


def _make_placed(context: SparkContext, wanted: Sequence[ExecutorTask]) -> Any:
    """Make an RDD of strings, with a partition for each task at the task's location."""
    java = _find_classes(context._jvm)
    ordered = sorted(wanted, key=_name_location)
    places = tuple((name, len(list(each))) for name, each in groupby(ordered, _name_location))
    specs = java.send_strings([task.spec for task in ordered])
    return _find_java(context).makeRDD(specs.zip(_make_locations(java, places)), java.tag)


def _name_location(task: ExecutorTask) -> str:
    return "" if task.executor is None else task.executor.location


@dataclass(frozen=True, slots=True, eq=False)
class _JavaClasses:
    """What `make_tasks` needs. To find a class takes a call for each part of its name."""

    array_list: Any
    collections: Any
    list: Any
    converters: Any
    separator: Any
    """A pattern."""
    tag: Any
    encoder: Any

    def to_scala(self, items: Any) -> Any:
        """Convert a list of Java."""
        return self.converters.asScala(items).toSeq()

    def send_strings(self, strings: Sequence[str]) -> Any:
        """Send many strings to the JVM in one call."""
        return self.to_scala(self.separator.splitAsStream(SEPARATOR.join(strings)).toList())


@functools.lru_cache(maxsize=1)
def _find_classes(jvm: Any) -> _JavaClasses:
    return _JavaClasses(
        array_list=jvm.java.util.ArrayList,
        collections=jvm.java.util.Collections,
        list=jvm.java.util.List,
        converters=jvm.scala.jdk.javaapi.CollectionConverters,
        separator=jvm.java.util.regex.Pattern.compile(SEPARATOR),
        tag=jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.String")),
        encoder=jvm.org.apache.spark.sql.Encoders.STRING(),
    )


@functools.lru_cache(maxsize=64)
def _make_locations(java: _JavaClasses, places: tuple[tuple[str, int], ...]) -> Any:
    """
    Make the locations of many tasks, for each location as many times as it has tasks.

    Most batches have the same ones. The JVM is called a few times for each location, because a call
    for each task would take seconds in all.
    """
    found = java.array_list()
    for name, count in places:
        location = java.to_scala(java.list.of(name) if name else java.list.of())
        found.addAll(java.collections.nCopies(count, location))
    return java.to_scala(found)


def _find_java(context: SparkContext) -> Any:
    return context._jsc.sc()
