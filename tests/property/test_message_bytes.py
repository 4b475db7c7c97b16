"""Both readers agree on any bytes, and refuse invalid bytes with the same error."""

import random
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq_client import columns, compression, decoding, errors, properties
from mq_client.messages import StoredMessage
from mq_client.property_columns import Properties
from tests import stored

INPUTS = 20_000
"""The first 5,000 inputs have each kind of answer and refusal. Each run draws other inputs."""
SMALL = 1 << 16
"""No mutated body may expand beyond this, so that a test does not fill the memory."""

NUMBERS = (0, 1, 7, 8, 88, 91, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0x7FFF_FFFF, 0x8000_0000, 1 << 63)
MARKS = b"\x00\x01\x02\x10\x20\x30\x40\x80\xa7\xab\xff"


def plain(texts: bytes = b"TAGS\x01a\x02UNIQ_KEY\x010A\x02") -> bytes:
    return stored.message(b"hello", texts=texts, offset=1) + stored.message(
        b"a body that no view holds", texts=b"KEYS\x01k", offset=2, place=9999
    )


def of_two_versions() -> bytes:
    return (
        stored.message(b"one", store_host=stored.IPV6_HOST)
        + stored.blank(20)
        + stored.message(b"two", born_host=stored.IPV6_HOST, version=2, topic="o" * 130, offset=1)
    )


def compressed() -> bytes:
    return b"".join(
        stored.compressed(b"small" * 20, codec, offset=number, texts=b"a\x01b\x02")
        for number, codec in enumerate(compression.Codec)
    )


def batches() -> bytes:
    return (
        stored.inner_batch(b"one", b"two", texts=b"TAGS\x01a\x02", offset=5)
        + stored.message(b"between", offset=7)
        + stored.inner_batch(b"x" * 30, b"", codec=compression.Codec.ZLIB, offset=8)
    )


ANSWERS = [plain(), of_two_versions(), compressed(), batches()]


def flip(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def mark(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] = rng.choice(MARKS)


def number(data: bytearray, rng: random.Random) -> None:
    """Write a number at the start of a field, in one of the possible widths."""
    width = rng.choice((1, 2, 4, 8))
    place = rng.randrange(max(1, len(data) - width))
    data[place : place + width] = (rng.choice(NUMBERS) % (1 << 8 * width)).to_bytes(width)


def cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def lose(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data))
    del data[place : place + rng.randrange(1, 9)]


def again(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data))
    data[place:place] = data[place : place + rng.randrange(1, 40)]


MUTATIONS: list[Callable[[bytearray, random.Random], None]] = [
    flip, flip, flip, mark, mark, number, number, cut, lose, again,
]  # fmt: skip


def mutated(rng: random.Random) -> bytes:
    data = bytearray(rng.choice(ANSWERS))
    for _ in range(rng.choice((1, 1, 2, 4))):
        if data:
            rng.choice(MUTATIONS)(data, rng)
    return bytes(data)


Rows = list[tuple[object, ...]]
Refusal = tuple[type[errors.ProtocolError], str]


def row_of(message: StoredMessage) -> tuple[object, ...]:
    return (
        message.topic, message.broker, message.queue_id, message.queue_offset, message.flag,
        message.sys_flag, shown(message.born_timestamp_ms), shown(message.store_timestamp_ms),
        message.reconsume_times, message.commit_log_offset, message.store_address, message.body,
        message.properties,
    )  # fmt: skip


def shown(time_ms: int) -> int | None:
    """Replace a time that pandas cannot hold by None, as columns do; objects keep any number."""
    return time_ms if abs(time_ms) <= columns.LATEST_MS else None


