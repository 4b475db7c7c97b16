"""
Our client reads what RocketMQ's own client sends, field by field, and the other way round.

RocketMQ's own tools see the effects of our requests, and give the same answers as our client.
"""

import bisect
import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Any

import pytest

from lb_core import model, strategies
from mq_client import (
    blocking,
    choosers,
    columns,
    compression,
    directory,
    filters,
    properties,
    values,
)
from mq_client.messages import Message
from mq_client.property_columns import Properties
from mq_client.pulling import Batch, Position
from sandbox.rocketmq import RocketMq
from sandbox.waiting import wait_for
from tests.real import java_client
from tests.real.java_client import JavaClient

Fields = dict[str, Any]
Read = Callable[[values.MessageQueue, int], list[Fields]]

COMPRESSED_FROM = 4096
"""RocketMQ's producer compresses longer bodies."""
DELAY_MS = 1000
"""The broker's delay level 1."""


def as_values(batch: Batch) -> list[Fields]:
    """Convert messages to the form of `JavaClient.read`."""
    return [
        {
            "topic": stored.topic,
            "broker": stored.broker,
            "queue_id": stored.queue_id,
            "queue_offset": stored.queue_offset,
            "body": stored.body,
            "tags": stored.tags,
            "keys": " ".join(stored.keys) or None,
            "properties": dict(stored.properties),
            "msg_id": stored.msg_id,
            "offset_msg_id": stored.offset_msg_id,
            "flag": stored.flag,
            "sys_flag": stored.sys_flag,
            "born_timestamp_ms": stored.born_timestamp_ms,
            "born_host": stored.born_host,
            "store_timestamp_ms": stored.store_timestamp_ms,
            "store_host": stored.store_host,
            "reconsume_times": stored.reconsume_times,
            "prepared_transaction_offset": stored.prepared_transaction_offset,
            "commit_log_offset": stored.commit_log_offset,
        }
        for stored in batch.to_messages()
    ]


def as_columns(batch: Batch) -> list[Fields]:
    """Convert columns to the same form; some fields have no column."""
    found = batch.to_columns()
    texts = Properties(found["properties"])
    ids = columns.find_message_ids(found, texts).to_pylist()
    maps = texts.to_maps().to_pylist()
    return [
        {
            "topic": row["topic"],
            "broker": row["broker_name"],
            "queue_id": row["queue_id"],
            "queue_offset": row["queue_offset"],
            "body": row["body"],
            "tags": dict(pairs).get(properties.TAGS),
            "keys": dict(pairs).get(properties.KEYS),
            "properties": dict(pairs),
            "msg_id": message_id,
            "flag": row["flag"],
            "sys_flag": row["sys_flag"],
            "born_timestamp_ms": round(row["born_timestamp"].timestamp() * 1000),
            "store_timestamp_ms": round(row["store_timestamp"].timestamp() * 1000),
            "store_host": shown_host(row["store_host"]),
            "reconsume_times": row["reconsume_times"],
            "commit_log_offset": row["commit_log_offset"],
        }
        for row, message_id, pairs in zip(found.to_pylist(), ids, maps, strict=True)
    ]


def shown_host(raw: bytes) -> str:
    return f"{ip_address(raw[:-4])}:{int.from_bytes(raw[-4:])}"


@pytest.fixture(params=[as_values, as_columns])
def read(request: pytest.FixtureRequest, client: blocking.Client) -> Read:
    """A function that reads the first `count` messages of a queue with our client."""
    show: Callable[[Batch], list[Fields]] = request.param

    def read(queue: values.MessageQueue, count: int) -> list[Fields]:
        batches = client.read("readers", [Position(queue, 0, stop=count)])
        return [fields for batch in batches for fields in show(batch)]

    return read


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def differences(ours: list[Fields], theirs: list[Fields]) -> list[tuple[str, Any, Any]]:
    """List what Java reads differently; it may have more fields, but not more messages."""
    return [
        (name, mine[name], other[name])
        for mine, other in zip(ours, theirs, strict=True)
        for name in mine
        if mine[name] != other[name]
    ]


def text_body(rng: random.Random, length: int) -> bytes:
    """Make a body that can be compressed."""
    return bytes(rng.choices(b"abcd", k=length))


# --- sent by Java, read here


def test_a_plain_message_of_the_java_client_is_read_as_it_reads_it(
    java: JavaClient, read: Read, queue: values.MessageQueue, rng: random.Random
) -> None:
    body = rng.randbytes(100)
    before = wall_ms()
    sent = java.send(queue, java_client.message(body, flag=7))
    after = wall_ms()
    ours = read(queue, 1)
    assert not differences(ours, java.read(queue, 1))
    (found,) = ours
    assert (found["topic"], found["broker"], found["queue_id"]) == queue
    assert (found["queue_offset"], found["body"], found["flag"]) == (0, body, 7)
    assert found["msg_id"] == sent["msg_id"]
    assert before <= found["born_timestamp_ms"] <= found["store_timestamp_ms"] <= after


