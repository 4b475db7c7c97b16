"""Brokers that die, lose messages or refuse requests. This file has its own brokers."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import trustme
from pyspark.sql import SparkSession

from mq_client import blocking, errors
from mq_client.acl import Credentials
from mq_client.commands.offsets import GetMaxOffset
from mq_client.values import MessageQueue
from sandbox import asking, jars, rocketmq
from sandbox.rocketmq import RocketMq
from sandbox.waiting import wait_for
from spark_jobs import fetch, options, planning
from spark_jobs.observing import TopicObserver
from spark_jobs.options import Reading
from spark_jobs.planning import Range
from tests.real.secured import SECURED, tls_options
from tests.real.spark.forgetting import SMALL_FILES, forget_files
from tests.real.spark.source import Source, bodies, delete, ends_at, send

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")


@pytest.fixture(scope="module")
def mq() -> Iterator[RocketMq]:
    with rocketmq.run(brokers=2, properties=SMALL_FILES) as running:
        yield running


@pytest.fixture
def client(mq: RocketMq) -> Iterator[blocking.Client]:
    with blocking.Client(mq.name_server.address) as opened:
        yield opened


@pytest.fixture
def topic(mq: RocketMq, unique_name: str) -> str:
    mq.create_topics({unique_name: 1})
    return unique_name


@pytest.fixture
def source(spark: SparkSession, mq: RocketMq, tmp_path: Path) -> Source:
    return Source(spark, mq.name_server.address, tmp_path)


def test_deleted_messages_are_an_error_or_passed_over_as_asked(
    source: Source, mq: RocketMq, client: blocking.Client, topic: str
) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    given = {"topics": topic, "startFrom": "earliest"}
    send(client, queue, b"0", b"1")
    ends_at(client, topic, 2)
    assert source.run(**given).bodies == [b"0", b"1"]
    for number in range(2, 42):
        send(client, queue, b"%02d" % number + bytes(8000))
    ends_at(client, topic, 42)

    forget_files(mq.brokers["broker-a"])
    left = client.find_min_offset(queue)
    assert 2 < left < 42
    with pytest.raises(Exception, match=f"{topic}@broker-a 0: offsets 2 to {left - 1} are del"):
        source.run(**given)
    with pytest.raises(Exception, match=r"offsets 0 to \d+ are deleted"):
        source.rows(topics=topic, startFrom=f'{{"{topic}": {{"broker-a": {{"0": 0}}}}}}')
    found = source.run(failOnDataLoss="false", **given).bodies
    assert [int(body[:2]) for body in found] == list(range(left, 42))


def test_a_broker_that_dies_while_a_stream_runs_loses_and_doubles_nothing(
    source: Source, mq: RocketMq, client: blocking.Client, topic: str
) -> None:
    """While the broker is down, all other queues go on [rocketmq-externals#148]."""
    one, two = MessageQueue(topic, "broker-a", 0), MessageQueue(topic, "broker-b", 0)
    broker = mq.brokers["broker-b"]
    with source.running(topics=topic, startFrom="earliest") as (batches, query):

        def reached(count: int) -> bool:
            def look() -> int:
                error = query.exception()
                assert error is None, error
                return len(batches.bodies)

            return wait_for(look, lambda found: found >= count) == count

        send(client, one, b"a0")
        send(client, two, b"b0", b"b1")
        assert reached(3)
        broker.kill()
        send(client, one, b"a1")
        assert reached(4)
        broker.restart()
        send(client, two, b"b2")
        send(client, one, b"a2")
        assert reached(6)
    assert batches.bodies == [b"a0", b"a1", b"a2", b"b0", b"b1", b"b2"]


def test_a_broker_that_is_away_at_a_restart_is_left_out_and_caught_up_later(
    source: Source, mq: RocketMq, client: blocking.Client, topic: str, group: str
) -> None:
    """A topic whose brokers are all down is not mistaken for a deleted one."""
    one, two = MessageQueue(topic, "broker-a", 0), MessageQueue(topic, "broker-b", 0)
    lonely = f"{topic}-lonely"
    mq.create_topics({lonely: 1}, brokers=["broker-b"])
    given = {"topicPattern": f"{topic}.*", "startFrom": "earliest", "group": group}
    for queue in (one, two, MessageQueue(lonely, "broker-b", 0)):
        send(client, queue, f"{queue.topic}{queue.broker} 0".encode())
    ends_at(client, topic, 2)
    ends_at(client, lonely, 1)
    assert len(source.run(**given).bodies) == 3
    broker = mq.brokers["broker-b"]
    broker.kill()
    try:
        send(client, one, b"1")
        wait_for(lambda: client.find_max_offset(one), lambda end: end == 2)
        assert source.run(**given).bodies == [b"1"]
    finally:
        broker.restart()
    assert source.run(**given).bodies == []
    send(client, two, b"2")
    send(client, MessageQueue(lonely, "broker-b", 0), b"3")
    wait_for(lambda: client.find_max_offset(two), lambda end: end == 2)
    ends_at(client, lonely, 2)
    assert source.run(**given).bodies == [b"2", b"3"]


def test_a_topic_that_is_gone_ends_or_is_passed_over_as_asked(
    source: Source, mq: RocketMq, client: blocking.Client, topic: str
) -> None:
    kept = f"{topic}-kept"
    mq.create_topics({kept: 1})
    given = {"topics": f"{topic},{kept}", "startFrom": "earliest"}
    send(client, MessageQueue(topic, "broker-a", 0), b"0")
    ends_at(client, topic, 1)
    assert source.run(**given).bodies == [b"0"]
    delete(mq, topic)
    send(client, MessageQueue(kept, "broker-a", 0), b"1")
    ends_at(client, kept, 1)
    with pytest.raises(
        Exception, match="the topic no longer has this queue, which was read up to 1"
    ):
        source.run(**given)
    assert source.run(failOnDataLoss="false", **given).bodies == [b"1"]
    assert source.run(failOnDataLoss="false", **given).bodies == []


def test_a_slave_is_read_while_its_master_is_away_and_never_taken_for_it(
    spark: SparkSession, tmp_path: Path, unique_name: str
) -> None:
    """Readers wait for messages that the slave does not have yet, even if losses may be skipped."""
    with (
        rocketmq.run(brokers=1, slaves=1) as mq,
        blocking.Client(mq.name_server.address) as client,
    ):
        mq.create_topics({unique_name: 1})
        queue = MessageQueue(unique_name, "broker-a", 0)
        send(client, queue, b"0", b"1")
        (slave,) = mq.slaves.values()
        asked = GetMaxOffset(unique_name, 0)
        assert wait_for(lambda: asking.ask(slave.address, asked), lambda end: end == 2) == 2
        master = mq.brokers["broker-a"]
        slave.kill()
        send(client, queue, b"2", b"3")
        ends_at(client, unique_name, 4)
        master.kill()
        slave.restart()
        found = Source(spark, mq.name_server.address, tmp_path).rows(topics=unique_name)
        assert bodies(found) == [b"0", b"1"]

        given = {"nameServers": mq.name_server.address, "topics": unique_name}
        reading = options.parse_reading(given, is_stream=True)
        hasty = options.parse_reading(given | {"fetchDeadline": "3s"}, is_stream=True)
        gaps: list[Range] = []
        planned = [Range(queue, 0, 4)]

        def read(reading: Reading) -> Iterator[pa.RecordBatch]:
            return fetch.fetch(
                planned, reading.cluster, "g", reading.wanted,
                allow_gaps=True, include_properties=False, gaps=gaps,
            )  # fmt: skip

        with pytest.raises(errors.UnavailableError):
            list(read(hasty))
        observer = TopicObserver(client, reading)
        assert planning.find_losses({queue: 4}, observer.observe({queue: 4})) == []
        master.restart()
        assert sum(batch.num_rows for batch in read(reading)) == 4
        assert gaps == []
        assert observer.observe({queue: 4}).queues[queue].max == 4


def test_brokers_that_speak_tls_are_read_with_their_authority(
    spark: SparkSession, tmp_path: Path, unique_name: str
) -> None:
    authority = trustme.CA()
    trusted = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(trusted)
    with rocketmq.run(brokers=1, java_options=tls_options(authority, tmp_path)) as mq:
        mq.create_topics({unique_name: 1})
        with blocking.Client(mq.name_server.address) as client:
            send(client, MessageQueue(unique_name, "broker-a", 0), b"0")
            ends_at(client, unique_name, 1)
        source = Source(spark, mq.name_server.address, tmp_path)
        assert bodies(source.rows(topics=unique_name, tls=str(trusted))) == [b"0"]
        with pytest.raises(Exception, match=r"(?i)certificate verify failed"):
            source.rows(topics=unique_name, tls="true")


def test_who_may_not_read_is_told_so(spark: SparkSession, tmp_path: Path) -> None:
    keeper = {"accessKey": "keeper", "secretKey": "secret-of-keeper"}
    known = Credentials(*keeper.values())
    with rocketmq.run(brokers=1, properties=SECURED, credentials=known) as mq:
        mq.create_topics({"sealed": 1})
        source = Source(spark, mq.name_server.address, tmp_path)
        frame = spark.sql("SELECT 'x' AS body").write.format("rocketmq").mode("append")
        frame = frame.option("nameServers", source.name_servers).option("topic", "sealed")
        frame.options(**keeper).save()
        with blocking.Client(source.name_servers, credentials=known) as client:
            ends_at(client, "sealed", 1)
        assert bodies(source.rows(topics="sealed", **keeper)) == [b"x"]
        wrong = {**keeper, "secretKey": "wrong"}
        for act in (source.rows, source.run):
            with pytest.raises(Exception, match=r"(?s)check access key") as caught:
                act(topics="sealed", **wrong)
            assert "wrong" not in str(caught.value)
