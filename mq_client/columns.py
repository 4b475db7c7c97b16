"""
Read the messages of a pull's answer as Arrow columns, without a Python object a message.

One pass over the sizes tells where messages start; numpy then fetches each field of all messages at
once. Bodies and properties are views into the received bytes, which live as long as the columns and
must not be changed. Compressed bodies and inner batches are expanded into a copy; order is kept.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mq_client import errors, filters, gather, messages, properties, rows, wire
from mq_client.gather import Bytes
from mq_client.property_columns import Properties
from mq_client.rows import Rows

TIMESTAMP = pa.timestamp("ms", tz="UTC")
LATEST_MS = (2**63 - 1) // 1_000_000
"""In 2262. Neither pandas nor numpy takes a later time, nor one as far before 1970."""
SCHEMA = pa.schema(
    [
        pa.field(name, kind, nullable=kind == TIMESTAMP)
        for name, kind in {
            "topic": pa.string(),
            "broker_name": pa.string(),
            "queue_id": pa.int32(),
            "queue_offset": pa.int64(),
            "flag": pa.int32(),
            "sys_flag": pa.int32(),
            "born_timestamp": TIMESTAMP,
            "store_timestamp": TIMESTAMP,
            "reconsume_times": pa.int32(),
            "commit_log_offset": pa.int64(),
            "store_host": pa.binary(),
            "body": pa.binary_view(),
            "properties": pa.binary_view(),
        }.items()
    ]
)


def read(
    data: bytes | bytearray | memoryview,
    *,
    broker: str,
    first: int | None = None,
    stop: int | None = None,
    wanted: filters.Filter = filters.EVERYTHING,
    check_crc: bool = True,
    expanded_max: int = messages.EXPANDED_MAX,
    unreadable: list[messages.Unreadable] | None = None,
) -> pa.RecordBatch:
    """
    Read the messages with offsets from `first` up to, without, `stop`, whose tag is wanted.

    Raises what `messages.decode` raises for the same bytes: `ProtocolError` where they are no
    messages, `CorruptMessageError` where a checksum is wrong or a body does not expand. With a list
    `unreadable`, messages of the second kind are added to it, and the others are read. A timestamp
    that cannot be true is null: its producer chose it.
    """
    octets = np.frombuffer(data, np.uint8)
    starts = np.array(wire.starts(memoryview(data).cast("B")), np.int64)
    try:
        found = rows.find(octets, starts)
        if check_crc:
            rows.check_crc(octets, found)
        octets, found = rows.expand(octets, found, expanded_max)
    except (rows.CorruptRowsError, errors.ProtocolError) as error:
        refusal = _refusal(data, broker, check_crc, expanded_max)
        if unreadable is None or not isinstance(refusal, errors.CorruptMessageError):
            raise refusal from error
        whole = messages.without_unreadable(
            data, broker, unreadable, first=first, stop=stop, wanted=wanted,
            check_crc=check_crc, expanded_max=expanded_max,
        )  # fmt: skip
        if len(whole) == len(data):
            raise refusal from error  # only all of them together expand beyond the limit
        return read(
            whole, broker=broker, first=first, stop=stop, wanted=wanted, check_crc=check_crc,
            expanded_max=expanded_max,
        )  # fmt: skip
    return _batch(octets, _wanted(octets, _between(found, first, stop), wanted), broker)


def message_ids(batch: pa.RecordBatch, texts: Properties | None = None) -> pa.Array:
    """
    Tell the id of each message: what its producer gave, else the place where it is stored.

    `texts` are the batch's properties, for those who have them already.
    """
    given = (texts or Properties(batch["properties"])).get(properties.UNIQUE_KEY)
    return pc.coalesce(given, _place_ids(batch)) if given.null_count else given


def binary(column: pa.Array) -> pa.Array:
    """Copy a column of views into one of plain binaries, for those who do not know views."""
    return column.cast(pa.binary())


def _timestamps(found: NDArray[np.int64]) -> pa.Array:
    is_wrong = (found > LATEST_MS) | (found < -LATEST_MS)
    if not is_wrong.any():
        return gather.numbers(found, TIMESTAMP)
    return pa.array(found, pa.int64(), mask=is_wrong).cast(TIMESTAMP)


def _between(found: Rows, first: int | None, stop: int | None) -> Rows:
    keep = np.ones(len(found), np.bool_)
    if first is not None:
        keep &= found.queue_offset >= first
    if stop is not None:
        keep &= found.queue_offset < stop
    return found if keep.all() else found.take(keep)


def _wanted(data: Bytes, found: Rows, wanted: filters.Filter) -> Rows:
    if not wanted.names:
        return found
    texts = Properties(gather.binary(data, found.texts, found.texts_length))
    keep = pc.is_in(texts.get(properties.TAGS), pa.array(wanted.names, pa.string()))
    return found.take(keep.to_numpy(zero_copy_only=False))


def _batch(data: Bytes, found: Rows, broker: str) -> pa.RecordBatch:
    buffer = pa.py_buffer(data)
    columns = [
        gather.text(gather.binary(data, found.topic, found.topic_length)),
        gather.repeated(broker, len(found)),
        gather.numbers(found.queue_id, pa.int32()),
        gather.numbers(found.queue_offset, pa.int64()),
        gather.numbers(found.flag, pa.int32()),
        gather.numbers(found.sys_flag, pa.int32()),
        _timestamps(found.born),
        _timestamps(found.stored),
        gather.numbers(found.reconsume_times, pa.int32()),
        gather.numbers(found.place, pa.int64()),
        gather.binary(data, found.host, found.host_length),
        gather.binary_view(data, buffer, found.body, found.body_length),
        gather.binary_view(data, buffer, found.texts, found.texts_length),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _place_ids(batch: pa.RecordBatch) -> pa.Array:
    places = batch["commit_log_offset"].to_numpy().astype(">i8")
    tails = gather.values(places.view(np.uint8), np.arange(len(places) + 1) * 8, pa.binary())
    joined = pc.binary_join_element_wise(batch["store_host"], tails, b"")
    _, offsets, data = joined.buffers()
    ends = np.frombuffer(offsets, np.int32, len(joined) + 1).astype(np.int64)
    return gather.values(data.to_pybytes().hex().upper().encode(), ends * 2, pa.string())


def _refusal(
    data: bytes | bytearray | memoryview, broker: str, check_crc: bool, expanded_max: int
) -> errors.ProtocolError:
    """Ask for the complaint where it is made: message by message."""
    try:
        for _ in messages.decode(data, broker, check_crc=check_crc, expanded_max=expanded_max):
            pass
    except errors.ProtocolError as error:
        return error
    raise AssertionError("columns refuse what the plain path reads")