@pytest.mark.parametrize("codec", list(compression.Codec), ids=lambda codec: codec.name)
def test_a_body_that_the_java_client_compressed_is_expanded(
    java: JavaClient,
    read: Read,
    queue: values.MessageQueue,
    rng: random.Random,
    codec: compression.Codec,
) -> None:
    """Java clears the compression bit after it has expanded a body; we leave the flag as stored."""
    body = text_body(rng, 3 * COMPRESSED_FROM)
    java.send(queue, java_client.message(body), codec=codec.name)
    ours = read(queue, 1)
    flag = ours[0]["sys_flag"]
    assert compression.find_codec(flag) is codec
    assert ours[0]["body"] == body
    as_java_shows_it = ("sys_flag", flag, flag & ~compression.COMPRESSED)
    assert differences(ours, java.read(queue, 1)) == [as_java_shows_it]


def test_tags_keys_and_properties_of_the_java_client_are_read(
    java: JavaClient, read: Read, queue: values.MessageQueue
) -> None:
    given = {"region": "eu", "größe": "δ = 1 \U0001f680"}
    java.send(
        queue,
        java_client.message(b"x", tags="paid", keys=["order-7", "client-3"], properties=given),
    )
    ours = read(queue, 1)
    (found,) = ours
    assert (found["tags"], found["keys"]) == ("paid", "order-7 client-3")
    assert found["properties"].items() >= given.items()
    assert not differences(ours, java.read(queue, 1))


def test_a_batch_of_the_java_client_is_read_as_its_messages(
    java: JavaClient, read: Read, queue: values.MessageQueue, rng: random.Random
) -> None:
    bodies = [rng.randbytes(rng.randrange(1, 200)) for _ in range(20)]
    batch = [java_client.message(body, keys=[str(n)], flag=n) for n, body in enumerate(bodies)]
    sent = java.send(queue, *batch)
    ours = read(queue, len(bodies))
    assert [found["body"] for found in ours] == bodies
    assert [found["queue_offset"] for found in ours] == list(range(len(bodies)))
    assert ",".join(found["msg_id"] for found in ours) == sent["msg_id"]
    assert not differences(ours, java.read(queue, len(bodies)))


def test_a_delayed_message_of_the_java_client_comes_after_its_delay(
    java: JavaClient, read: Read, queue: values.MessageQueue
) -> None:
    java.send(queue, java_client.message(b"later", tags="t", delay_level=1))
    ours = read(queue, 1)
    (found,) = ours
    assert (found["topic"], found["body"], found["tags"]) == (queue.topic, b"later", "t")
    assert found["store_timestamp_ms"] - found["born_timestamp_ms"] >= DELAY_MS
    assert not differences(ours, java.read(queue, 1))


def test_a_transaction_is_seen_once_committed_and_never_when_rolled_back(
    java: JavaClient,
    read: Read,
    rocketmq: RocketMq,
    client: blocking.Client,
    unique_name: str,
) -> None:
    rocketmq.create_topics({unique_name: 1}, brokers=["broker-a"])
    queue = values.MessageQueue(unique_name, "broker-a", 0)
    for number, commits in enumerate([False, True, False, True, False]):
        body = b"%d" % number
        java.transact(queue.topic, java_client.message(body), commits=commits)
    ours = read(queue, 2)
    assert sorted(found["body"] for found in ours) == [b"1", b"3"]
    assert not differences(ours, java.read(queue, 2))
    last = client.send([Message(queue.topic, b"last")], choosers.To(queue))
    assert last.offset == 2


# --- sent here, read by Java


def test_a_message_sent_here_is_read_by_the_java_client(
    java: JavaClient, client: blocking.Client, queue: values.MessageQueue, rng: random.Random
) -> None:
    message = Message(
        queue.topic,
        rng.randbytes(100),
        tags="paid",
        keys=("order-7", "client-3"),
        properties={"region": "eu", "größe": "δ = 1 \U0001f680"},
        flag=7,
    )
    before = wall_ms()
    sent = client.send([message], choosers.To(queue))
    after = wall_ms()
    (found,) = java.read(queue, 1)
    assert (sent.queue, sent.offset) == (queue, 0)
    assert (found["topic"], found["broker"], found["queue_id"]) == queue
    assert (found["body"], found["flag"]) == (message.body, 7)
    assert (found["tags"], found["keys"]) == ("paid", "order-7 client-3")
    assert found["properties"].items() >= message.properties.items()
    assert before <= found["born_timestamp_ms"] <= found["store_timestamp_ms"] <= after


