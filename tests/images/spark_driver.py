"""
A driver that starts no executors: it prints its address, waits for an executor, and uses it.

After a line on stdin, it waits until that executor has gone. Driver and executor refuse to start
without the image's archive of classes.
"""

import json
import sys
import time

from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local-cluster[0,1,512]")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.decommission.enabled", "true")
    .config("spark.executor.memory", "512m")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.extraJavaOptions", "-Xshare:on")
    .config("spark.executor.extraJavaOptions", "-Xshare:on")
    .getOrCreate()
)


def executors() -> list[str]:
    """List the registered executors, including the driver."""
    found = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    return [found.apply(place).id() for place in range(found.size())]


def say(**facts: object) -> None:
    """Write a line for the test."""
    sys.stdout.write(f"{json.dumps(facts)}\n")
    sys.stdout.flush()


conf = spark.sparkContext.getConf()
say(
    url=f"spark://CoarseGrainedScheduler@127.0.0.1:{conf.get('spark.driver.port')}",
    application=spark.sparkContext.applicationId,
    options=(conf.get("spark.executor.extraJavaOptions") or "").split(),
)
rows = spark.range(1000, numPartitions=2).mapInArrow(lambda batches: batches, "id long").count()
say(rows=rows, executors=executors())
sys.stdin.readline()
while len(executors()) > 1:
    time.sleep(0.1)
say(executors=executors())
