"""
`spark.read` and `spark.readStream` with a real broker.

Several tests cover bugs of other connectors. Their docstrings name these bugs in brackets.
"""

import pytest

from mq_client import batch_body, blocking, flows
from mq_client.choosers import To
from mq_client.commands.sending import SendBatch
from mq_client.messages import Message
from mq_client.pulling import Position
from mq_client.values import WRITE, MessageQueue, TopicConfig
from sandbox import asking
from sandbox.rocketmq import RocketMq
from sandbox.waiting import wait_for
from tests.real import java_client
from tests.real.java_client import JavaClient
from tests.real.spark.source import ResetOffset, Source, bodies, delete, ends_at, send

# --- the contents of rows


def test_a_bounded_read_gives_every_message_once(
    source: Source, client: blocking.Client, topic: str
) -> None:
    for number, queue in enumerate(client.find_route(topic).writable):
        send(client, queue, *(b"%d-%d" % (number, each) for each in range(100)))
    ends_at(client, topic, 400)
    assert bodies(source.rows(topics=topic)) == sorted(
        b"%d-%d" % (number, each) for number in range(4) for each in range(100)
    )


def test_a_row_holds_what_the_broker_stores(
    source: Source, client: blocking.Client, java: JavaClient, queue: MessageQueue
) -> None:
    """Messages with unusual letters, a compressed body, an empty body, or only a body."""
    texts = {"größe": "δ = 1 \U0001f680"}
    full = Message(queue.topic, b"\x00\xff", tags="bezahlt-ß", keys=("a", "b"), properties=texts)
    client.send([full], To(queue))
    large = b"abcd" * 5000
    java.send(queue, java_client.message(large), codec="ZSTD")
    address = client.find_route(queue.topic).find_broker(queue.broker)
    assert address is not None
    bare = SendBatch("g", queue, batch_body.encode([(0, b"", b""), (0, b"x", b"")]), "", 7)
    client.engine.run(flows.ask(str(address.master), bare, 5))
    ends_at(client, queue.topic, 4)
    stored = [
        message
        for batch in client.read("readers", [Position(queue, 0, 4)])
        for message in batch.to_messages()
    ]
    rows = source.rows(topics=queue.topic, includeProperties="true")
    assert [
        {
            **row.asDict(),
            "body": bytes(row.body),
            "born_timestamp": round(row.born_timestamp.timestamp() * 1000),
            "store_timestamp": round(row.store_timestamp.timestamp() * 1000),
        }
        for row in rows
    ] == [
        {
            "topic": queue.topic,
            "broker_name": queue.broker,
            "queue_id": queue.id,
            "queue_offset": offset,
            "msg_id": message.msg_id,
            "keys": " ".join(message.keys) or None,
            "tags": message.tags,
            "body": message.body,
            "properties": dict(message.properties),
            "born_timestamp": message.born_timestamp_ms,
            "store_timestamp": message.store_timestamp_ms,
            "reconsume_times": 0,
        }
        for offset, message in enumerate(stored)
    ]
    assert [bytes(row.body) for row in rows] == [b"\x00\xff", large, b"", b"x"]
    assert (rows[0].tags, rows[0].keys) == ("bezahlt-ß", "a b")
    assert rows[0].properties["größe"] == texts["größe"]
    assert (rows[2].tags, rows[2].keys, rows[2].properties.get("UNIQ_KEY")) == (None, None, None)
    assert rows[2].msg_id == stored[2].offset_msg_id


# --- starts and ends


def test_a_bounded_read_starts_and_ends_where_it_is_told(
    source: Source, client: blocking.Client, queue: MessageQueue, group: str
) -> None:
    stored: list[int] = []
    while len(set(stored)) < 4:
        send(client, queue, b"%03d" % len(stored))
        place = Position(queue, len(stored), stop=len(stored) + 1)
        (batch,) = client.read("readers", [place])
        stored.append(batch.to_messages()[0].store_timestamp_ms)
    total = len(stored)
    ends_at(client, queue.topic, total)
    second, last = stored.index(sorted(set(stored))[1]), stored[-1]
    client.commit(group, {queue: 2})

    def offsets(number: int) -> str:
        return f'{{"{queue.topic}": {{"{queue.broker}": {{"{queue.id}": {number}}}}}}}'

    def read(**options: str) -> list[int]:
        return [int(body) for body in bodies(source.rows(topics=queue.topic, **options))]

    numbers = list(range(total))
    assert read(startFrom="earliest", endAt="latest") == numbers
    assert read(startFrom="latest") == []
    assert read(group=group) == numbers[2:]
    assert read(group=group, startFrom="earliest") == numbers
    assert read(startTimestamp=str(stored[second])) == numbers[second:]
    assert read(endTimestamp=str(stored[second])) == numbers[:second]
    assert read(endTimestamp=str(last + 3_600_000)) == numbers
    assert read(startTimestamp=str(last + 3_600_000)) == []
    assert read(startFrom=offsets(1), endAt=offsets(3)) == [1, 2]
    assert read(startFrom=offsets(-2), endAt=offsets(-1)) == numbers
    assert read(startFrom=offsets(-1)) == []
    with pytest.raises(Exception, match=f"endAt: .* ends at {total}, before {total + 1}"):
        read(endAt=offsets(total + 1))
    with pytest.raises(Exception, match="which cannot be read"):
        read(startFrom='{"other": {"broker-a": {"0": 1}}}')


