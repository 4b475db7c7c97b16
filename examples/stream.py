"""
Send a receipt for each order, and one only: `python examples/stream.py NAME_SERVER FOLDER`.

Run it again: the checkpoint in the folder knows which orders were read, and which were seen.
"""

import sys

from pyspark.sql import SparkSession

from spark_jobs import RocketMQ

name_server, folder = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.sql.shuffle.partitions", "2")  # what was seen is kept in so many parts
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
    .trigger(availableNow=True)  # left out, it goes on for ever
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
