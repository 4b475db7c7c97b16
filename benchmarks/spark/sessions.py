"""The Spark session of a measured program."""

import contextlib
import os
import sys
from collections.abc import Iterator

from pyspark.sql import SparkSession

from sandbox import jobs


@contextlib.contextmanager
def open_session(master: str) -> Iterator[SparkSession]:
    """Open it with the settings of the sandbox's jobs; its Python workers find the checkout too."""
    os.environ["PYTHONPATH"] = str(jobs.ROOT)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_SCALA_VERSION"] = "2.13"  # executors of a local cluster look for jars by it
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