def rows_of(batch: pa.RecordBatch) -> Rows:
    """Convert columns to rows. Timestamps stay numbers, because Python cannot hold some of them."""
    plain = [
        column.cast(pa.int64()) if name.endswith("timestamp") else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    rows = zip(*(column.to_pylist() for column in plain), strict=True)
    return [(*row[:-1], properties.parse(row[-1])) for row in rows]


def outcome(read: Callable[[], Rows]) -> Rows | Refusal:
    try:
        return read()
    except errors.ProtocolError as error:
        return type(error), str(error)


def read_both(data: bytes, *, check_crc: bool = True) -> Rows | None:
    """Read bytes with both readers, which must agree; return None if both refuse."""
    plain = outcome(
        lambda: [
            row_of(message)
            for message in decoding.decode(data, "b", check_crc=check_crc, expanded_max=SMALL)
        ]
    )
    assert plain == outcome(
        lambda: rows_of(columns.read(data, broker="b", check_crc=check_crc, expanded_max=SMALL))
    )
    return plain if isinstance(plain, list) else None


def test_columns_and_objects_agree_on_20_000_broken_answers(seed: int, rng: random.Random) -> None:
    read = 0
    for place in range(INPUTS):
        data = mutated(rng)
        try:
            read += read_both(data, check_crc=place % 4 == 0) is not None
        except BaseException:
            print(f"seed={seed} input {place}: {data.hex()}")  # noqa: T201  # the report's content
            raise
    # Otherwise nearly all mutated inputs would be readable, or nearly all would be refused.
    assert INPUTS * 0.1 < read < INPUTS * 0.9


@pytest.mark.parametrize("data", ANSWERS, ids=["plain", "versions", "compressed", "batches"])
def test_an_answer_that_was_cut_anywhere_gives_its_first_messages_or_is_refused(
    data: bytes,
) -> None:
    whole = rows_of(columns.read(data, broker="b"))
    for end in range(len(data)):
        rows = read_both(data[:end])
        assert rows is None or rows == whole[: len(rows)]


TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
HOST = st.sampled_from([stored.IPV4_HOST, stored.IPV6_HOST])
MESSAGE = st.fixed_dictionaries(
    {
        "body": st.binary(max_size=40),
        "topic": st.binary(max_size=130),
        "texts": st.dictionaries(TEXT, TEXT, max_size=3),
        "queue_id": INT32,
        "offset": INT64,
        "place": INT64,
        "flag": INT32,
        "born_ms": INT64,
        "stored_ms": INT64,
        "reconsume_times": INT32,
        "born_host": HOST,
        "store_host": HOST,
        "version": st.sampled_from([1, 2]),
        "behind": st.binary(max_size=3),
    }
)


@given(st.lists(MESSAGE, max_size=6))
def test_whatever_was_stored_is_read_back(fields: list[dict[str, object]]) -> None:
    data = b"".join(stored.message(**one) for one in fields)  # type: ignore[arg-type]  # as drawn
    assert read_both(data) is not None
    batch = columns.read(data, broker="b")
    names = ("queue_id", "queue_offset", "body", "flag", "commit_log_offset", "reconsume_times")
    found = zip(*(batch[name].to_pylist() for name in names), strict=True)
    drawn = ("queue_id", "offset", "body", "flag", "place", "reconsume_times")
    assert list(found) == [tuple(one[name] for name in drawn) for one in fields]
    texts = [properties.parse(raw) for raw in batch["properties"].to_pylist()]
    assert texts == [one["texts"] for one in fields]


PIECES = [
    b"\x01",
    b"\x02",
    b"TAGS",
    b"a",
    b"\xc3\xa9",
    b"\xff",
    b"\xe2\x82",
    b"a\x01b\x02",
    b"TAGS\x01x\x02",
]
TIDY = [
    b"TAGS\x01x\x02",
    b"KEYS\x01\xe2\x82\xac\x02",
    b"a\x01b\x02",
    b"c\x01\x02",
    b"\x01d\x02",
    b"e\x02",
]


@pytest.mark.parametrize("pieces", [PIECES, TIDY], ids=["wild", "tidy"])
def test_properties_of_many_messages_are_those_of_each_one(
    rng: random.Random, pieces: list[bytes]
) -> None:
    for _ in range(400):
        texts = [
            b"".join(rng.sample(pieces, rng.randrange(len(pieces))))
            for _ in range(rng.randrange(9))
        ]
        expected = [properties.parse(text) for text in texts]
        start = rng.randrange(len(texts) + 1)
        for kind in (pa.binary(), pa.binary_view()):
            found = Properties(pa.array(texts, kind)[start:])
            maps = found.to_maps()
            maps.validate(full=True)
            assert maps.to_pylist() == [list(one.items()) for one in expected[start:]], texts
            for name in ("TAGS", "a", "é", ""):
                column = found.get(name)
                column.validate(full=True)
                assert column.to_pylist() == [one.get(name) for one in expected[start:]], texts
