"""Rows become messages in batches that a broker accepts; columns are checked first."""

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from mq_client.errors import UsageError
from mq_client.messages import Message, encode_batch
from spark_jobs import options, sink
from spark_jobs.options import Sending


def sending(**given: str) -> Sending:
    return options.parse_sending({"nameServers": "mq:9876", **given})


TO_ORDERS = sending(topic="orders")


def columns(ddl: str) -> StructType:
    """Read a schema without Spark."""
    names = {"bigint": "long", "int": "integer"}
    mapped = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
    fields = [
        {
            "name": each.split(" ")[0],
            "type": mapped if "map<" in each else names.get(kind := each.split(" ")[1], kind),
            "nullable": True,
            "metadata": {},
        }
        for each in ddl.split("; ")
    ]
    return StructType.fromJson({"type": "struct", "fields": fields})


def messages(to: Sending = TO_ORDERS, **values: list[object]) -> list[Message]:
    kinds = {"properties": pa.map_(pa.string(), pa.string())}
    arrays = {name: pa.array(value, kinds.get(name)) for name, value in values.items()}
    return sink._make_messages(pa.RecordBatch.from_pydict(arrays), to)


# --- columns


@pytest.mark.parametrize(
    ("ddl", "given"),
    [
        ("body binary", {"topic": "orders"}),
        ("body string", {"topic": "orders"}),
        ("topic string; body binary", {}),
        ("topic string; body binary; keys string; tags string; properties map<string,string>", {}),
        ("body binary; customer bigint", {"topic": "orders", "orderingKey": "customer"}),
        ("body binary; keys string", {"topic": "orders", "orderingKey": "keys"}),
    ],
)
@pytest.mark.parametrize("writer", [sink.BoundedWriter, sink.StreamWriter])
def test_columns_that_can_be_sent_are_taken(
    ddl: str, given: dict[str, str], writer: type[sink.BoundedWriter | sink.StreamWriter]
) -> None:
    writer(sending(**given), columns(ddl))


@pytest.mark.parametrize(
    ("ddl", "given", "said"),
    [
        ("topic string", {}, "there is no column body"),
        ("body binary", {}, "set the option topic, or add a column topic"),
        ("body int", {"topic": "x"}, "column body int: the sink takes topic string, body binary"),
        ("body binary; tags int", {"topic": "x"}, "column tags int: the sink takes"),
        ("body binary; amount bigint", {"topic": "x"}, "column amount bigint: the sink takes"),
        ("body binary", {"topic": "x", "orderingKey": "k"}, "orderingKey: there is no column k"),
        ("body binary; keys int", {"topic": "x", "orderingKey": "keys"}, "column keys int"),
    ],
)
@pytest.mark.parametrize("writer", [sink.BoundedWriter, sink.StreamWriter])
def test_columns_that_cannot_be_sent_are_an_error(
    ddl: str,
    given: dict[str, str],
    said: str,
    writer: type[sink.BoundedWriter | sink.StreamWriter],
) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        writer(sending(**given), columns(ddl))


# --- rows


def test_a_row_becomes_a_message() -> None:
    (message,) = messages(
        body=[b"hi"], keys=["order-7  x"], tags=["paid"], properties=[[("a", "ß"), ("b", None)]]
    )
    assert message == Message(
        "orders", b"hi", tags="paid", keys=("order-7", "x"), properties={"a": "ß"}
    )


def test_what_a_row_leaves_out_the_message_does_not_have() -> None:
    (message,) = messages(body=["hé"], keys=[None], tags=[None], properties=[None])
    assert message == Message("orders", "hé".encode())


def test_the_column_topic_comes_before_the_option() -> None:
    found = messages(body=[b"1", b"2"], topic=["payments", None])
    assert [message.topic for message in found] == ["payments", "orders"]


def test_a_row_that_goes_nowhere_is_an_error() -> None:
    with pytest.raises(UsageError, match="the topic is empty"):
        messages(sending(), body=[b"1"], topic=pa.array([None], pa.string()))


def test_a_row_without_a_body_is_an_error_and_an_empty_body_is_not() -> None:
    with pytest.raises(UsageError, match="a row has no body"):
        messages(body=[b"1", None])
    assert messages(body=[b""])[0].body == b""


def test_messages_are_kept_apart_by_topic_in_their_order() -> None:
    found = [Message(topic, bytes([place])) for place, topic in enumerate(["a", "b", "a"])]
    assert sink._group_by_topic(found) == {"a": [found[0], found[2]], "b": [found[1]]}


# --- pieces


@given(st.lists(st.tuples(st.integers(0, 900_000), st.integers(0, 14_000)), max_size=30))
def test_pieces_hold_all_messages_in_order_and_are_not_too_large(
    sizes: list[tuple[int, int]],
) -> None:
    """Sizes include everything in a message, and letters of more than one byte."""
    found = [
        Message(
            "t", bytes(body), "ß" * (texts // 8) or None, keys=("k" * (texts // 2 + 1),),
            properties={"n": "ü" * (texts // 4)} if texts // 4 else {},
        )
        for body, texts in sizes
    ]  # fmt: skip
    pieces = list(sink._divide(found))
    assert [message for piece in pieces for message in piece] == found
    assert all(pieces)
    for piece in pieces:
        encoded = encode_batch(piece, ["K" * 32] * len(piece))
        assert len(piece) == 1 or len(encoded) <= sink.BATCH_BYTES
        assert sum(map(sink._measure, piece)) == len(encoded)


def test_a_piece_holds_so_many_messages_at_most() -> None:
    found = [Message("t", b"x")] * (2 * sink.BATCH_MESSAGES + 1)
    lengths = [len(piece) for piece in sink._divide(found)]
    assert lengths == [sink.BATCH_MESSAGES, sink.BATCH_MESSAGES, 1]


def test_a_message_that_is_larger_than_a_piece_goes_alone() -> None:
    small, large = Message("t", b"x"), Message("t", bytes(sink.BATCH_BYTES + 1))
    assert list(sink._divide([small, large, small])) == [[small], [large], [small]]
