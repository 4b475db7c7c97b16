"""Rarer features: delayed messages, inner batches, one-way sends, filters, IPv6."""

import asyncio
import random
import socket
import time
from collections.abc import Iterator, Sequence

import pytest

from mq_client import aio, batch_body, blocking, errors, filters, flows, properties, values, wire
from mq_client.choosers import To
from mq_client.commands.sending import SendBatch
from mq_client.messages import Message, StoredMessage
from mq_client.pulling import Batch, Position
from mq_client.values import MessageQueue, TopicConfig
from sandbox import rocketmq
from sandbox.waiting import wait_for
from tests.real import java_client
from tests.real.java_client import JavaClient

DELAY_MS = 1000
"""The broker's delay level 1."""
AHEAD_MS = 2000


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def read(client: blocking.Client, position: Position) -> list[StoredMessage]:
    return [found for batch in client.read("readers", [position]) for found in batch.to_messages()]


# --- delayed messages


@pytest.fixture(scope="module")
def timed() -> Iterator[rocketmq.RocketMq]:
    """A broker that delivers messages at a given time, but accepts no SQL filters."""
    settings = {"timerWheelEnable": "true", "enablePropertyFilter": "false"}
    with rocketmq.run(brokers=1, properties=settings) as mq:
        mq.create_topics({"timed": 4})
        yield mq


@pytest.fixture
def timed_client(timed: rocketmq.RocketMq) -> Iterator[blocking.Client]:
    with blocking.Client(timed.name_server.address) as opened:
        yield opened


def test_messages_with_a_time_come_whole_and_not_before_it(
    timed_client: blocking.Client, rng: random.Random
) -> None:
    """The broker keeps only whole seconds, so the times may differ by less than a second."""
    queue = MessageQueue("timed", "broker-a", 1)
    now_ms = wall_ms()
    sent = {
        rng.randbytes(100): now_ms + AHEAD_MS + below for below in (0, 1, 250, 500, 750, 999, 1000)
    }
    for body, at_ms in sent.items():
        timed_client.send([later(queue.topic, body, deliver_at_ms=at_ms)], To(queue))
    found = read(timed_client, Position(queue, 0, stop=len(sent)))
    assert {message.body for message in found} == sent.keys()
    for message in found:
        assert_is_whole(message, queue)
        assert message.properties[properties.DELIVER_AT_MS] == str(sent[message.body])
        assert now_ms <= message.born_timestamp_ms <= now_ms + AHEAD_MS
        assert message.store_timestamp_ms >= sent[message.body]


def test_a_message_whose_time_is_over_comes_at_once(timed_client: blocking.Client) -> None:
    queue = MessageQueue("timed", "broker-a", 2)
    message = later(queue.topic, b"late", deliver_at_ms=wall_ms() - AHEAD_MS)
    assert timed_client.send([message], To(queue)).offset == 0
    (found,) = read(timed_client, Position(queue, 0, stop=1))
    assert_is_whole(found, queue)


def test_a_time_is_refused_by_a_broker_that_was_not_set_up_for_it(
    client: blocking.Client, queue: values.MessageQueue
) -> None:
    with pytest.raises(errors.AnswerError, match="timer"):
        client.send([later(queue.topic, b"x", deliver_at_ms=wall_ms() + AHEAD_MS)], To(queue))


def test_a_message_of_delay_level_1_comes_whole_after_a_second(
    client: blocking.Client, queue: values.MessageQueue
) -> None:
    client.send([later(queue.topic, b"later", delay_level=1)], To(queue))
    (found,) = read(client, Position(queue, 0, stop=1))
    assert found.body == b"later"
    assert_is_whole(found, queue)
    assert found.store_timestamp_ms - found.born_timestamp_ms >= DELAY_MS


def later(
    topic: str, body: bytes, *, delay_level: int | None = None, deliver_at_ms: int | None = None
) -> Message:
    return Message(
        topic, body, tags="paid", keys=("order-7", "client-3"), properties={"größe": "δ = 1"},
        delay_level=delay_level, deliver_at_ms=deliver_at_ms, flag=7,
    )  # fmt: skip


