"""Provides one Spark session for all tests of this folder, with the real RocketMQ."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sandbox import archive, jars
from sandbox.rocketmq import RocketMq
from spark_jobs import RocketMQ
from tests.real.spark.source import Source

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    if jars.find_java() is None:
        pytest.skip("NO SPARK: there is no Java")
    # With this, Python workers find the checkout wherever pytest was started.
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ |= archive.make_environment()
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.authenticate.socketTimeout", "120s")  # on a busy machine
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(RocketMQ)
    yield session
    session.stop()


@pytest.fixture
def source(spark: SparkSession, rocketmq: RocketMq, tmp_path: Path) -> Source:
    """A source that reads from the shared brokers."""
    return Source(spark, rocketmq.name_server.address, tmp_path)