def test_the_java_client_finds_the_message_id_that_was_given_here(
    java: JavaClient, client: blocking.Client, queue: values.MessageQueue
) -> None:
    message = Message(queue.topic, b"x", properties={"UNIQ_KEY": "7F0000010001ABCD"})
    client.send([message], choosers.To(queue))
    (found,) = java.read(queue, 1)
    assert found["msg_id"] == "7F0000010001ABCD"


def test_a_batch_sent_here_is_read_by_the_java_client_as_its_messages(
    java: JavaClient, client: blocking.Client, queue: values.MessageQueue, rng: random.Random
) -> None:
    batch = [
        Message(
            queue.topic, rng.randbytes(rng.randrange(1, 200)), tags=f"t{n}", keys=(f"k{n}",),
            properties={"n": str(n)}, flag=n,
        )
        for n in range(20)
    ]  # fmt: skip
    sent = client.send(batch, choosers.To(queue))
    found = java.read(queue, len(batch))
    assert [each["queue_offset"] for each in found] == list(range(sent.offset, len(batch)))
    assert [(each["body"], each["tags"], each["keys"], each["flag"]) for each in found] == [
        (message.body, message.tags, message.keys[0], message.flag) for message in batch
    ]
    assert [each["properties"]["n"] for each in found] == [str(n) for n in range(len(batch))]


def test_a_message_delayed_here_comes_to_the_java_client_after_its_delay(
    java: JavaClient, client: blocking.Client, queue: values.MessageQueue
) -> None:
    client.send([Message(queue.topic, b"later", delay_level=1)], choosers.To(queue))
    (found,) = java.read(queue, 1)
    assert found["body"] == b"later"
    assert found["store_timestamp_ms"] - found["born_timestamp_ms"] >= DELAY_MS


# --- filters, times and waiting


def bodies(client: blocking.Client, position: Position) -> list[bytes]:
    return [
        found.body for batch in client.read("readers", [position]) for found in batch.to_messages()
    ]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("paid || refunded", [b"paid", b"refunded"], id="two tags"),
        pytest.param("Aa", [b"Aa"], id="a tag with the hash of another"),
        pytest.param("*", [b"paid", b"BB", b"None", b"refunded", b"Aa"], id="all"),
        pytest.param("nothing", [], id="a tag that no message has"),
    ],
)
def test_only_messages_with_wanted_tags_are_read(
    client: blocking.Client, queue: values.MessageQueue, expression: str, expected: list[bytes]
) -> None:
    tags = ["paid", "BB", None, "refunded", "Aa"]
    for tag in tags:
        client.send([Message(queue.topic, str(tag).encode(), tags=tag)], choosers.To(queue))
    wanted = filters.match_tags(expression)
    assert bodies(client, Position(queue, 0, stop=len(tags), wanted=wanted)) == expected


def test_only_messages_that_an_sql_filter_picks_are_read(
    client: blocking.Client, queue: values.MessageQueue
) -> None:
    rows = [("5", "eu"), ("11", "eu"), ("12", "us"), ("13", "eu")]
    for amount, region in rows:
        facts = {"amount": amount, "region": region}
        message = Message(queue.topic, amount.encode(), properties=facts)
        client.send([message], choosers.To(queue))
    wanted = filters.match_sql("amount > 10 AND region = 'eu'")
    found = bodies(client, Position(queue, 0, stop=len(rows), wanted=wanted))
    assert found == [b"11", b"13"]


def test_the_offset_of_a_time_is_that_of_the_first_message_stored_then_or_later(
    client: blocking.Client, queue: values.MessageQueue
) -> None:
    stored: list[int] = []
    while len(set(stored)) < 3:
        client.send([Message(queue.topic, b"x")], choosers.To(queue))
        position = Position(queue, len(stored), stop=len(stored) + 1)
        stored += [
            found.store_timestamp_ms
            for batch in client.read("readers", [position])
            for found in batch.to_messages()
        ]
    times = {time + change for time in stored for change in (-1, 0, 1)} - {stored[-1] + 1}
    expected = {time: bisect.bisect_left(stored, time) for time in times}
    assert {time: client.search_offset(queue, time) for time in times} == expected


def test_a_new_message_ends_a_long_poll(
    client: blocking.Client, queue: values.MessageQueue
) -> None:
    """Without the message the broker would hold the pull for 15 s."""
    reader = client.read("readers", [Position(queue, 0)])
    assert not list(reader.poll(0.5))
    client.send([Message(queue.topic, b"news")], choosers.To(queue))
    (batch,) = reader.poll(4.0)
    assert [found.body for found in batch.to_messages()] == [b"news"]


