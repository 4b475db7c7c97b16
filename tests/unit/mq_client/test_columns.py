import gc
import mmap
import re
import tracemalloc
import weakref
from pathlib import Path

import pyarrow as pa
import pytest

from mq_client import batch_body, columns, decoding, errors, filters, messages, wire
from mq_client.compression import Codec
from mq_client.property_columns import Properties
from mq_client.pulling import Batch
from mq_client.values import MessageQueue
from spark_jobs import schema
from tests import stored

GUIDE = Path(__file__).parents[3] / "docs" / "rocketmq-client.md"
LONG = b"a body that is too long for a view to hold"


def read(data: bytes) -> pa.RecordBatch:
    batch = columns.read(data, broker="broker-a")
    batch.validate(full=True)
    assert batch.schema == columns.SCHEMA
    return batch


def offsets(batch: pa.RecordBatch) -> list[int]:
    return list(batch["queue_offset"].to_pylist())


def test_every_field_becomes_a_column() -> None:
    batch = read(
        stored.message(
            LONG,
            topic="orders",
            texts=b"TAGS\x01paid\x02",
            queue_id=3,
            offset=7,
            place=99,
            flag=-5,
            sys_flag=2,
            born_ms=1000,
            stored_ms=2000,
            reconsume_times=4,
        )
    )
    (row,) = batch.to_pylist()
    assert row.pop("born_timestamp").timestamp() == 1
    assert row.pop("store_timestamp").timestamp() == 2
    assert row == {
        "topic": "orders",
        "broker_name": "broker-a",
        "queue_id": 3,
        "queue_offset": 7,
        "flag": -5,
        "sys_flag": 2,
        "reconsume_times": 4,
        "commit_log_offset": 99,
        "store_host": stored.IPV4_HOST,
        "body": LONG,
        "properties": b"TAGS\x01paid\x02",
    }


def test_decoded_messages_become_the_same_columns() -> None:
    data = (
        stored.message(LONG, texts=b"TAGS\x01paid\x02KEYS\x01a b\x02", flag=-5, place=99)
        + stored.compressed(LONG * 9, Codec.ZSTD, offset=1, texts=b"name\x01a\x01b\x02")
        + stored.inner_batch(b"first", LONG, codec=Codec.LZ4, offset=2)
        + stored.message(b"ipv6", store_host=stored.IPV6_HOST, offset=4, reconsume_times=3)
        + stored.message(born_ms=1 << 62, stored_ms=2000, offset=5)
    )
    made = columns.convert(list(decoding.decode(data, "broker-a")))
    made.validate(full=True)
    assert made.equals(read(data))
    assert columns.convert([]).equals(read(b""))


@pytest.mark.parametrize("data", [b"", stored.blank(20)], ids=["no bytes", "a blank"])
def test_no_messages_are_columns_without_rows(data: bytes) -> None:
    assert read(data).num_rows == 0


def test_bodies_of_any_length_are_read() -> None:
    bodies = [bytes(range(length)) for length in (0, 1, 4, 11, 12, 13, 14, 200)]
    assert read(b"".join(map(stored.message, bodies)))["body"].to_pylist() == bodies
    for body in bodies:  # each message also as the last one of an answer
        assert read(stored.message(body, texts=body[:11]))["body"].to_pylist() == [body]


def test_bodies_and_properties_are_views_into_the_received_bytes() -> None:
    data = stored.message(LONG, texts=b"name\x01a long value\x02") * 3
    received = pa.py_buffer(data)
    for name in ("body", "properties"):
        buffer = columns.read(data, broker="b")[name].buffers()[2]
        assert (buffer.address, buffer.size) == (received.address, received.size)


class Received(bytearray):
    """Bytes whose end can be observed."""


def test_columns_keep_the_received_bytes_alive() -> None:
    data = Received(stored.message(LONG))
    gone = weakref.ref(data)
    body = columns.read(data, broker="b")["body"]
    del data
    gc.collect()
    assert gone() is not None
    assert body.to_pylist() == [LONG]
    del body
    gc.collect()
    assert gone() is None


