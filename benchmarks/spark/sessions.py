"""Opens the Spark session of a measured program."""

import contextlib
import os
import sys
from collections.abc import Iterator

from pyspark.sql import SparkSession

from sandbox import jobs


@contextlib.contextmanager
def open_session(master: str) -> Iterator[SparkSession]:
    """Open a session with the sandbox's settings. Its Python workers find the checkout."""
    os.environ["PYTHONPATH"] = str(jobs.ROOT)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_SCALA_VERSION"] = "2.13"  # executors of a local cluster need it to find jars
    builder = SparkSession.builder.appName("bench")
    settings = {**jobs.SPARK, "spark.master": master, "spark.ui.enabled": "false"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