def test_a_filter_by_tags_or_by_sql_lets_through_what_it_says(
    source: Source, client: blocking.Client, queue: MessageQueue
) -> None:
    for number, tag in enumerate(["paid", "BB", "Aa", "refunded"]):
        facts = {"amount": str(number)}
        client.send([Message(queue.topic, tag.encode(), tag, properties=facts)], To(queue))
    ends_at(client, queue.topic, 4)
    assert bodies(source.rows(topics=queue.topic, tags="paid || Aa")) == [b"Aa", b"paid"]
    assert bodies(source.rows(topics=queue.topic, sqlFilter="amount > 2")) == [b"refunded"]
    with pytest.raises(Exception, match="check the filter"):
        source.rows(topics=queue.topic, sqlFilter="amount >")


def test_an_unknown_topic_is_an_error_that_names_it(source: Source) -> None:
    with pytest.raises(Exception, match=r"(?s)nowhere.*create the topic, or check its name"):
        source.rows(topics="nowhere")
    with pytest.raises(Exception, match=r"(?s)nowhere.*create the topic, or check its name"):
        source.run(topics="nowhere")


# --- batches of a stream


def test_available_now_reads_what_was_there_in_batches_of_the_size_asked_for(
    source: Source, client: blocking.Client, topic: str
) -> None:
    """An empty queue does not delay a busy one [rocketmq-externals#148]."""
    busy, slow, *_ = client.find_route(topic).writable
    send(client, busy, *(b"busy %d" % number for number in range(9)))
    send(client, slow, b"slow 0", b"slow 1")
    ends_at(client, topic, 11)

    def send_more(number: int) -> None:
        if number == 0:
            send(client, busy, b"late")

    batches = source.run(send_more, topics=topic, startFrom="earliest", maxMessagesPerBatch="4")
    assert max(batches.sizes) <= 4
    assert {row.queue_id for row in batches.rows[0]} == {busy.id, slow.id}
    assert batches.bodies == sorted(
        [*(b"busy %d" % number for number in range(9)), b"slow 0", b"slow 1"]
    )


def test_a_limit_in_bytes_cuts_a_stream_into_batches(
    source: Source, client: blocking.Client, queue: MessageQueue
) -> None:
    send(client, queue, *(bytes([number]) * 1000 for number in range(10)))
    ends_at(client, queue.topic, 10)
    batches = source.run(topics=queue.topic, startFrom="earliest", maxBytesPerBatch="5000")
    assert batches.sizes == [4, 4, 2]
    assert batches.bodies == [bytes([number]) * 1000 for number in range(10)]


def test_a_restart_goes_on_where_the_checkpoint_is_whatever_start_from_says(
    source: Source, client: blocking.Client, queue: MessageQueue
) -> None:
    """
    No message comes twice.

    In other connectors, messages come twice because a restart begins anew [seatunnel#9940], or
    because an offset is too low by one [rocketmq-externals#168, #876].
    """
    given = {"topics": queue.topic, "startFrom": "earliest"}
    send(client, queue, b"0", b"1")
    ends_at(client, queue.topic, 2)
    assert source.run(**given).bodies == [b"0", b"1"]
    assert source.run(**given).bodies == []
    send(client, queue, b"2", b"3")
    ends_at(client, queue.topic, 4)
    assert source.run(**given).bodies == [b"2", b"3"]


def test_a_stream_that_starts_at_the_latest_reads_what_comes_after(
    source: Source, client: blocking.Client, queue: MessageQueue
) -> None:
    send(client, queue, b"old")
    ends_at(client, queue.topic, 1)
    assert source.run(topics=queue.topic).bodies == []
    send(client, queue, b"new")
    ends_at(client, queue.topic, 2)
    assert source.run(topics=queue.topic).bodies == [b"new"]


