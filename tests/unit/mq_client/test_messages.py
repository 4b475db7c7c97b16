import struct
from collections.abc import Callable
from typing import Any

import pytest

from mq_client import batch_body, compression, decoding, errors, messages, wire
from mq_client.compression import Codec
from mq_client.messages import Message, StoredMessage
from tests import stored


def only(data: bytes) -> StoredMessage:
    (message,) = decoding.decode(data, "broker-a")
    return message


def bodies(data: bytes) -> list[bytes]:
    return [message.body for message in decoding.decode(data, "broker-a")]


def test_every_field_of_a_stored_message_is_read() -> None:
    message = only(
        stored.message(
            b"hello",
            topic="orders",
            texts={"TAGS": "paid", "KEYS": "o-1 o-2"},
            queue_id=3,
            offset=7,
            place=0x1000,
            flag=-5,
            sys_flag=2,
            born_ms=1,
            stored_ms=2,
            reconsume_times=4,
            prepared_offset=9,
        )
    )
    assert message == StoredMessage(
        topic="orders",
        broker="broker-a",
        queue_id=3,
        queue_offset=7,
        body=b"hello",
        properties={"TAGS": "paid", "KEYS": "o-1 o-2"},
        flag=-5,
        sys_flag=2,
        born_timestamp_ms=1,
        born_address=stored.IPV4_HOST,
        store_timestamp_ms=2,
        store_address=stored.IPV4_HOST,
        reconsume_times=4,
        prepared_transaction_offset=9,
        commit_log_offset=0x1000,
    )
    assert message.tags == "paid"
    assert message.keys == ("o-1", "o-2")


def test_a_message_without_tags_and_keys_has_none() -> None:
    message = only(stored.message())
    assert message.tags is None
    assert message.keys == ()


def test_a_message_id_is_the_producers_own() -> None:
    message = only(stored.message(texts={"UNIQ_KEY": "7F00"}, place=0x1000))
    assert message.msg_id == "7F00"
    assert message.offset_msg_id == "0A0000070000A1120000000000001000"


def test_without_one_it_is_the_place_on_the_broker() -> None:
    message = only(stored.message(store_host=stored.IPV6_HOST, place=-1))
    assert message.msg_id == "FE80000000000000000000000000002A0000A112FFFFFFFFFFFFFFFF"


@pytest.mark.parametrize(
    ("born", "store", "shown"),
    [
        (stored.IPV4_HOST, stored.IPV4_HOST, ("10.0.0.7:41234", "10.0.0.7:41234")),
        (stored.IPV6_HOST, stored.IPV4_HOST, ("[fe80::2a]:41234", "10.0.0.7:41234")),
        (stored.IPV4_HOST, stored.IPV6_HOST, ("10.0.0.7:41234", "[fe80::2a]:41234")),
        (stored.IPV6_HOST, stored.IPV6_HOST, ("[fe80::2a]:41234", "[fe80::2a]:41234")),
    ],
    ids=["both IPv4", "born on IPv6", "stored on IPv6", "both IPv6"],
)
def test_hosts_may_be_ipv6(born: bytes, store: bytes, shown: tuple[str, str]) -> None:
    message = only(stored.message(b"body", born_host=born, store_host=store, stored_ms=77))
    assert (message.born_host, message.store_host) == shown
    assert (message.body, message.store_timestamp_ms) == (b"body", 77)


def test_a_topic_of_version_2_may_be_longer_than_a_byte_can_tell() -> None:
    assert only(stored.message(topic="t" * 300, version=2)).topic == "t" * 300


def test_a_topic_that_is_no_utf_8_is_read_with_replacement_characters() -> None:
    assert only(stored.message(topic=b"or\xffders")).topic == "or\ufffdders"


def test_blanks_are_passed_over() -> None:
    data = stored.blank() + stored.message(b"one") + stored.blank(200) + stored.message(b"two")
    assert bodies(data) == [b"one", b"two"]


