"""Sum up all existing orders: `python examples/batch.py NAME_SERVER`."""

import sys

from pyspark.sql import SparkSession

from spark_jobs import RocketMQ

spark = SparkSession.builder.master("local[2]").getOrCreate()
spark.dataSource.register(RocketMQ)
messages = (
    spark.read.format("rocketmq")
    .option("nameServers", sys.argv[1])
    .option("topics", "orders")
    .load()
)
orders = messages.selectExpr(
    "queue_id", "from_json(string(body), 'customer string, amount double') AS o"
)
by_customer = orders.groupBy("o.customer").agg({"o.amount": "sum", "queue_id": "max"})
for customer, amount, queue in sorted(by_customer.collect()):
    print(f"{customer} ordered for {amount:.2f}, in queue {queue}")