def test_messages_of_all_kinds_keep_their_order() -> None:
    data = (
        stored.message(b"plain", offset=0)
        + stored.compressed(LONG * 9, Codec.ZSTD, offset=1)
        + stored.blank(30)
        + stored.inner_batch(b"first", LONG, codec=Codec.LZ4, offset=2)
        + stored.message(b"v2", version=2, topic="o" * 200, offset=4)
        + stored.inner_batch(offset=5)
        + stored.message(b"ipv6", store_host=stored.IPV6_HOST, offset=5)
        + stored.compressed(LONG, Codec.ZLIB, offset=6)
        + stored.inner_batch(b"last", offset=7)
    )
    batch = read(data)
    assert offsets(batch) == list(range(8))
    assert batch["body"].to_pylist() == [
        b"plain", LONG * 9, b"first", LONG, b"v2", b"ipv6", LONG, b"last",
    ]  # fmt: skip
    assert batch["flag"].to_pylist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert batch["topic"][4].as_py() == "o" * 200
    assert batch["store_host"][5].as_py() == stored.IPV6_HOST


@pytest.mark.parametrize("sys_flag", [wire.INNER_BATCH, wire.NEED_UNWRAP])
def test_only_both_flags_together_make_a_batch(sys_flag: int) -> None:
    assert read(stored.message(LONG, sys_flag=sys_flag))["body"].to_pylist() == [LONG]


def test_an_empty_body_stays_empty_whatever_its_flags_say() -> None:
    assert read(stored.message(b"", sys_flag=0x701))["body"].to_pylist() == [b""]


@pytest.mark.parametrize("count", [1, 2])
def test_a_topic_may_be_empty(count: int) -> None:
    assert read(stored.message(topic="") * count)["topic"].to_pylist() == [""] * count


def test_inner_messages_have_their_own_properties() -> None:
    data = stored.message(texts=b"a\x01b\x02") + stored.inner_batch(
        b"one", b"two", texts=b"name\x01a long value\x02"
    )
    assert [dict(row) for row in Properties(read(data)["properties"]).to_maps().to_pylist()] == [
        {"a": "b"},
        {"name": "a long value"},
        {"name": "a long value"},
    ]


def test_a_topic_that_is_no_utf_8_is_read_with_replacement_characters() -> None:
    data = stored.message(topic="orders") + stored.message(topic=b"or\xffders")
    assert read(data)["topic"].to_pylist() == ["orders", "or\ufffdders"]


def test_only_the_offsets_that_were_asked_for_are_given() -> None:
    data = stored.inner_batch(b"0", b"1", b"2", b"3") + stored.message(b"4", offset=4)
    assert offsets(columns.read(data, broker="b", first=2)) == [2, 3, 4]
    assert offsets(columns.read(data, broker="b", stop=4)) == [0, 1, 2, 3]
    assert offsets(columns.read(data, broker="b", first=2, stop=3)) == [2]
    assert offsets(columns.read(data, broker="b", first=9)) == []


def test_only_the_tags_that_are_wanted_are_given() -> None:
    data = b"".join(
        stored.message(LONG, texts=texts, offset=offset)
        for offset, texts in enumerate([b"TAGS\x01a\x02", b"", b"TAGS\x01b\x02", b"TAGS\x01c\x02"])
    )
    batch = columns.read(data, broker="b", wanted=filters.match_tags("a || b"))
    batch.validate(full=True)
    assert offsets(batch) == [0, 2]
    assert batch["body"].to_pylist() == [LONG, LONG]


def test_a_wrong_checksum_is_refused_and_the_message_is_named() -> None:
    data = stored.message(offset=6) + stored.message(topic="orders", queue_id=3, offset=7, crc=1)
    with pytest.raises(errors.CorruptMessageError, match="the checksum of its body is") as caught:
        read(data)
    error = caught.value
    assert (error.topic, error.queue_id, error.offset) == ("orders", 3, 7)
    assert columns.read(data, broker="b", check_crc=False).num_rows == 2


@pytest.mark.parametrize(
    "broken",
    [
        *(data for data, _ in stored.BROKEN.values()),
        stored.message(sys_flag=stored.flag_of(Codec.ZLIB)),
        stored.message(sys_flag=0x701),
        stored.message(sys_flag=wire.WRAPPED),
        stored.message(batch_body.encode([(0, b"", b"")]) * 40_000, sys_flag=wire.WRAPPED),
        stored.inner_batch(b"one", b"two", offset=decoding.OFFSET_MAX),
    ],
    ids=[
        *stored.BROKEN,
        "no zlib",
        "unknown codec",
        "no batch",
        "too many inner",
        "offsets run over",
    ],
)
def test_the_plain_path_says_what_is_wrong(broken: bytes) -> None:
    data = stored.message(b"good") + broken
    with pytest.raises(errors.ProtocolError) as plain:
        list(decoding.decode(data, "broker-a", check_crc=False))
    with pytest.raises(errors.ProtocolError) as caught:
        columns.read(data, broker="broker-a", check_crc=False)
    assert (type(caught.value), str(caught.value)) == (type(plain.value), str(plain.value))


