"""Decoded messages as rows for Spark."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mq_client import columns, decoding
from mq_client.compression import Codec
from spark_jobs import schema
from tests import stored

GUIDE = Path(__file__).parents[3] / "docs" / "spark.md"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows(data: bytes, *, include_properties: bool = False) -> list[dict[str, Any]]:
    found = schema.make_rows(columns.read(data, broker="broker-a"), include_properties)
    found.validate(full=True)
    few = schema.make_few_rows(list(decoding.decode(data, "broker-a")), include_properties)
    assert few.to_pylist() == found.to_pylist()
    assert few.schema == found.schema
    return list(found.to_pylist())


def test_a_message_becomes_a_row_of_all_columns() -> None:
    texts = {"TAGS": "paid", "KEYS": "order-7 x", "UNIQ_KEY": "7F00", "region": "ß\U0001f680"}
    data = stored.message(b"\x00hi", texts=texts, offset=5, reconsume_times=2)
    assert rows(data, include_properties=True) == [
        {
            "topic": "orders",
            "broker_name": "broker-a",
            "queue_id": 3,
            "queue_offset": 5,
            "msg_id": "7F00",
            "keys": "order-7 x",
            "tags": "paid",
            "body": b"\x00hi",
            "properties": list(texts.items()),
            "born_timestamp": EPOCH + timedelta(milliseconds=stored.BORN_MS),
            "store_timestamp": EPOCH + timedelta(milliseconds=stored.STORED_MS),
            "reconsume_times": 2,
        }
    ]


def test_what_a_message_does_not_have_is_null_and_its_id_is_where_it_is_stored() -> None:
    (row,) = rows(stored.message(b"", place=4096), include_properties=True)
    assert (row["keys"], row["tags"], row["body"], row["properties"]) == (None, None, b"", [])
    assert row["msg_id"] == (stored.IPV4_HOST + (4096).to_bytes(8)).hex().upper()


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
def test_a_compressed_body_is_expanded(codec: Codec) -> None:
    body = b"abc" * 5000
    data = stored.compressed(body, codec, offset=0) + stored.message(b"plain", offset=1)
    assert [row["body"] for row in rows(data)] == [body, b"plain"]


def test_properties_are_a_column_only_when_asked_for() -> None:
    assert "properties" not in schema.make_ddl(include_properties=False)
    assert "properties map<string,string>" in schema.make_ddl(include_properties=True)
    (row,) = rows(stored.message(b"x", texts={"a": "b"}))
    assert "properties" not in row


@pytest.mark.parametrize("include_properties", [True, False])
def test_arrows_columns_are_those_that_spark_is_told(include_properties: bool) -> None:
    found = schema.make_rows(columns.read(stored.message(b"x"), broker="b"), include_properties)
    told = [each.split(" ") for each in schema.make_ddl(include_properties).split(", ")]
    kinds = {
        "string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "binary": pa.binary(),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }  # fmt: skip
    assert [(field.name, field.type) for field in found.schema] == [
        (name, kinds[kind]) for name, kind in told
    ]


def test_the_guides_table_lists_the_columns_with_their_types() -> None:
    _, _, table = GUIDE.read_text("utf-8").partition("\n| Column | Type |")
    told = re.findall(r"^\| `(\w+)` \| `([\w<>,]+)` \|", table, re.MULTILINE)
    assert ", ".join(f"{name} {kind}" for name, kind in told) == schema.make_ddl(
        include_properties=True
    )