def assert_is_whole(found: StoredMessage, queue: MessageQueue) -> None:
    assert MessageQueue(found.topic, found.broker, found.queue_id) == queue
    assert (found.tags, found.keys, found.flag) == ("paid", ("order-7", "client-3"), 7)
    assert found.properties["größe"] == "δ = 1"


# --- inner batches: the broker stores a batch as one message, which readers split


@pytest.fixture
def batch_queue(client: blocking.Client, unique_name: str) -> MessageQueue:
    """A queue that stores batches as one message."""
    config = TopicConfig(unique_name, 2, 2, attributes={"queue.type": "BatchCQ"})
    client.put_topics([config])
    queue = MessageQueue(unique_name, "broker-b", 1)
    routed = wait_for(lambda: route_of(client, unique_name), lambda found: queue in found)
    assert queue in routed
    return queue


def route_of(client: blocking.Client, topic: str) -> list[MessageQueue]:
    try:
        return client.find_route(topic, max_age=0).readable
    except errors.TopicUnknownError:
        return []


def send_inner_batch(client: blocking.Client, queue: MessageQueue, numbers: Sequence[int]) -> int:
    """Send a batch with its own id, as RocketMQ's producer does. It is stored as one message."""
    key = properties.encode({properties.UNIQUE_KEY: f"BATCH-{numbers[0]}"})
    body = batch_body.encode((n, b"%d" % n, properties.encode(texts(n))) for n in numbers)
    route = client.find_route(queue.topic).find_broker(queue.broker)
    assert route is not None
    assert route.master is not None
    request = SendBatch("senders", queue, body, str(key, "utf-8"), wall_ms())
    return client.engine.run(flows.ask(route.master, request, 5.0)).offset


def send_single(client: blocking.Client, queue: MessageQueue, n: int) -> None:
    message = Message(
        queue.topic, b"%d" % n, tags=f"t{n}", keys=(f"k{n}",), properties={"n": str(n)}, flag=n
    )
    client.send([message], To(queue))


def texts(n: int) -> dict[str, str]:
    return {properties.TAGS: f"t{n}", properties.KEYS: f"k{n}", "n": str(n)}


def offsets_and_bodies(batch: Batch) -> list[tuple[int, bytes]]:
    return [(found.queue_offset, found.body) for found in batch.to_messages()]


def test_messages_of_inner_batches_are_read_one_by_one(
    client: blocking.Client, batch_queue: MessageQueue
) -> None:
    assert send_inner_batch(client, batch_queue, range(5)) == 0
    send_single(client, batch_queue, 5)
    assert send_inner_batch(client, batch_queue, range(6, 50)) == 6
    found = read(client, Position(batch_queue, 0, stop=50))
    assert [message.queue_offset for message in found] == list(range(50))
    is_inner = [message.sys_flag & wire.WRAPPED == wire.WRAPPED for message in found]
    assert is_inner == [n != 5 for n in range(50)]
    for n, message in enumerate(found):
        assert (message.body, message.flag) == (b"%d" % n, n)
        assert (message.tags, message.keys) == (f"t{n}", (f"k{n}",))
        assert message.properties["n"] == str(n)
    assert client.find_max_offset(batch_queue) == 50


@pytest.mark.parametrize(
    ("first", "stop"), [(0, 1), (2, 4), (4, 6), (3, 13), (7, 8), (9, 10), (13, 15)]
)
def test_a_pull_from_the_midst_of_inner_batches_gives_the_offsets_asked_for(
    client: blocking.Client, batch_queue: MessageQueue, first: int, stop: int
) -> None:
    for numbers in (range(5), range(5, 10), range(10, 15)):
        send_inner_batch(client, batch_queue, numbers)
    batches = list(client.read("readers", [Position(batch_queue, first, stop=stop)]))
    expected = [(n, b"%d" % n) for n in range(first, stop)]
    assert [pair for batch in batches for pair in offsets_and_bodies(batch)] == expected
    rows = [row for batch in batches for row in batch.to_columns().to_pylist()]
    assert [(row["queue_offset"], row["body"]) for row in rows] == expected