def test_what_stands_behind_the_properties_is_passed_over() -> None:
    assert bodies(stored.message(b"one", behind=b"later fields") + stored.message(b"two")) == [
        b"one",
        b"two",
    ]


def test_no_bytes_are_no_messages() -> None:
    assert bodies(b"") == []


def test_bytes_may_come_as_a_view() -> None:
    data = bytearray(stored.message(b"one"))
    assert [message.body for message in decoding.decode(memoryview(data), "b")] == [b"one"]
    assert [message.body for message in decoding.decode(data, "b")] == [b"one"]


def test_the_messages_before_a_broken_one_are_read() -> None:
    found = decoding.decode(stored.message(b"one") + stored.message(crc=1, offset=8), "broker-a")
    assert next(found).body == b"one"
    with pytest.raises(errors.CorruptMessageError):
        next(found)


@pytest.mark.parametrize(("data", "complaint"), stored.BROKEN.values(), ids=stored.BROKEN)
def test_bytes_that_are_no_message_are_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(errors.ProtocolError, match=complaint) as caught:
        bodies(data)
    assert type(caught.value) is errors.ProtocolError


def test_a_wrong_checksum_is_refused_and_the_message_is_named() -> None:
    with pytest.raises(errors.CorruptMessageError, match="the checksum of its body is") as caught:
        bodies(stored.message(b"hello", topic="orders", queue_id=3, offset=7, crc=1))
    error = caught.value
    assert (error.topic, error.queue_id, error.offset) == ("orders", 3, 7)


def test_a_wrong_checksum_is_read_if_nobody_checks() -> None:
    data = stored.message(b"hello", crc=1)
    assert [message.body for message in decoding.decode(data, "b", check_crc=False)] == [b"hello"]


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
def test_a_compressed_body_is_expanded(codec: Codec) -> None:
    message = only(stored.compressed(b"again " * 999, codec))
    assert message.body == b"again " * 999
    assert compression.find_codec(message.sys_flag) is codec


def test_a_body_that_does_not_expand_is_refused_and_named() -> None:
    data = stored.message(b"no zlib", sys_flag=stored.flag_of(Codec.ZLIB), offset=7)
    with pytest.raises(errors.CorruptMessageError, match="the ZLIB body does not expand") as caught:
        bodies(data)
    assert caught.value.offset == 7


def test_the_bodies_of_one_answer_expand_to_a_limit_in_all() -> None:
    data = stored.compressed(bytes(600), Codec.ZLIB) + stored.compressed(bytes(401), Codec.ZSTD)
    found = decoding.decode(data, "b", expanded_max=1000)
    assert len(next(found).body) == 600
    with pytest.raises(errors.CorruptMessageError, match="larger than 400 bytes"):
        next(found)
    assert len(list(decoding.decode(data, "b", expanded_max=1001))) == 2


@pytest.mark.parametrize("codec", [None, Codec.LZ4], ids=["plain", "compressed"])
def test_an_inner_batch_is_taken_apart(codec: Codec | None) -> None:
    data = stored.inner_batch(b"one", b"", b"three", texts=b"a\x01b\x02", codec=codec, offset=40)
    found = list(decoding.decode(data, "broker-a"))
    assert [(one.queue_offset, one.flag, one.body) for one in found] == [
        (40, 0, b"one"),
        (41, 1, b""),
        (42, 2, b"three"),
    ]
    assert {(one.topic, one.queue_id, one.broker) for one in found} == {("orders", 3, "broker-a")}
    assert [one.properties for one in found] == [{"a": "b"}] * 3


@pytest.mark.parametrize("sys_flag", [wire.INNER_BATCH, wire.NEED_UNWRAP])
def test_only_both_flags_together_make_a_batch(sys_flag: int) -> None:
    assert bodies(stored.message(b"no batch", sys_flag=sys_flag)) == [b"no batch"]


def test_an_empty_inner_batch_holds_no_messages() -> None:
    assert bodies(stored.inner_batch() + stored.message(b"next")) == [b"next"]


PART = batch_body.encode([(0, b"one", b"a\x01b\x02")])


