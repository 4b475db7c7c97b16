"""
Send exactly one receipt per order: `python examples/stream.py NAME_SERVER FOLDER`.

If you run it again, it sends no receipt twice: a checkpoint in FOLDER records which messages were
read, and for which orders a receipt was sent.
"""

import sys

from pyspark.sql import SparkSession

from spark_jobs import RocketMQ

name_server, folder = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .config(
        "spark.sql.shuffle.partitions", "2"
    )  # the state of known orders has this many partitions
    .getOrCreate()
)
spark.dataSource.register(RocketMQ)
orders = (
    spark.readStream.format("rocketmq")
    .option("nameServers", name_server)
    .option("topics", "orders")
    .option("group", "receipts")
    .load()
)
query = (
    orders.withWatermark("store_timestamp", "1 hour")
    .dropDuplicatesWithinWatermark(["keys"])
    .selectExpr("concat('receipt for order ', keys) AS body", "keys")
    .writeStream.format("rocketmq")
    .option("nameServers", name_server)
    .option("topic", "receipts")
    .option("checkpointLocation", f"{folder}/receipts")
    .trigger(availableNow=True)  # without it, the query runs until it is stopped
    .start()
)
query.awaitTermination()
receipts = (
    spark.read.format("rocketmq")
    .option("nameServers", name_server)
    .option("topics", "receipts")
    .load()
)
for row in sorted(receipts.selectExpr("string(body)").collect()):
    print(row.body)
