"""The upper bound of sources in Python: `python -m benchmarks.spark.peers.ceiling MASTER`."""

import sys

from pyspark.sql import DataFrame, SparkSession

from benchmarks.pull.player import Job
from benchmarks.spark import reads
from benchmarks.spark.peers.synthetic import Synthetic


def _load(spark: SparkSession, job: Job) -> DataFrame:
    spark.dataSource.register(Synthetic)
    reader = spark.read.format(Synthetic.name()).option("topic", job.topic)
    return reader.options(queues=job.queues, messages=job.messages_a_queue).load()


if __name__ == "__main__":
    reads.play(sys.argv[1], _load)
