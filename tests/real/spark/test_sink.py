"""`df.write` and `df.writeStream` into a real broker."""

import pytest
from pyspark.sql import SparkSession

from mq_client import blocking
from mq_client.values import MessageQueue
from sandbox.rocketmq import RocketMq
from tests.real.spark.source import Source, ends_at, list_stored, send


def test_rows_go_to_the_topics_that_they_name_with_all_that_they_hold(
    spark: SparkSession, source: Source, client: blocking.Client, rocketmq: RocketMq, topic: str
) -> None:
    other = f"{topic}-other"
    rocketmq.create_topics({other: 1})
    frame = spark.createDataFrame(
        [
            (topic, bytearray(b"\x00\xff"), "k1 k2", "größe", {"a": "ß", "none": None}),
            (other, bytearray(b""), None, None, None),
            (None, bytearray(b"by option"), None, None, {}),
        ],
        "topic string, body binary, keys string, tags string, properties map<string,string>",
    )
    writer = frame.coalesce(1).write.format("rocketmq").mode("append")
    writer.option("nameServers", source.name_servers).option("topic", other).save()
    (full,) = list_stored(client, topic, 1)
    assert (full.body, full.keys, full.tags) == (b"\x00\xff", ("k1", "k2"), "größe")
    assert full.properties["a"] == "ß"
    assert "none" not in full.properties
    assert sorted(each.body for each in list_stored(client, other, 2)) == [b"", b"by option"]


def test_a_frame_is_spread_over_all_queues_and_all_of_it_is_stored(
    spark: SparkSession, source: Source, client: blocking.Client, topic: str
) -> None:
    frame = spark.range(3000).selectExpr("string(id) AS body")
    writer = frame.write.format("rocketmq").mode("append")
    writer.option("nameServers", source.name_servers).option("topic", topic).save()
    found = list_stored(client, topic, 3000)
    assert sorted(int(each.body) for each in found) == list(range(3000))
    assert len({(each.broker, each.queue_id) for each in found}) == 4


def test_messages_of_one_key_are_on_one_queue_in_their_order(
    spark: SparkSession, source: Source, client: blocking.Client, topic: str
) -> None:
    frame = spark.range(2000).selectExpr("string(id) AS body", "id % 7 AS customer").coalesce(1)
    writer = frame.write.format("rocketmq").mode("append")
    writer = writer.option("nameServers", source.name_servers).option("topic", topic)
    writer.option("orderingKey", "customer").save()
    found = list_stored(client, topic, 2000)
    for customer in range(7):
        mine = [each for each in found if int(each.body) % 7 == customer]
        assert len({(each.broker, each.queue_id) for each in mine}) == 1
        assert [int(each.body) for each in mine] == list(range(customer, 2000, 7))


def test_columns_that_cannot_be_sent_are_an_error_before_anything_is_sent(
    spark: SparkSession, source: Source
) -> None:
    frame = spark.range(1).selectExpr("'x' AS body", "id AS amount")
    writer = frame.write.format("rocketmq").mode("append")
    with pytest.raises(Exception, match="column amount bigint: the sink takes topic string"):
        writer.option("nameServers", source.name_servers).option("topic", "x").save()


def test_a_message_that_no_broker_takes_is_an_error_that_names_it(
    spark: SparkSession, source: Source, topic: str
) -> None:
    rows = "SELECT 'order-7' AS keys, repeat('x', 4 * 1024 * 1024 + 1) AS body"
    writer = spark.sql(rows).write.format("rocketmq").mode("append")
    with pytest.raises(
        Exception, match=f"a message to topic '{topic}' with keys order-7, .* 4,194,305 bytes"
    ):
        writer.option("nameServers", source.name_servers).option("topic", topic).save()


def test_a_frame_cannot_overwrite_a_topic(
    spark: SparkSession, source: Source, client: blocking.Client, topic: str
) -> None:
    writer = spark.sql("SELECT 'x' AS body").write.format("rocketmq").mode("overwrite")
    with pytest.raises(Exception, match=r"a topic cannot be overwritten.*mode\(.append.\)"):
        writer.option("nameServers", source.name_servers).option("topic", topic).save()
    ends_at(client, topic, 0)


def test_rows_with_long_keys_are_sent_in_batches_that_brokers_take(
    spark: SparkSession, source: Source, client: blocking.Client, topic: str
) -> None:
    rows = "string(id) AS body", "repeat('\u00df', 10 * 1024) AS keys", "repeat('t', 9000) AS tags"
    writer = spark.range(300).selectExpr(*rows).coalesce(1).write.format("rocketmq")
    writer = writer.mode("append").option("nameServers", source.name_servers)
    writer.option("topic", topic).save()
    assert sorted(int(each.body) for each in list_stored(client, topic, 300)) == list(range(300))


def test_a_stream_is_sent_on_and_a_restart_sends_only_what_is_new(
    source: Source, client: blocking.Client, rocketmq: RocketMq, queue: MessageQueue
) -> None:
    target = f"{queue.topic}-sink"
    rocketmq.create_topics({target: 1}, brokers=["broker-a"])

    def copy() -> None:
        frame = source.stream(topics=queue.topic, startFrom="earliest").select("body", "keys")
        writer = frame.writeStream.format("rocketmq").option("topic", target)
        source.finish(writer.option("nameServers", source.name_servers))

    send(client, queue, b"1", b"2")
    ends_at(client, queue.topic, 2)
    copy()
    send(client, queue, b"3")
    ends_at(client, queue.topic, 3)
    copy()
    assert [each.body for each in list_stored(client, target, 3)] == [b"1", b"2", b"3"]