def test_the_bodies_of_one_answer_expand_to_a_limit_in_all() -> None:
    data = stored.compressed(bytes(600), Codec.ZLIB) + stored.compressed(bytes(401), Codec.ZSTD)
    with pytest.raises(errors.CorruptMessageError, match="larger than 400 bytes"):
        columns.read(data, broker="b", expanded_max=1000)
    assert columns.read(data, broker="b", expanded_max=1001).num_rows == 2


def test_what_inner_messages_take_over_from_the_outer_one_is_limited() -> None:
    data = stored.inner_batch(*[b""] * 100, topic="t" * 1000, version=2) * 2
    overhead = len(data) // 2 - 100 * 22
    assert columns.read(data, broker="b", expanded_max=200 * overhead).num_rows == 200
    with pytest.raises(errors.CorruptMessageError, match="more than 99 messages in one body"):
        columns.read(data, broker="b", expanded_max=200 * overhead - 1)


def test_several_answers_can_be_read_at_once() -> None:
    answers = [stored.message(offset=0) + stored.message(offset=1), stored.message(offset=2)]
    assert offsets(read(b"".join(answers))) == [0, 1, 2]


def test_more_bytes_than_views_can_point_into_are_refused() -> None:
    with (
        mmap.mmap(-1, wire.MOST_BYTES + 1) as data,
        pytest.raises(errors.ProtocolError, match="messages of 1,073,741,825 bytes: at most"),
    ):
        columns.read(memoryview(data).toreadonly(), broker="b")


def test_message_ids_are_those_of_the_plain_path() -> None:
    data = (
        stored.message(texts=b"UNIQ_KEY\x017F00\x02")
        + stored.message(place=-1)
        + stored.message(store_host=stored.IPV6_HOST)
        + stored.message(texts=b"UNIQ_KEY\x01\x02")
    )
    expected = [message.msg_id for message in decoding.decode(data, "broker-a")]
    assert columns.find_message_ids(read(data)).to_pylist() == expected
    assert columns.find_message_ids(read(data)[2:]).to_pylist() == expected[2:]
    assert columns.find_message_ids(read(data)[:1]).to_pylist() == ["7F00"]


def test_message_ids_take_properties_that_are_known() -> None:
    batch = read(stored.message(texts=b"UNIQ_KEY\x017F00\x02"))
    texts = Properties(batch["properties"])
    assert columns.find_message_ids(batch, texts).to_pylist() == ["7F00"]


def test_views_become_plain_binaries() -> None:
    plain = columns.to_binary(read(stored.message(LONG) + stored.message(b""))["body"])
    assert plain.type == pa.binary()
    assert plain.to_pylist() == [LONG, b""]


def texts_of(*texts: bytes) -> Properties:
    return Properties(pa.array(texts, pa.binary_view()))


def test_a_property_is_null_where_a_message_does_not_have_it() -> None:
    found = texts_of(b"TAGS\x01a\x02KEYS\x01k\x02", b"", b"KEYS\x01TAGS\x02")
    assert found.get("TAGS").to_pylist() == ["a", None, None]
    assert found.get("KEYS").to_pylist() == ["k", None, "TAGS"]
    assert found.get("TAG").to_pylist() == [None, None, None]


def test_properties_of_no_messages_are_empty_columns() -> None:
    assert texts_of().get("TAGS").to_pylist() == []
    assert texts_of().to_maps().to_pylist() == []
    assert texts_of(b"", b"").to_maps().to_pylist() == [[], []]


@pytest.mark.parametrize(
    "odd",
    [
        b"a\x01x\x02a\x01y\x02",
        b"a\x01x\x01y\x02",
        b"a\x01\xff\x02",
        b"\x01x\x02a\x01\x02a\x02c\x01z\x02",
        b"c\x01z",
        b"c\x01z\x02\x02\x02",
        "ä\x01ö\x02".encode(),
    ],
    ids=["twice", "mark in a value", "no UTF-8", "no pairs", "no last mark", "empty", "UTF-8"],
)
def test_odd_properties_are_those_of_the_plain_path(odd: bytes) -> None:
    texts = [b"c\x01d\x02", odd, b"c\x01e\x02"]
    plain = [
        message.properties
        for message in decoding.decode(b"".join(stored.message(texts=one) for one in texts), "b")
    ]
    found = texts_of(*texts)
    assert found.to_maps().to_pylist() == [list(one.items()) for one in plain]
    for name in ("a", "c", "ä"):
        assert found.get(name).to_pylist() == [one.get(name) for one in plain]


