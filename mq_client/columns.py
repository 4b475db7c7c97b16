"""
Read the messages of a pull's answer as Arrow columns, without a Python object a message.

One pass over the sizes tells where messages start; numpy then fetches each field of all messages at
once. Bodies and properties are views into the received bytes, which live as long as the columns.
Compressed bodies and inner batches are expanded into a copy behind them; order is kept.

The rules are those of `messages.decode`. Where something is wrong here, it is asked to say what.
"""

import zlib
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mq_client import (
    batch_body,
    compression,
    errors,
    filters,
    gather,
    messages,
    properties,
    property_columns,
    wire,
)
from mq_client.gather import Bytes, Places

TIMESTAMP = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("broker_name", pa.string(), nullable=False),
        pa.field("queue_id", pa.int32(), nullable=False),
        pa.field("queue_offset", pa.int64(), nullable=False),
        pa.field("flag", pa.int32(), nullable=False),
        pa.field("sys_flag", pa.int32(), nullable=False),
        pa.field("born_timestamp", TIMESTAMP, nullable=False),
        pa.field("store_timestamp", TIMESTAMP, nullable=False),
        pa.field("reconsume_times", pa.int32(), nullable=False),
        pa.field("commit_log_offset", pa.int64(), nullable=False),
        pa.field("store_host", pa.binary(), nullable=False),
        pa.field("body", pa.binary_view(), nullable=False),
        pa.field("properties", pa.binary_view(), nullable=False),
    ]
)

_HEAD = np.dtype(
    {
        "names": ["crc", "queue_id", "flag", "queue_offset", "place", "sys_flag", "born"],
        "formats": [">u4", ">i4", ">i4", ">i8", ">i8", ">i4", ">i8"],
        "offsets": [
            wire.CRC, wire.QUEUE_ID, wire.FLAG, wire.QUEUE_OFFSET, wire.COMMIT_LOG_OFFSET,
            wire.SYS_FLAG, wire.BORN_TIMESTAMP,
        ],
        "itemsize": wire.HEAD.size,
    }
)  # fmt: skip
_TAIL = np.dtype([("reconsume_times", ">i4"), ("prepared", ">i8"), ("body_length", ">i4")])


@dataclass(slots=True)
class _Rows:
    """The fields of all messages; of texts, where they begin in the bytes and how long they are."""

    crc: NDArray[np.uint32]
    queue_id: NDArray[np.int32]
    queue_offset: NDArray[np.int64]
    flag: NDArray[np.int32]
    sys_flag: NDArray[np.int32]
    born: NDArray[np.int64]
    stored: NDArray[np.int64]
    reconsume_times: NDArray[np.int32]
    place: NDArray[np.int64]
    host: Places
    host_length: Places
    body: Places
    body_length: Places
    topic: Places
    topic_length: Places
    texts: Places
    texts_length: Places

    def __len__(self) -> int:
        return len(self.crc)

    def take(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "_Rows":
        return _Rows(*(getattr(self, field.name)[which] for field in fields(self)))


class _RefusedError(Exception):
    """Something is wrong with these bytes."""
