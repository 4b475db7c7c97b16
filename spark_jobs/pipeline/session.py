"""The Spark session of a job, with the settings that pinning and a long life need."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from spark_jobs.pipeline.job import Job
from spark_jobs.pipeline.plan_source import PlanSource
from spark_jobs.source import RocketMQ

SETTINGS = {
    "spark.scheduler.revive.interval": "250ms",
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
    "spark.executor.failuresValidityInterval": "10m",
    "spark.executor.maxNumFailures": "1000",
    "spark.dynamicAllocation.enabled": "false",
    "spark.ui.enabled": "false",
}
"""Why: docs/design/0005-spark.md."""


@contextmanager
def opened(job: Job) -> Iterator[SparkSession]:
    """Open a Spark session with the settings that a job needs, and those that it names."""
    builder = SparkSession.builder.appName(job.name)
    for name, value in (SETTINGS | job.spark).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for source in (PlanSource, RocketMQ):
        spark.dataSource.register(source)
    try:
        yield spark
    finally:
        spark.stop()