def test_very_many_names_are_no_burden() -> None:
    texts = [f"name-{number}\x01{number}\x02".encode() for number in range(3000)]
    tracemalloc.start()
    maps = texts_of(*texts).to_maps()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert maps[2999].as_py() == [("name-2999", "2999")]
    assert peak < 10_000_000


def test_a_name_that_is_twice_among_very_many_names_counts_once() -> None:
    texts = [f"name-{number}\x01{number}\x02".encode() for number in range(3000)]
    maps = texts_of(*texts, b"a\x01b\x02a\x01c\x02").to_maps()
    assert maps[3000].as_py() == [("a", "c")]


@pytest.mark.parametrize("born", [1 << 62, -(1 << 62), columns.LATEST_MS + 1, -(1 << 63)])
def test_a_time_that_cannot_be_true_is_null_and_its_message_is_read(born: int) -> None:
    """A producer chooses the time; 2**62 is too large for a timestamp in microseconds."""
    batch = read(stored.message(b"a", born_ms=born) + stored.message(b"b", stored_ms=born))
    assert batch["born_timestamp"].is_null().to_pylist() == [True, False]
    assert batch["store_timestamp"].is_null().to_pylist() == [False, True]
    assert schema.make_rows(batch, include_properties=False)["born_timestamp"].null_count == 1


@pytest.mark.parametrize("born", [columns.LATEST_MS, -columns.LATEST_MS, 0])
def test_a_time_that_pandas_takes_stays(born: int) -> None:
    batch = read(stored.message(b"a", born_ms=born))
    rows = schema.make_rows(batch, include_properties=False)
    assert rows["born_timestamp"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64()).to_pylist() == [
        born * 1_000_000
    ]


BROKEN = {
    "checksum": (stored.message(b"x", offset=7, crc=1), "the checksum of its body is"),
    "no zlib": (
        stored.message(b"x", offset=7, sys_flag=stored.flag_of(Codec.ZLIB)),
        "the ZLIB body ends too early",
    ),
    "codec": (stored.message(b"x", offset=7, sys_flag=0x701), "compression 7 is unknown"),
}


@pytest.mark.parametrize(("broken", "reason"), BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_read_is_set_apart_with_its_bytes_and_the_rest_is_read(
    broken: bytes, reason: str
) -> None:
    data = stored.message(offset=6) + broken + stored.compressed(LONG, Codec.LZ4, offset=8)
    queue = MessageQueue("orders", "b", 3)
    in_columns: list[messages.Unreadable] = []
    as_values: list[messages.Unreadable] = []
    batch = Batch(queue, 6, 9, data)
    assert offsets(batch.to_columns(in_columns)) == [6, 8]
    assert [each.queue_offset for each in batch.to_messages(as_values)] == [6, 8]
    assert in_columns == as_values
    (found,) = in_columns
    assert (found.first, found.stop, found.message.body) == (7, 8, b"x")
    assert reason in found.reason


def test_a_broken_batch_reaches_to_the_next_message_or_to_the_end() -> None:
    broken = stored.message(b"x", offset=6, sys_flag=wire.WRAPPED)
    found: list[messages.Unreadable] = []
    data = broken + stored.message(offset=9)
    assert offsets(columns.read(data, broker="b", stop=20, unreadable=found)) == [9]
    columns.read(broken, broker="b", stop=20, unreadable=found)
    assert [(each.first, each.stop) for each in found] == [(6, 9), (6, 20)]


def test_what_was_not_asked_for_is_not_set_apart() -> None:
    broken = [stored.message(offset=n, crc=1, texts=b"TAGS\x01a\x02") for n in (3, 4, 5)]
    found: list[messages.Unreadable] = []
    columns.read(b"".join(broken), broker="b", first=4, stop=5, unreadable=found)
    assert [each.first for each in found] == [4]
    found.clear()
    wanted = filters.match_tags("b")
    columns.read(b"".join(broken), broker="b", wanted=wanted, unreadable=found)
    assert found == []


def test_the_guide_lists_all_columns_with_their_types() -> None:
    shown = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", GUIDE.read_text("utf-8"), re.MULTILINE)
    assert shown == [(each.name, str(each.type)) for each in columns.SCHEMA]
