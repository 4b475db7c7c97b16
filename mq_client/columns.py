"""
Read the messages of a pull's answer as Arrow columns, without a Python object per message.

One pass over the sizes finds where messages start. Then numpy fetches each field of all messages at
once. Bodies and properties are views into the received bytes. The columns keep these bytes alive,
and the bytes must not be changed. Compressed bodies and inner batches are expanded into a copy; the
order of the messages is kept.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mq_client import decoding, errors, filters, gather, messages, properties, rows, wire
from mq_client.gather import Bytes
from mq_client.property_columns import Properties
from mq_client.rows import Rows

TIMESTAMP = pa.timestamp("ms", tz="UTC")
LATEST_MS = (2**63 - 1) // 1_000_000
"""The latest time that pandas and numpy accept, in 2262. The earliest one is in 1677."""
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
    expanded_max: int = decoding.EXPANDED_MAX,
    unreadable: list[messages.Unreadable] | None = None,
) -> pa.RecordBatch:
    """
    Read the messages with offsets from `first` up to `stop`, exclusive, whose tag is wanted.

    Raises the same errors as `decoding.decode`: `ProtocolError` if the bytes are not messages,
    `CorruptMessageError` if a checksum is wrong or a body cannot be expanded. If a list
    `unreadable` is given, corrupt messages are added to it instead, and the others are read. A
    timestamp out of range becomes null, because a producer can set any number.
    """
    octets = np.frombuffer(data, np.uint8)
    starts = np.array(wire.find_starts(memoryview(data).cast("B")), np.int64)
    try:
        found = rows.find(octets, starts)
        if check_crc:
            rows.check_crc(octets, found)
        octets, found = rows.expand(octets, found, expanded_max)
    except (rows.CorruptRowsError, errors.ProtocolError) as error:
        refusal = _find_refusal(data, broker, check_crc, expanded_max)
        if unreadable is None or not isinstance(refusal, errors.CorruptMessageError):
            raise refusal from error
        whole = decoding.drop_unreadable(
            data, broker, unreadable, first=first, stop=stop, wanted=wanted,
            check_crc=check_crc, expanded_max=expanded_max,
        )  # fmt: skip
        if len(whole) == len(data):
            raise refusal from error  # only all messages together exceed the limit
        return read(
            whole, broker=broker, first=first, stop=stop, wanted=wanted, check_crc=check_crc,
            expanded_max=expanded_max,
        )  # fmt: skip
    return _make_batch(
        octets, _keep_wanted(octets, _keep_between(found, first, stop), wanted), broker
    )


def convert(found: Sequence[messages.StoredMessage]) -> pa.RecordBatch:
    """Make the same columns from messages that are decoded already."""
    columns = [
        pa.array([each.topic for each in found], pa.string()),
        pa.array([each.broker for each in found], pa.string()),
        pa.array([each.queue_id for each in found], pa.int32()),
        pa.array([each.queue_offset for each in found], pa.int64()),
        pa.array([each.flag for each in found], pa.int32()),
        pa.array([each.sys_flag for each in found], pa.int32()),
        _make_timestamps(np.array([each.born_timestamp_ms for each in found], np.int64)),
        _make_timestamps(np.array([each.store_timestamp_ms for each in found], np.int64)),
        pa.array([each.reconsume_times for each in found], pa.int32()),
        pa.array([each.commit_log_offset for each in found], pa.int64()),
        pa.array([each.store_address for each in found], pa.binary()),
        pa.array([each.body for each in found], pa.binary_view()),
        pa.array([properties.join(each.properties).encode() for each in found], pa.binary_view()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def find_message_ids(batch: pa.RecordBatch, texts: Properties | None = None) -> pa.Array:
    """
    Return the id of each message: the producer's id, or the place where the message is stored.

    `texts` are the batch's properties, if the caller already has them.
    """
    given = (texts or Properties(batch["properties"])).get(properties.UNIQUE_KEY)
    return pc.coalesce(given, _make_place_ids(batch)) if given.null_count else given


def to_binary(column: pa.Array) -> pa.Array:
    """Copy a column of views into a column of plain binaries, for libraries without views."""
    return column.cast(pa.binary())


def _make_timestamps(found: NDArray[np.int64]) -> pa.Array:
    is_wrong = (found > LATEST_MS) | (found < -LATEST_MS)
    if not is_wrong.any():
        return gather.make_numbers(found, TIMESTAMP)
    return pa.array(found, pa.int64(), mask=is_wrong).cast(TIMESTAMP)


def _keep_between(found: Rows, first: int | None, stop: int | None) -> Rows:
    keep = np.ones(len(found), np.bool_)
    if first is not None:
        keep &= found.queue_offset >= first
    if stop is not None:
        keep &= found.queue_offset < stop
    return found if keep.all() else found.take(keep)


def _keep_wanted(data: Bytes, found: Rows, wanted: filters.Filter) -> Rows:
    if not wanted.names:
        return found
    texts = Properties(gather.copy_pieces(data, found.texts, found.texts_length))
    keep = pc.is_in(texts.get(properties.TAGS), pa.array(wanted.names, pa.string()))
    return found.take(keep.to_numpy(zero_copy_only=False))


def _make_batch(data: Bytes, found: Rows, broker: str) -> pa.RecordBatch:
    buffer = pa.py_buffer(data)
    columns = [
        gather.decode_text(gather.copy_pieces(data, found.topic, found.topic_length)),
        gather.repeat(broker, len(found)),
        gather.make_numbers(found.queue_id, pa.int32()),
        gather.make_numbers(found.queue_offset, pa.int64()),
        gather.make_numbers(found.flag, pa.int32()),
        gather.make_numbers(found.sys_flag, pa.int32()),
        _make_timestamps(found.born),
        _make_timestamps(found.stored),
        gather.make_numbers(found.reconsume_times, pa.int32()),
        gather.make_numbers(found.place, pa.int64()),
        gather.copy_pieces(data, found.host, found.host_length),
        gather.view_pieces(data, buffer, found.body, found.body_length),
        gather.view_pieces(data, buffer, found.texts, found.texts_length),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _make_place_ids(batch: pa.RecordBatch) -> pa.Array:
    places = batch["commit_log_offset"].to_numpy().astype(">i8")
    tails = gather.cut_values(places.view(np.uint8), np.arange(len(places) + 1) * 8, pa.binary())
    joined = pc.binary_join_element_wise(batch["store_host"], tails, b"")
    _, offsets, data = joined.buffers()
    ends = np.frombuffer(offsets, np.int32, len(joined) + 1).astype(np.int64)
    return gather.cut_values(data.to_pybytes().hex().upper().encode(), ends * 2, pa.string())


def _find_refusal(
    data: bytes | bytearray | memoryview, broker: str, check_crc: bool, expanded_max: int
) -> errors.ProtocolError:
    """Read message by message to find the exact error."""
    try:
        for _ in decoding.decode(data, broker, check_crc=check_crc, expanded_max=expanded_max):
            pass
    except errors.ProtocolError as error:
        return error
    raise AssertionError("`decode` reads messages that `columns` rejects")