def test_columns_of_inner_batches_hold_what_the_messages_do(
    client: blocking.Client, batch_queue: MessageQueue
) -> None:
    send_inner_batch(client, batch_queue, range(5))
    send_single(client, batch_queue, 5)
    for batch in client.read("readers", [Position(batch_queue, 1, stop=6)]):
        messages = batch.to_messages()
        rows = batch.to_columns().to_pylist()
        for message, row in zip(messages, rows, strict=True):
            assert row["topic"] == message.topic
            assert (row["broker_name"], row["queue_id"]) == (message.broker, message.queue_id)
            assert row["queue_offset"] == message.queue_offset
            assert (row["flag"], row["sys_flag"]) == (message.flag, message.sys_flag)
            assert row["body"] == message.body
            assert properties.parse(row["properties"]) == message.properties
            assert row["commit_log_offset"] == message.commit_log_offset
            assert row["store_host"] == message.store_address


def test_inner_batches_of_the_java_client_are_read_as_it_reads_them(
    java: JavaClient, client: blocking.Client, batch_queue: MessageQueue
) -> None:
    given = [
        java_client.message(b"%d" % n, tags=f"t{n}", keys=[f"k{n}"], flag=n) for n in range(10)
    ]
    java.send(batch_queue, *given)
    ours = read(client, Position(batch_queue, 0, stop=10))
    assert all(message.sys_flag & wire.WRAPPED == wire.WRAPPED for message in ours)
    theirs = java.read(batch_queue, 10)
    fields = ["queue_offset", "body", "tags", "flag", "msg_id", "born_timestamp_ms"]
    assert [[getattr(message, name) for name in fields] for message in ours] == [
        [message[name] for name in fields] for message in theirs
    ]


def test_a_lag_counts_the_messages_of_inner_batches(
    client: blocking.Client, batch_queue: MessageQueue, group: str
) -> None:
    send_inner_batch(client, batch_queue, range(10))
    (batch,) = client.read(group, [Position(batch_queue, 0, stop=4)])
    client.commit(group, {batch_queue: batch.stop})
    lags = {found.queue: found.messages for found in client.measure_lag(group, batch_queue.topic)}
    assert lags[batch_queue] == 6


def test_a_broker_filters_inner_batches_by_a_tag_that_they_do_not_have(
    client: blocking.Client, batch_queue: MessageQueue
) -> None:
    """The broker checks the batch, not its messages: a limit of RocketMQ."""
    send_inner_batch(client, batch_queue, range(3))
    wanted = filters.match_tags("t1")
    assert read(client, Position(batch_queue, 0, stop=3, wanted=wanted)) == []


# --- one way


def test_a_message_sent_one_way_arrives(client: blocking.Client, queue: MessageQueue) -> None:
    client.send_one_way(later(queue.topic, b"fire"), To(queue))
    (found,) = read(client, Position(queue, 0, stop=1))
    assert found.body == b"fire"
    assert_is_whole(found, queue)


def test_a_client_that_only_sends_one_way_sends(
    rocketmq: rocketmq.RocketMq, client: blocking.Client, queue: MessageQueue
) -> None:
    with blocking.Client(rocketmq.name_server.address) as sender:
        sender.send_one_way(later(queue.topic, b"fire"), To(queue))
        (found,) = read(client, Position(queue, 0, stop=1))
    assert found.body == b"fire"


def test_a_message_sent_one_way_by_asyncio_arrives(
    rocketmq: rocketmq.RocketMq, client: blocking.Client, queue: MessageQueue
) -> None:
    async def main() -> None:
        async with aio.Client(rocketmq.name_server.address) as sender:
            await sender.send_one_way(later(queue.topic, b"fire"), To(queue))

    asyncio.run(main())
    (found,) = read(client, Position(queue, 0, stop=1))
    assert found.body == b"fire"
    assert_is_whole(found, queue)


# --- SQL filters that the broker cannot use