def test_the_groups_offset_is_that_of_the_next_message(
    source: Source, client: blocking.Client, queue: MessageQueue, group: str
) -> None:
    """
    The offset is not that of the last message [rocketmq-externals#901, seatunnel#6665].

    It advances [seatunnel#7225]. The user chooses the group, whose lag is visible
    [rocketmq-externals#94].
    """
    send(client, queue, b"0", b"1", b"2", b"3", b"4")
    ends_at(client, queue.topic, 5)
    given = {"topics": queue.topic, "group": group, "maxMessagesPerBatch": "2"}
    seen: list[int | None] = []
    batches = source.run(lambda _: seen.append(client.find_committed(group, queue)), **given)
    assert batches.sizes == [2, 2, 1]
    # Offsets are committed when the next batch begins; the first commit is the first batch's start.
    assert seen == [0, 2, 4]
    send(client, queue, b"5")
    ends_at(client, queue.topic, 6)
    assert source.run(**given).bodies == [b"5"]
    assert client.find_committed(group, queue) == 5
    rest = source.rows(topics=queue.topic, group=group)
    assert bodies(rest) == [b"5"]


def test_a_batch_that_is_run_again_is_the_same_under_its_old_filter(
    source: Source, client: blocking.Client, queue: MessageQueue
) -> None:
    for tag in ("old", "new"):
        send(client, queue, b"1 " + tag.encode(), tags=tag)
    ends_at(client, queue.topic, 2)

    def fail(number: int) -> None:
        raise RuntimeError("the sink is full")

    given = {"topics": queue.topic, "startFrom": "earliest"}
    with pytest.raises(Exception, match="the sink is full"):
        source.run(fail, tags="old", **given)
    for tag in ("old", "new"):
        send(client, queue, b"2 " + tag.encode(), tags=tag)
    ends_at(client, queue.topic, 4)
    batches = source.run(tags="new", **given)
    assert [bodies(batch) for batch in batches.rows] == [[b"1 old"], [b"2 new"]]


# --- topics that change


def test_queues_and_topics_that_appear_are_read_from_their_beginning(
    source: Source, client: blocking.Client, rocketmq: RocketMq, topic: str
) -> None:
    given = {"topicPattern": f"{topic}.*"}
    assert source.run(**given).bodies == []
    rocketmq.create_topics({topic: 4, f"{topic}-too": 1})
    queues = [
        *client.find_route(topic, max_age=0).writable,
        *client.find_route(f"{topic}-too").writable,
    ]
    assert len(queues) == 10
    for number, queue in enumerate(queues):
        send(client, queue, b"%d" % number)
    ends_at(client, topic, 8)
    ends_at(client, f"{topic}-too", 2)
    expected = sorted(b"%d" % number for number in range(10))
    assert source.run(**given).bodies == expected
    assert source.run(**given).bodies == []


def test_queues_that_vanish_are_an_error_or_passed_over_as_asked(
    source: Source, client: blocking.Client, rocketmq: RocketMq, topic: str
) -> None:
    """A queue that was read to its end, here the empty one of broker-b, may vanish in any case."""
    given = {"topics": topic, "startFrom": "earliest"}
    assert source.run(**given).bodies == []
    send(client, MessageQueue(topic, "broker-a", 1), b"lost")
    ends_at(client, topic, 1)
    rocketmq.create_topics({topic: 1})
    send(client, MessageQueue(topic, "broker-a", 0), b"0")
    wait_for(
        lambda: client.find_max_offset(MessageQueue(topic, "broker-a", 0)), lambda end: end == 1
    )
    wait_for(lambda: client.find_route(topic, max_age=0).readable, lambda queues: len(queues) == 2)
    with pytest.raises(Exception, match="are lost") as raised:
        source.run(**given)
    told = str(raised.value)
    assert f"{topic}@broker-a 1: the topic no longer has this queue, which was read up to 0" in told
    assert f"{topic}@broker-b 1" not in told
    assert source.run(failOnDataLoss="false", **given).bodies == [b"0"]


def test_a_topic_that_was_deleted_or_made_anew_is_an_error_or_passed_over_as_asked(
    source: Source, client: blocking.Client, rocketmq: RocketMq, unique_name: str
) -> None:
    rocketmq.create_topics({unique_name: 1}, brokers=["broker-a"])
    queue = MessageQueue(unique_name, "broker-a", 0)
    given = {"topicPattern": unique_name, "startFrom": "earliest"}
    send(client, queue, b"0", b"1", b"2")
    ends_at(client, unique_name, 3)
    assert source.run(**given).bodies == [b"0", b"1", b"2"]
    delete(rocketmq, unique_name)
    with pytest.raises(
        Exception, match="the topic no longer has this queue, which was read up to 3"
    ):
        source.run(**given)
    rocketmq.create_topics({unique_name: 1}, brokers=["broker-a"])
    send(client, queue, b"a")
    ends_at(client, unique_name, 1)
    with pytest.raises(Exception, match="it ends at 1, but was read up to 3"):
        source.run(**given)
    assert source.run(failOnDataLoss="false", **given).bodies == []
    send(client, queue, b"b")
    ends_at(client, unique_name, 2)
    assert source.run(**given).bodies == [b"b"]


