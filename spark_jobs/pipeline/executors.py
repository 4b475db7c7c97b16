"""
Spark's executors, and tasks that run on a given one.

This is the one place that reaches behind PySpark's interface, into the driver's JVM. A partition
with the location `executor_<host>_<id>` runs there as long as that executor lives and has a free
core within `spark.locality.wait.process`; otherwise anywhere. The warm-up in `seats` finds out
whether that holds.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

DRIVER = "driver"
SEPARATOR = "\x1e"


@dataclass(frozen=True, slots=True)
class Executor:
    """An executor that is registered with the driver."""

    id: str
    host: str
    cores: int

    @property
    def location(self) -> str:
        """Name it as Spark's scheduler does."""
        return f"executor_{self.host}_{self.id}"


@dataclass(frozen=True, slots=True)
class ExecutorTask:
    """One partition: a text that says what to do, and the executor to do it, or anybody."""

    spec: str
    where: Executor | None = None


def registered(spark: SparkSession) -> list[Executor]:
    """List the executors that are there now."""
    found = _context(spark).statusStore().executorList(True)
    return [
        Executor(each.id(), each.hostPort().rpartition(":")[0], each.totalCores())
        for each in (found.apply(place) for place in range(found.length()))
        if each.id() != DRIVER and ":" in each.hostPort()  # there is no port before it is ready
    ]


def tasks(spark: SparkSession, wanted: Sequence[ExecutorTask]) -> DataFrame:
    """Make a DataFrame with a partition for each task; its column `value` holds the text."""
    jvm: Any = spark._jvm
    by_place: dict[Executor | None, list[str]] = defaultdict(list)
    for task in wanted:
        by_place[task.where].append(task.spec)
    pairs = jvm.java.util.ArrayList()
    for where, specs in by_place.items():  # a few calls a place: one a task would take seconds
        places = _scala(jvm, jvm.java.util.Collections.nCopies(len(specs), _location(jvm, where)))
        pairs.addAll(_java(jvm, _texts(jvm, specs).zip(places)))
    text = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.String"))
    rdd = _context(spark).makeRDD(_scala(jvm, pairs), text)
    session: Any = spark._jsparkSession
    found = session.createDataset(rdd, jvm.org.apache.spark.sql.Encoders.STRING()).toDF()
    return DataFrame(found, spark)


def ask_for(spark: SparkSession, count: int) -> None:
    """State how many executors there shall be."""
    jvm: Any = spark._jvm
    _context(spark).requestTotalExecutors(count, 0, jvm.scala.collection.immutable.HashMap())


def let_go(spark: SparkSession, names: Sequence[str], remaining: int) -> None:
    """End these executors when their tasks are done, and have so many others."""
    _decommission(spark, names, is_for_good=True)
    ask_for(spark, remaining)  # a later loss is not made good unless the target is stated again


def replace(spark: SparkSession, names: Sequence[str]) -> None:
    """End these executors when their tasks are done, and have others instead."""
    _decommission(spark, names, is_for_good=False)


def _decommission(spark: SparkSession, names: Sequence[str], *, is_for_good: bool) -> None:
    jvm: Any = spark._jvm
    why = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
        "drain", jvm.scala.Option.apply(None)
    )
    for name in names:
        _context(spark).schedulerBackend().decommissionExecutor(name, why, is_for_good, False)


def _context(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.sc()


def _location(jvm: Any, executor: Executor | None) -> Any:
    places = [] if executor is None else [executor.location]
    return _scala(jvm, jvm.java.util.List.of(*places))


def _texts(jvm: Any, texts: list[str]) -> Any:
    """Bring many texts over in one call."""
    pattern = jvm.java.util.regex.Pattern.compile(SEPARATOR)
    return _scala(jvm, pattern.splitAsStream(SEPARATOR.join(texts)).toList())


def _scala(jvm: Any, items: Any) -> Any:
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(items).toSeq()


def _java(jvm: Any, items: Any) -> Any:
    return jvm.scala.jdk.javaapi.CollectionConverters.asJava(items)