# --- groups, as RocketMQ's own tools and brokers see them


def test_offsets_committed_here_are_those_that_rocketmqs_tool_shows(
    java: JavaClient, client: blocking.Client, queue: values.MessageQueue, group: str
) -> None:
    for number in range(5):
        client.send([Message(queue.topic, b"%d" % number)], choosers.To(queue))
    with client.join(group, "member", {queue.topic: filters.EVERYTHING}):
        client.commit(group, {queue: 3})
        shown = wait_for(lambda: progress(java, group), lambda rows: rows.get(queue) == (5, 3))
    assert shown[queue] == (5, 3)


def progress(java: JavaClient, group: str) -> dict[values.MessageQueue, tuple[int, int]]:
    """Read the tool's table: for each queue, the broker's offset and the group's."""
    rows = [line.split() for line in java.admin("consumerProgress", "-g", group).splitlines()]
    return {
        values.MessageQueue(row[0], row[1], int(row[2])): (int(row[3]), int(row[4]))
        for row in rows
        if len(row) > 4 and row[2].isdigit()
    }


def test_members_that_joined_here_are_those_that_rocketmqs_tool_shows(
    java: JavaClient, client: blocking.Client, rocketmq: RocketMq, topic: str, group: str
) -> None:
    wanted = {topic: filters.match_tags("paid || refunded")}
    with (
        client.join(group, "member-1", wanted),
        blocking.Client(rocketmq.name_server.address) as other,
        other.join(group, "member-2", wanted),
    ):
        shown = java.admin("consumerConnection", "-g", group)
    rows = [line.split() for line in shown.splitlines()]
    assert sorted(row[0] for row in rows if "PYTHON" in row) == ["member-1", "member-2"]
    assert "paid || refunded" in shown


@pytest.mark.parametrize("strategy", ["AVG", "AVG_BY_CIRCLE"])
def test_our_assignment_is_the_brokers_own(
    rocketmq: RocketMq, unique_name: str, group: str, rng: random.Random, strategy: str
) -> None:
    for broker in rocketmq.brokers:
        rocketmq.create_topics({unique_name: rng.randrange(1, 9)}, brokers=[broker])
    ids = [f"{rng.choice('xyz')}-{number}" for number in rng.sample(range(100), 3)]
    with contextlib.ExitStack() as members:
        clients = [
            members.enter_context(blocking.Client(rocketmq.name_server.address)) for _ in ids
        ]
        for client, member in zip(clients, ids, strict=True):
            subscriptions = {unique_name: filters.EVERYTHING}
            members.enter_context(client.join(group, member, subscriptions))
        theirs = {
            member: client.query_assignment(group, unique_name, member, strategy)
            for client, member in zip(clients, ids, strict=True)
        }
        queues = sorted(clients[0].find_route(unique_name).readable)
    ours = strategies.find_dealer(strategy).deal(
        [model.Queue(*queue) for queue in queues], sorted(ids), {}
    )
    plain = {
        member: [values.MessageQueue(q.topic, q.broker, q.id) for q in ours[member]]
        for member in ids
    }
    assert {member: sorted(found) for member, found in theirs.items()} == plain


# --- the allocation library chooses queues


def test_the_allocation_librarys_producer_goes_round_all_queues(
    client: blocking.Client, topic: str
) -> None:
    chooser = choosers.AvoidSlow(0, lambda: 0.0)
    queues = sorted(client.find_route(topic).writable)
    sent = [client.send([Message(topic, b"x")], chooser).queue for _ in range(2 * len(queues))]
    assert sent == queues * 2


def test_the_allocation_librarys_producer_avoids_a_broker_until_its_pause_is_over(
    rocketmq: RocketMq, topic: str
) -> None:
    now = 0.0
    chooser = choosers.AvoidSlow(0, lambda: now)
    impatient = directory.Times(answer=1.0)
    with blocking.Client(rocketmq.name_server.address, times=impatient) as client:
        count = len(client.find_route(topic).writable)

        def brokers_sent_to() -> set[str]:
            return {client.send([Message(topic, b"x")], chooser).queue.broker for _ in range(count)}

        with stopped(rocketmq.brokers["broker-a"].pid):
            assert brokers_sent_to() == {"broker-b"}
        assert brokers_sent_to() == {"broker-b"}
        now = (chooser.state.brokers["broker-a"].available_at_ms or 0.0) / 1000
        assert now > 0
        assert brokers_sent_to() == {"broker-a", "broker-b"}


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a process until the block ends."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