def test_a_topic_that_is_taken_out_waits_and_goes_on_where_it_was_when_it_is_back(
    source: Source, client: blocking.Client, rocketmq: RocketMq, topic: str, group: str
) -> None:
    """Meanwhile the stream neither reads nor commits the topic, so another consumer can do so."""
    other = f"{topic}-other"
    rocketmq.create_topics({other: 1}, brokers=["broker-a"])
    out, stays = MessageQueue(topic, "broker-a", 0), MessageQueue(other, "broker-a", 0)
    both = {"topics": f"{topic},{other}", "startFrom": "earliest", "group": group}
    send(client, out, b"out 0")
    send(client, stays, b"stays 0")
    ends_at(client, topic, 1)
    ends_at(client, other, 1)
    assert source.run(**both).bodies == [b"out 0", b"stays 0"]
    client.commit(group, {out: 0})
    send(client, out, b"out 1", b"out 2")
    send(client, stays, b"stays 1")
    ends_at(client, topic, 3)
    ends_at(client, other, 2)
    assert source.run(**both | {"topics": other}).bodies == [b"stays 1"]
    send(client, stays, b"stays 2")
    ends_at(client, other, 3)
    assert source.run(**both | {"topics": other}).bodies == [b"stays 2"]
    assert (client.find_committed(group, out), client.find_committed(group, stays)) == (0, 2)
    client.commit(group, {out: 2})
    assert source.run(**both).bodies == [b"out 2"]


def test_a_pattern_that_matches_nothing_at_first_reads_its_first_topic_from_the_beginning(
    source: Source, client: blocking.Client, rocketmq: RocketMq, unique_name: str
) -> None:
    given = {"topicPattern": f"{unique_name}.*"}
    assert source.run(**given).bodies == []
    rocketmq.create_topics({f"{unique_name}-first": 1}, brokers=["broker-a"])
    send(client, MessageQueue(f"{unique_name}-first", "broker-a", 0), b"0", b"1")
    ends_at(client, f"{unique_name}-first", 2)
    assert source.run(**given).bodies == [b"0", b"1"]


def test_a_topic_that_may_not_be_read_now_holds_nothing_up_and_loses_nothing(
    source: Source, client: blocking.Client, rocketmq: RocketMq, topic: str
) -> None:
    """The topic's perm has lost READ, but the messages are kept."""
    other = f"{topic}-other"
    rocketmq.create_topics({other: 1}, brokers=["broker-a"])
    barred, free = MessageQueue(topic, "broker-a", 0), MessageQueue(other, "broker-a", 0)
    given = {"topics": f"{topic},{other}", "startFrom": "earliest"}
    assert source.run(**given).bodies == []
    send(client, barred, b"barred")
    send(client, free, b"free")
    ends_at(client, topic, 1)
    ends_at(client, other, 1)
    client.put_topics([TopicConfig(topic, 2, 2, perm=WRITE)])
    wait_for(lambda: client.find_route(topic, max_age=0).readable, lambda queues: not queues)
    assert source.run(**given).bodies == [b"free"]
    with pytest.raises(Exception, match=f"{barred} may not be read now: .* lost READ"):
        source.rows(topics=topic)
    client.put_topics([TopicConfig(topic, 2, 2)])
    wait_for(lambda: client.find_route(topic, max_age=0).readable, lambda queues: len(queues) == 4)
    assert source.run(**given).bodies == [b"barred"]


def test_offsets_that_are_reset_at_the_broker_move_no_stream(
    source: Source, client: blocking.Client, rocketmq: RocketMq, queue: MessageQueue, group: str
) -> None:
    """The checkpoint decides; the broker reports a reset in the answer to the next pull."""
    given = {"topics": queue.topic, "group": group, "startFrom": "earliest"}
    send(client, queue, b"0", b"1")
    ends_at(client, queue.topic, 2)
    assert source.run(**given).bodies == [b"0", b"1"]
    send(client, queue, b"2", b"3", b"4")
    ends_at(client, queue.topic, 5)
    reset = ResetOffset(queue.topic, group, queue.id, 4)
    asking.ask(rocketmq.brokers[queue.broker].address, reset)
    assert client.find_committed(group, queue) == 4
    assert source.run(**given).bodies == [b"2", b"3", b"4"]