@pytest.mark.parametrize(
    "text",
    ["amount >", "amount > > 10", "(amount > 10", "amount ~ 10", "'unclosed", "amount > 'ten'"],
)
def test_an_sql_filter_that_does_not_parse_is_an_error(
    client: blocking.Client, queue: MessageQueue, text: str
) -> None:
    """A broker would treat such a filter as "everything"."""
    client.send([Message(queue.topic, b"x", properties={"amount": "5"})], To(queue))
    position = Position(queue, 0, wanted=filters.match_sql(text))
    with pytest.raises(errors.SubscriptionError, match=queue.topic):
        client.pull_batch("readers", position)
    assert position.next == 0


def test_an_sql_filter_is_refused_by_a_broker_that_was_not_set_up_for_it(
    timed_client: blocking.Client,
) -> None:
    position = Position(
        MessageQueue("timed", "broker-a", 3), 0, wanted=filters.match_sql("amount > 10")
    )
    with pytest.raises(errors.SubscriptionError, match="SQL92 needs enablePropertyFilter=true"):
        timed_client.pull_batch("readers", position)


# --- IPv6

IPV6 = "[::1]"


class OnIPv6:
    """A server of the sandbox that listens on IPv6 loopback instead of IPv4."""

    @property
    def address(self) -> str:
        found: str = super().address  # type: ignore[misc]  # the server class has it
        return found.replace("127.0.0.1", IPV6)

    def make_properties(self) -> dict[str, str]:
        found: dict[str, str] = super().make_properties()  # type: ignore[misc]  # as above
        hosts = dict.fromkeys({"brokerIP1", "brokerIP2"} & found.keys(), IPV6)
        return {**found, "bindAddress": "::1", **hosts}


class NameServerOnIPv6(OnIPv6, rocketmq.NameServer):
    pass


class BrokerOnIPv6(OnIPv6, rocketmq.Broker):
    pass


@pytest.fixture(scope="module")
def on_ipv6() -> Iterator[rocketmq.RocketMq]:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError as error:
        pytest.skip(f"NO IPv6 ON THIS MACHINE: {error}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rocketmq, "NameServer", NameServerOnIPv6)
        patch.setattr(rocketmq, "Broker", BrokerOnIPv6)
        with rocketmq.run(brokers=1) as mq:
            mq.create_topics({"orders": 4})
            yield mq


def test_messages_go_to_and_come_from_a_broker_on_ipv6(on_ipv6: rocketmq.RocketMq) -> None:
    queue = MessageQueue("orders", "broker-a", 0)
    with blocking.Client(on_ipv6.name_server.address) as client:
        client.send([Message("orders", b"single")], To(queue))
        client.send([Message("orders", b"first"), Message("orders", b"second")], To(queue))
        (batch,) = client.read("readers", [Position(queue, 0, stop=3)])
    messages = batch.to_messages()
    assert [message.body for message in messages] == [b"single", b"first", b"second"]
    assert {message.store_host for message in messages} == {on_ipv6.brokers["broker-a"].address}
    assert all(message.born_host.startswith(f"{IPV6}:") for message in messages)
    rows = batch.to_columns().to_pylist()
    assert [row["body"] for row in rows] == [b"single", b"first", b"second"]
    assert [row["store_host"] for row in rows] == [each.store_address for each in messages]


def test_asyncio_reaches_a_broker_on_ipv6(on_ipv6: rocketmq.RocketMq) -> None:
    queue = MessageQueue("orders", "broker-a", 1)

    async def main() -> bytes:
        async with aio.Client(on_ipv6.name_server.address) as client:
            await client.send([Message("orders", b"x")], To(queue))
            batch = await client.pull_batch("readers", Position(queue, 0, stop=1))
            assert batch is not None
            return batch.to_messages()[0].body

    assert asyncio.run(main()) == b"x"


def test_a_member_joins_and_leaves_a_broker_on_ipv6(on_ipv6: rocketmq.RocketMq) -> None:
    with blocking.Client(on_ipv6.name_server.address) as client:
        with client.join("readers", "member", {"orders": filters.EVERYTHING}) as joined:
            assert joined.failures == {}
            (found,) = client.list_members("readers", "orders").members
            assert found.client_id == "member"
            assert found.address.startswith("[0:0:0:0:0:0:0:1]:")
        assert client.list_member_ids("readers", "orders") == []
