"""
The fields of many stored messages, as numpy arrays with one entry per message.

The rules are those of `decoding.decode`, checked for all messages at once. A `CorruptRowsError`
means only that something is wrong; `decode` finds out what and where.
"""

from dataclasses import dataclass, fields

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from mq_client import batch_body, compression, gather, wire
from mq_client.gather import Bytes, Places

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


class CorruptRowsError(Exception):
    """The bytes are not messages, or a message is corrupt."""


@dataclass(slots=True)
class Rows:
    """The fields of all messages. A string is stored as its position and length."""

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
    overhead: Places
    """The size of a message without its stored body."""

    def __len__(self) -> int:
        """Count the messages."""
        return len(self.crc)

    def take(self, which: Places | NDArray[np.bool_]) -> "Rows":
        """Select rows by number or by a mask."""
        return Rows(*(getattr(self, field.name)[which] for field in fields(self)))


def find(data: Bytes, starts: Places) -> Rows:
    """Find all fields of the messages that start at `starts`. Blanks are skipped."""
    ends = np.append(starts, len(data))[1:]
    magic = gather.fetch(data, starts + wire.MAGIC, ">u4")
    is_message = magic != wire.BLANK
    return _find(data, starts[is_message], ends[is_message], magic[is_message])


def _find(data: Bytes, starts: Places, ends: Places, magic: NDArray[np.uint32]) -> Rows:
    # Each check comes before the fetch that relies on it.
    is_v2 = magic == wire.V2
    _require(is_v2 | (magic == wire.V1))
    _require(starts + wire.LEAST <= ends)
    head = gather.fetch(data, starts, _HEAD)
    sys_flag = head["sys_flag"].astype(np.int32)
    born_extra = np.where(sys_flag & wire.BORN_V6, wire.IPV6_EXTRA, 0)
    store_extra = np.where(sys_flag & wire.STORE_V6, wire.IPV6_EXTRA, 0)
    behind = starts + born_extra
    host = behind + wire.STORE_HOST
    behind += store_extra
    _require(behind + wire.LEAST <= ends)
    tail = gather.fetch(data, behind + wire.RECONSUME_TIMES, _TAIL)

    body = behind + wire.BODY
    body_length = tail["body_length"].astype(np.int64)
    topic = body + body_length + 1 + is_v2
    _require((body_length >= 0) & (topic <= ends))
    topic_length = _fetch_topic_lengths(data, topic, is_v2)
    texts = topic + topic_length + 2
    _require((topic_length >= 0) & (texts <= ends))
    texts_length = gather.fetch(data, texts - 2, ">i2").astype(np.int64)
    _require((texts_length >= 0) & (texts + texts_length <= ends))
    return Rows(
        crc=head["crc"].astype(np.uint32),
        queue_id=head["queue_id"].astype(np.int32),
        queue_offset=head["queue_offset"].astype(np.int64),
        flag=head["flag"].astype(np.int32),
        sys_flag=sys_flag,
        born=head["born"].astype(np.int64),
        stored=gather.fetch(data, host - 8, ">i8").astype(np.int64),
        reconsume_times=tail["reconsume_times"].astype(np.int32),
        place=head["place"].astype(np.int64),
        host=host,
        host_length=store_extra + wire.IPV4_HOST,
        body=body,
        body_length=body_length,
        topic=topic,
        topic_length=topic_length,
        texts=texts,
        texts_length=texts_length,
        overhead=ends - starts - body_length,
    )


def _fetch_topic_lengths(data: Bytes, topic: Places, is_v2: NDArray[np.bool_]) -> Places:
    lengths = data[topic - 1].astype(np.int64)
    lengths[is_v2] = gather.fetch(data, topic[is_v2] - 2, ">i2")
    return lengths


def check_crc(data: Bytes, rows: Rows) -> None:
    """Compare the checksums of the stored bodies."""
    view, crc32 = data.data, isal_zlib.crc32
    spans = zip(rows.body.tolist(), (rows.body + rows.body_length).tolist(), strict=True)
    found = [crc32(view[start:end]) for start, end in spans]
    _require(np.array(found, np.uint32) & wire.CRC_MASK == rows.crc)


def expand(data: Bytes, rows: Rows, room: int) -> tuple[Bytes, Rows]:
    """
    Expand compressed bodies and split inner batches, within `room` bytes.

    The new bodies are appended to the data. If there are none, data and rows stay the same.
    """
    is_compressed = rows.sys_flag & compression.COMPRESSED != 0
    if is_compressed.any():
        data, room = _restore(data, rows, np.flatnonzero(is_compressed), room)
    is_wrapped = rows.sys_flag & wire.WRAPPED == wire.WRAPPED
    return data, _unwrap(data, rows, is_wrapped, room) if is_wrapped.any() else rows


def _restore(data: Bytes, rows: Rows, compressed: Places, room: int) -> tuple[Bytes, int]:
    pieces, end = [data], len(data)
    for row in compressed.tolist():
        stored = _view_body(data, rows, row)
        body = compression.restore(stored, int(rows.sys_flag[row]), room)
        room -= len(body)
        rows.body[row], rows.body_length[row] = end, len(body)
        pieces.append(np.frombuffer(body, np.uint8))
        end += len(body)
    return np.concatenate(pieces), room


def _unwrap(data: Bytes, rows: Rows, is_wrapped: NDArray[np.bool_], room: int) -> Rows:
    counts = np.ones(len(rows), np.int64)
    found = []
    for row in np.flatnonzero(is_wrapped).tolist():
        overhead = int(rows.overhead[row])
        parts = batch_body.split(_view_body(data, rows, row), room // overhead)
        room -= len(parts) * overhead
        counts[row] = len(parts)
        found.append(np.array(parts, np.int64).reshape(-1, len(batch_body.BatchPart._fields)))
        found[-1][:, [1, 3]] += rows.body[row]
    inner = np.repeat(is_wrapped, counts)
    number = np.arange(len(inner)) - np.repeat(np.cumsum(counts) - counts, counts)
    opened = rows.take(np.repeat(np.arange(len(rows)), counts))
    base = opened.queue_offset
    opened.queue_offset = base + number
    _require(opened.queue_offset >= base)  # otherwise the offsets overflowed
    (
        opened.flag[inner],
        opened.body[inner],
        opened.body_length[inner],
        opened.texts[inner],
        opened.texts_length[inner],
    ) = np.concatenate(found).T
    return opened


def _view_body(data: Bytes, rows: Rows, row: int) -> memoryview:
    return data[rows.body[row] : rows.body[row] + rows.body_length[row]].data


def _require(good: NDArray[np.bool_]) -> None:
    if not good.all():
        raise CorruptRowsError