@pytest.mark.parametrize(
    "body",
    [
        PART[:-1],
        PART + b"\x00",
        stored.with_int(PART, 0, 0),
        stored.with_int(PART, 0, -len(PART)),
        stored.with_int(PART, 0, len(PART) - 1),
        stored.with_int(PART, 16, -6),
        stored.with_int(PART, 16, 8),
        PART[:-6] + b"\xff\xff" + PART[-4:],
        PART[:-6] + b"\x00\x05" + PART[-4:],
    ],
    ids=[
        "cut", "too long", "no size", "negative size", "small size", "negative body",
        "endless body", "negative properties", "endless properties",
    ],
)  # fmt: skip
def test_a_broken_inner_batch_is_refused_and_named(body: bytes) -> None:
    data = stored.message(body, sys_flag=wire.WRAPPED, offset=7)
    with pytest.raises(errors.CorruptMessageError, match="offset 7: the body is not a batch"):
        bodies(data)


def test_an_inner_batch_holds_as_many_messages_as_a_broker_can_count() -> None:
    body = batch_body.encode([(0, b"", b"")]) * batch_body.MOST_MESSAGES
    assert len(bodies(stored.message(body, sys_flag=wire.WRAPPED))) == 32_767
    with pytest.raises(errors.CorruptMessageError, match="more than 32,767 messages"):
        bodies(stored.message(body + PART, sys_flag=wire.WRAPPED))


def test_what_inner_messages_take_over_from_the_outer_one_is_limited() -> None:
    data = stored.inner_batch(*[b""] * 100, topic="t" * 1000, version=2)
    overhead = len(data) - 100 * 22
    assert len(list(decoding.decode(data, "b", expanded_max=100 * overhead))) == 100
    with pytest.raises(errors.CorruptMessageError, match="more than 99 messages in one body"):
        list(decoding.decode(data * 2, "b", expanded_max=200 * overhead - 1))


def test_offsets_of_an_inner_batch_do_not_run_over() -> None:
    last = stored.inner_batch(b"one", b"two", offset=decoding.OFFSET_MAX - 1)
    assert [one.queue_offset for one in decoding.decode(last, "b")][-1] == decoding.OFFSET_MAX
    with pytest.raises(errors.CorruptMessageError, match="more than there are offsets left"):
        bodies(stored.inner_batch(b"one", b"two", offset=decoding.OFFSET_MAX))


def test_the_fields_of_a_message_become_properties() -> None:
    message = Message(
        "orders", b"", tags="paid", keys=("o-1", "o-2"), properties={"region": "eu"}, delay_level=3
    )
    assert message.make_wire_properties("7F00") == {
        "UNIQ_KEY": "7F00",
        "TAGS": "paid",
        "KEYS": "o-1 o-2",
        "DELAY": "3",
        "region": "eu",
    }
    later = Message("orders", b"", deliver_at_ms=1_763_700_000_000)
    assert later.make_wire_properties("7F00")["TIMER_DELIVER_MS"] == "1763700000000"
    assert Message("orders", b"").make_wire_properties("7F00") == {"UNIQ_KEY": "7F00"}


