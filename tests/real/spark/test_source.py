"""`spark.read` and `spark.readStream` over a real broker."""

from pyspark.sql import SparkSession

from mq_client import blocking
from mq_client.messages import Message
from mq_client.operations.sending import To
from mq_client.values import Queue
from sandbox.rocketmq import RocketMq


def send(client: blocking.Client, queue: Queue, *bodies: bytes) -> None:
    client.send([Message(queue.topic, body) for body in bodies], To(queue))


def test_a_bounded_read_gives_every_message_once(
    spark: SparkSession, rocketmq: RocketMq, client: blocking.Client, topic: str
) -> None:
    for number, queue in enumerate(client.route(topic).writable):
        send(client, queue, *(b"%d-%d" % (number, each) for each in range(100)))
    rows = (
        spark.read.format("rocketmq")
        .option("nameServers", rocketmq.name_server.address)
        .option("topics", topic)
        .load()
        .collect()
    )
    assert sorted(row.body for row in rows) == sorted(
        b"%d-%d" % (number, each) for number in range(4) for each in range(100)
    )
