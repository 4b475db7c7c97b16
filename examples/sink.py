"""Send orders from a DataFrame: `python examples/sink.py NAME_SERVER`."""

import sys

from pyspark.sql import SparkSession

from mq_client.blocking import Client
from mq_client.values import TopicConfig
from spark_jobs import RocketMQ

name_server = sys.argv[1]
with Client(name_server) as client:
    client.put_topics([TopicConfig("orders", 4, 4), TopicConfig("receipts", 4, 4)])

spark = SparkSession.builder.master("local[2]").getOrCreate()
spark.dataSource.register(RocketMQ)
orders = spark.createDataFrame(
    [
        ("1", "ann", 10.0),
        ("2", "ben", 25.0),
        ("3", "ann", 5.0),
        ("3", "ann", 5.0),  # a duplicate: the producer has retried
    ],
    "number string, customer string, amount double",
)
(
    orders.repartition("customer")  # rows that must stay in order belong in one partition
    .sortWithinPartitions("number")
    .selectExpr("to_json(struct(number, customer, amount)) AS body", "number AS keys", "customer")
    .write.format("rocketmq")
    .option("nameServers", name_server)
    .option("topic", "orders")
    .option("orderingKey", "customer")
    .mode("append")
    .save()
)
print("sent", orders.count(), "orders")
