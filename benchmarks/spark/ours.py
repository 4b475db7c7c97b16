"""Reads with our source, as users call it: `python -m benchmarks.spark.ours NAME_SERVER MASTER`."""

import sys

from pyspark.sql import DataFrame, SparkSession

from benchmarks.pull.player import Job
from benchmarks.spark import reads
from spark_jobs import RocketMQ


def main(name_server: str, master: str) -> None:
    """Play standard input."""

    def load(spark: SparkSession, job: Job) -> DataFrame:
        spark.dataSource.register(RocketMQ)
        reader = spark.read.format(RocketMQ.name()).option("nameServers", name_server)
        return reader.option("topics", job.topic).load()

    reads.play(master, load)


if __name__ == "__main__":
    main(*sys.argv[1:])
