"""Defines the columns of docs/spark.md, and makes rows from decoded messages."""

from collections.abc import Sequence

import pyarrow as pa

from mq_client import columns, properties
from mq_client.messages import StoredMessage, Unreadable
from mq_client.property_columns import Properties

TIMESTAMP = pa.timestamp("us", tz="UTC")
ERROR_COLUMN = "_error"
"""The column for the error of a row. Transforms set it. Unreadable messages have it too."""
_COLUMNS = {
    "topic": ("string", pa.string()),
    "broker_name": ("string", pa.string()),
    "queue_id": ("int", pa.int32()),
    "queue_offset": ("bigint", pa.int64()),
    "msg_id": ("string", pa.string()),
    "keys": ("string", pa.string()),
    "tags": ("string", pa.string()),
    "body": ("binary", pa.binary()),
    "properties": ("map<string,string>", pa.map_(pa.string(), pa.string())),
    "born_timestamp": ("timestamp", TIMESTAMP),
    "store_timestamp": ("timestamp", TIMESTAMP),
    "reconsume_times": ("int", pa.int32()),
}


def _list_names(include_properties: bool) -> list[str]:
    return [name for name in _COLUMNS if include_properties or name != "properties"]


def make_ddl(include_properties: bool) -> str:
    """Write the schema as Spark's DDL."""
    return ", ".join(f"{name} {_COLUMNS[name][0]}" for name in _list_names(include_properties))


def make_rows(batch: pa.RecordBatch, include_properties: bool) -> pa.RecordBatch:
    """Make Spark's rows from the columns of `mq_client`."""
    texts = Properties(batch["properties"])
    made = {
        "msg_id": columns.find_message_ids(batch, texts),
        "keys": texts.get(properties.KEYS),
        "tags": texts.get(properties.TAGS),
        "body": columns.to_binary(batch["body"]),
        "born_timestamp": batch["born_timestamp"].cast(TIMESTAMP),
        "store_timestamp": batch["store_timestamp"].cast(TIMESTAMP),
    }
    if include_properties:
        made["properties"] = texts.to_maps()
    names = _list_names(include_properties)
    arrays = [made[name] if name in made else batch[name] for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=_make_arrow_schema(include_properties))


def make_few_rows(messages: Sequence[StoredMessage], include_properties: bool) -> pa.RecordBatch:
    """Make the same rows as `make_rows`. For few messages, this is ten times as fast."""
    rows = [_list_fields(message) for message in messages]
    return pa.RecordBatch.from_pylist(rows, schema=_make_arrow_schema(include_properties))


def make_unreadable_rows(found: Sequence[Unreadable], include_properties: bool) -> pa.RecordBatch:
    """Make rows of unreadable messages. The last column has the error of each message."""
    errors = [(each.message, f"{each.queue} offset {each.first}: {each.reason}") for each in found]
    return make_error_rows(errors, include_properties)


def make_error_rows(
    found: Sequence[tuple[StoredMessage, str]], include_properties: bool
) -> pa.RecordBatch:
    """Turn messages that have errors into rows. The last column has the error of each message."""
    rows = [{**_list_fields(message), ERROR_COLUMN: error} for message, error in found]
    kind = _make_arrow_schema(include_properties).append(pa.field(ERROR_COLUMN, pa.string()))
    return pa.RecordBatch.from_pylist(rows, schema=kind)


def make_unreadable_ddl(include_properties: bool) -> str:
    """Write the schema of unreadable messages as Spark's DDL."""
    return f"{make_ddl(include_properties)}, {ERROR_COLUMN} string"


def _list_fields(message: StoredMessage) -> dict[str, object]:
    return {
        "topic": message.topic,
        "broker_name": message.broker,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "msg_id": message.msg_id,
        "keys": message.properties.get(properties.KEYS),
        "tags": message.tags,
        "body": message.body,
        "properties": list(message.properties.items()),
        "born_timestamp": _to_microseconds(message.born_timestamp_ms),
        "store_timestamp": _to_microseconds(message.store_timestamp_ms),
        "reconsume_times": message.reconsume_times,
    }


def _to_microseconds(milliseconds: int) -> int | None:
    return milliseconds * 1000 if abs(milliseconds) <= columns.LATEST_MS else None


def _make_arrow_schema(include_properties: bool) -> pa.Schema:
    return pa.schema([(name, _COLUMNS[name][1]) for name in _list_names(include_properties)])
