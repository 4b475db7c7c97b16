"""
RocketMQ in PySpark: a data source and a sink.

`spark.dataSource.register(RocketMQ)`, then `spark.readStream.format("rocketmq")`. See
docs/spark.md.
"""

from spark_jobs.source import RocketMQ

__all__ = ["RocketMQ"]