def test_a_message_keeps_the_id_that_it_has() -> None:
    assert Message("orders", b"").unique_key is None
    message = Message("orders", b"", properties={"UNIQ_KEY": "8000"})
    assert message.unique_key == "8000"
    assert message.make_wire_properties("7F00") == {"UNIQ_KEY": "8000"}


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Message("", b""), "the topic is empty"),
        (lambda: Message("t" * 128, b""), "name has 128 characters, more than 127"),
        (lambda: Message("t", b"", keys=("a b",)), "contain a space"),
        (lambda: Message("t", b"", keys=("",)), "no key may be empty"),
        (lambda: Message("t", b"", delay_level=1, deliver_at_ms=1), "both delay_level and"),
        (lambda: Message("t", b"", properties={"TAGS": "a"}), "TAGS: use the fields of Message"),
    ],
    ids=["no topic", "long topic", "two keys in one", "empty key", "two delays", "tags twice"],
)
def test_a_message_that_cannot_be_is_refused_at_once(
    make: Callable[[], Message], complaint: str
) -> None:
    with pytest.raises(errors.UsageError, match=complaint):
        make()


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"topic": 5}, "the topic is not a string"),
        ({"body": "text"}, "its body is not bytes but str"),
        ({"body": None}, "its body is not bytes but NoneType"),
        ({"tags": 5}, "tags 5 is not a string"),
        ({"keys": "order-17"}, "keys 'order-17' is not a tuple of strings"),
        ({"keys": (17,)}, "is not a tuple of strings"),
        ({"properties": {"amount": 12}}, "is not a mapping of strings"),
        ({"properties": {12: "amount"}}, "is not a mapping of strings"),
        ({"properties": ["amount"]}, "is not a mapping of strings"),
        ({"flag": 1 << 31}, "not a signed 32-bit number"),
        ({"flag": True}, "not a signed 32-bit number"),
        ({"delay_level": 0}, "delay_level 0 is not a whole number from 1"),
        ({"delay_level": "soon"}, "delay_level 'soon'"),
        ({"deliver_at_ms": -5}, "deliver_at_ms -5 is not a time"),
        ({"deliver_at_ms": 1.5}, "deliver_at_ms 1.5 is not a time"),
    ],
    ids=str,
)
def test_a_message_of_wrong_types_is_refused_at_once(wrong: Any, complaint: str) -> None:
    with pytest.raises(errors.UsageError, match=complaint):
        Message(**{"topic": "t", "body": b"x", **wrong})


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_a_body_that_its_owner_may_change_is_copied(kind: Callable[[Any], Any]) -> None:
    owned = bytearray(b"one")
    message = Message("t", kind(owned))
    owned[:] = b"two"
    assert message.body == b"one"


def test_the_longest_topic_is_taken() -> None:
    assert Message("t" * 127, b"").topic == "t" * 127


def test_a_batch_is_written_as_rocketmq_reads_it() -> None:
    batch = [Message("t", b"one", tags="a", flag=9), Message("t", b"")]
    data = messages.encode_batch(batch, ["7", "8"])
    assert data == (
        struct.pack(">iiiii", 22 + 3 + 18, 0, 0, 9, 3)
        + b"one\x00\x12UNIQ_KEY\x017\x02TAGS\x01a\x02"
        + struct.pack(">iiiii", 22 + 11, 0, 0, 0, 0)
        + b"\x00\x0bUNIQ_KEY\x018\x02"
    )


@pytest.mark.parametrize(
    ("batch", "complaint"),
    [
        ([], r"exactly one topic, but the topics are \[\]"),
        ([Message("a", b""), Message("b", b"")], r"topics are \['a', 'b'\]"),
        ([Message("a", b"", delay_level=1)], "cannot delay a batch"),
        ([Message("a", b"", deliver_at_ms=1)], "cannot delay a batch"),
    ],
    ids=["empty", "two topics", "delay level", "delivery time"],
)
def test_a_batch_that_no_broker_takes_is_refused(batch: list[Message], complaint: str) -> None:
    with pytest.raises(errors.UsageError, match=complaint):
        messages.encode_batch(batch, ["7"] * len(batch))


def test_a_batch_of_more_messages_than_a_broker_can_count_is_refused() -> None:
    """A broker would store the batch, and corrupt the offsets of a queue that stores batches."""
    most = batch_body.MOST_MESSAGES
    batch = [Message("t", b"x")] * most
    assert messages.encode_batch(batch, ["7"] * most)
    with pytest.raises(errors.UsageError, match="a batch of 32,768 messages: split it"):
        messages.encode_batch([*batch, batch[0]], ["7"] * (most + 1))


def test_the_properties_of_a_batch_are_checked() -> None:
    with pytest.raises(errors.UsageError, match="none may contain"):
        messages.encode_batch([Message("t", b"", properties={"a": "\x02"})], ["7"])
