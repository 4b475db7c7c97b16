"""Opens a job's Spark session, with the settings for pinned tasks and for jobs that run long."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from contract.job_file import JobFile
from spark_jobs.pipeline.starting import StartStep, StartTimes
from spark_jobs.source import RocketMQ

SETTINGS = {
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.revive.interval": "250ms",
    "spark.scheduler.minRegisteredResourcesRatio": "0.0",
    "spark.locality.wait.process": "1s",
    "spark.locality.wait.node": "0s",
    "spark.locality.wait.rack": "0s",
    "spark.shuffle.reduceLocality.enabled": "false",
    "spark.speculation": "false",
    "spark.decommission.enabled": "true",
    "spark.network.timeout": "15s",
    "spark.network.timeoutInterval": "2s",
    "spark.executor.heartbeatInterval": "3s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "12000",
    "spark.kubernetes.executor.eventProcessingInterval": "100ms",
    "spark.executor.failuresValidityInterval": "10m",
    "spark.executor.maxNumFailures": "1000",
    "spark.dynamicAllocation.enabled": "false",
    "spark.ui.enabled": "false",
}
"""docs/design/0005-spark.md gives the reasons."""
JAVA_OPTIONS = {"spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"}
QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
BATCH_SETTINGS = SETTINGS | {
    # The Python worker of a cancelled task, which may wait for a silent broker, is killed soon.
    "spark.python.task.killTimeout": "100ms",
    # A driver plans small batches. Java's thorough compiler costs it more than it saves.
    "spark.driver.extraJavaOptions": QUICK_COMPILER,
}
# The Java processes of a flow do little after their start. With the quick compiler, they start
# sooner, and the start takes half as much processor time.
FLOW_SETTINGS = SETTINGS | dict.fromkeys(JAVA_OPTIONS, QUICK_COMPILER)
_INSTANCES = "spark.executor.instances"


@contextmanager
def open_context(
    job: JobFile, needed: Mapping[str, str], start: StartTimes
) -> Iterator[SparkContext]:
    """Open Spark, with the needed settings, and the settings in the job's file."""
    settings = {"spark.app.name": job.name, **needed, **job.spark}
    for name in needed.keys() & job.spark.keys() & JAVA_OPTIONS:
        settings[name] = f"{needed[name]} {job.spark[name]}"  # of two options, Java takes the last
    # The program that starts the JVM refuses zero executors; Spark itself allows that.
    of_the_jvm = {name: value for name, value in settings.items() if name != _INSTANCES}
    gateway = launch_gateway(_make_conf(of_the_jvm))  # type: ignore[no-untyped-call]  # PySpark's
    start.note(StartStep.JAVA)
    context = SparkContext(conf=_make_conf(settings), gateway=gateway)
    start.note(StartStep.CONTEXT)
    try:
        yield context
    finally:
        context.stop()


def add_sql(context: SparkContext, start: StartTimes) -> SparkSession:
    """Make a session for SQL. This takes seconds."""
    spark = SparkSession(context)
    spark.dataSource.register(RocketMQ)
    start.note(StartStep.SQL)
    return spark


def open_lane(spark: SparkSession, lane: int, *, is_only: bool) -> SparkSession:
    """
    Open the session of a lane, for the calling thread.

    Of several lanes, each has a session of its own, because temporary views belong to a session.
    Each lane has a pool of Spark's scheduler of its own, so that its tasks do not wait for those of
    other lanes.
    """
    if not is_only:
        spark = spark.newSession()
        spark.dataSource.register(RocketMQ)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"lane-{lane}")
    jvm: Any = spark._jvm
    sessions = getattr(jvm, "org.apache.spark.sql.classic.SparkSession")
    sessions.setActiveSession(spark._jsparkSession)
    return spark


def _make_conf(settings: Mapping[str, str]) -> SparkConf:
    return SparkConf(loadDefaults=False).setAll(list(settings.items()))
