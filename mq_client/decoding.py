"""
Read the messages of a pull's answer as values, one object per message.

`columns.read` does the same for many messages at once. Whatever the bytes are, the result is
messages or a `ProtocolError`.
"""

import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from struct import Struct

from mq_client import batch_body, compression, errors, properties, wire
from mq_client.filters import EVERYTHING, Filter
from mq_client.messages import StoredMessage, Unreadable

EXPANDED_MAX = 256 * 1024 * 1024
"""
Limit of one expanded answer: 16 times the largest answer. The limit counts expanded bodies and, for
each message of an inner batch, the fields that are copied from the outer message.
"""
OFFSET_MAX = (1 << 63) - 1
_SPECIAL = compression.COMPRESSED | wire.WRAPPED
"""The bits of messages whose bodies must be expanded or split."""

_UINT8, _INT16, _UINT32, _INT64 = Struct(">B"), Struct(">h"), Struct(">I"), Struct(">q")
_RESTS = {
    0: Struct(">8sq8siqi"),
    wire.BORN_V6: Struct(">20sq8siqi"),
    wire.STORE_V6: Struct(">8sq20siqi"),
    wire.BORN_V6 | wire.STORE_V6: Struct(">20sq20siqi"),
}
"""The layout of the fields between head and body. The key tells which hosts are IPv6."""


def decode(
    data: bytes | bytearray | memoryview,
    broker: str,
    *,
    check_crc: bool = True,
    expanded_max: int = EXPANDED_MAX,
) -> Iterator[StoredMessage]:
    """
    Yield the messages of a pull's answer.

    If a queue stores batches, the broker returns the whole batch that contains the requested
    offset, so the first messages may have lower offsets. Raises `ProtocolError` if the bytes are
    not messages, and `CorruptMessageError` if a checksum is wrong or a body cannot be expanded.
    """
    whole = bytes(data)  # slicing bytes takes half as long as slicing other buffers
    room = expanded_max
    for start, end in pairwise([*wire.find_starts(whole), len(whole)]):
        stored = _read_stored(whole, start, end, broker, check_crc)
        if stored is None:
            continue
        if not stored.sys_flag & _SPECIAL:
            yield stored
            continue
        outer = _expand(stored, room)
        room -= len(outer.body) if outer is not stored else 0
        if outer.sys_flag & wire.WRAPPED != wire.WRAPPED:
            yield outer
            continue
        overhead = end - start - len(stored.body)
        parts = _split_batch(outer, room // overhead)
        room -= len(parts) * overhead
        yield from (_make_inner(outer, part, place) for place, part in enumerate(parts))


def drop_unreadable(
    data: bytes | bytearray | memoryview,
    broker: str,
    unreadable: list[Unreadable],
    *,
    first: int | None = None,
    stop: int | None = None,
    wanted: Filter = EVERYTHING,
    check_crc: bool = True,
    expanded_max: int = EXPANDED_MAX,
) -> bytes:
    """
    Return the data without the messages that cannot be read, and add these to `unreadable`.

    A message that cannot be read is not added if it lies before `first` or from `stop` on, or has
    an unwanted tag. The tags in a broken batch are unknown, so the batch is added whatever tags are
    wanted.
    """
    view = memoryview(data).cast("B")
    whole: list[memoryview] = []
    begun = [*wire.find_starts(view), len(view)]
    for start, end in pairwise(begun):
        record = view[start:end]
        try:
            list(decode(record, broker, check_crc=check_crc, expanded_max=expanded_max))
        except errors.CorruptMessageError as error:
            found = _make_unreadable(record, broker, error.complaint, view[end:], stop)
            is_asked_for = (stop is None or found.first < stop) and found.stop > (first or 0)
            if is_asked_for and (found.is_batch or wanted.matches(found.message.tags)):
                unreadable.append(found)
        else:
            whole.append(record)
    return b"".join(whole)


def read_store_time(data: bytes) -> int:
    """Read when a single message was stored, in Unix milliseconds, whatever its body is."""
    starts = wire.find_starts(data)
    found = _read_stored(data, starts[0], len(data), "", check_crc=False) if starts else None
    if found is None:
        raise errors.ProtocolError("the answer has no message")
    return found.store_timestamp_ms


def _make_unreadable(
    record: memoryview, broker: str, reason: str, following: memoryview, stop: int | None
) -> Unreadable:
    message, _ = _parse(bytes(record), 0, len(record), broker)
    found = Unreadable(message, reason, message.queue_offset + 1)
    if not found.is_batch:
        return found
    if len(following) >= wire.LEAST:
        (stop,) = _INT64.unpack_from(following, wire.QUEUE_OFFSET)
    return replace(found, stop=max(found.stop, stop or 0))


def _read_stored(
    data: bytes, start: int, end: int, broker: str, check_crc: bool
) -> StoredMessage | None:
    """Read a message without expanding its body. Return None if it is a blank."""
    (magic,) = _UINT32.unpack_from(data, start + wire.MAGIC)
    if magic == wire.BLANK:
        return None
    if magic not in (wire.V1, wire.V2):
        raise errors.ProtocolError(f"message at byte {start}: magic number {magic:#x} is unknown")
    try:
        message, crc = _parse(data, start, end, broker)
    except struct.error as error:
        raise errors.ProtocolError(f"message at byte {start} is broken: {error}") from error
    if check_crc and (found := wire.compute_crc(message.body)) != crc:
        raise _make_corrupt_error(message, f"the checksum of its body is {found:#x}, not {crc:#x}")
    return message


def _parse(data: bytes, start: int, end: int, broker: str) -> tuple[StoredMessage, int]:
    """Read the message between `start` and `end`, which count from the beginning of `data`."""
    _, magic, crc, queue_id, flag, offset, place, sys_flag, born_ms = wire.HEAD.unpack_from(
        data, start
    )
    length = _UINT8 if magic == wire.V1 else _INT16
    rest = _RESTS[sys_flag & (wire.BORN_V6 | wire.STORE_V6)]
    behind = start + wire.HEAD.size
    born, stored_ms, store, times, prepared, body_length = rest.unpack_from(data, behind)
    body = behind + rest.size
    topic = body + body_length + length.size
    (topic_length,) = length.unpack_from(data, topic - length.size)
    texts = topic + topic_length + _INT16.size
    (texts_length,) = _INT16.unpack_from(data, texts - _INT16.size)
    # The lengths are checked last, because only the reads above find them. If a length is wrong,
    # these reads succeed, but read from a wrong position.
    if body_length < 0 or topic_length < 0 or texts_length < 0 or texts + texts_length > end:
        raise struct.error(f"lengths {body_length}, {topic_length}, {texts_length} do not fit")
    # Keyword arguments would take a fifth of the time for a message.
    message = StoredMessage(
        data[topic : topic + topic_length].decode("utf-8", "replace"),
        broker,
        queue_id,
        offset,
        data[body : body + body_length],
        properties.parse(data[texts : texts + texts_length]),
        flag,
        sys_flag,
        born_ms,
        born,
        stored_ms,
        store,
        times,
        prepared,
        place,
    )
    return message, crc


def _expand(stored: StoredMessage, room: int) -> StoredMessage:
    """Expand the body, to at most `room` bytes. Without compression, return the same object."""
    try:
        body = bytes(compression.restore(stored.body, stored.sys_flag, room))
    except errors.ProtocolError as error:
        raise _make_corrupt_error(stored, str(error)) from error
    return stored if body is stored.body else stored._replace(body=body)


def _split_batch(outer: StoredMessage, most: int) -> list[batch_body.BatchPart]:
    """Split an inner batch into its messages, at most `most`."""
    try:
        parts = batch_body.split(outer.body, most)
    except errors.ProtocolError as error:
        raise _make_corrupt_error(outer, str(error)) from error
    if outer.queue_offset + len(parts) - 1 > OFFSET_MAX:
        raise _make_corrupt_error(
            outer, f"it has {len(parts)} messages, more than there are offsets left"
        )
    return parts


def _make_inner(outer: StoredMessage, part: batch_body.BatchPart, place: int) -> StoredMessage:
    """Make one message of an inner batch. Messages of a batch have consecutive offsets."""
    texts = outer.body[part.properties : part.properties + part.properties_length]
    return outer._replace(
        queue_offset=outer.queue_offset + place,
        flag=part.flag,
        body=outer.body[part.body : part.body + part.body_length],
        properties=properties.parse(texts),
    )


def _make_corrupt_error(message: StoredMessage, complaint: str) -> errors.CorruptMessageError:
    return errors.CorruptMessageError(
        complaint, message.topic, message.queue_id, message.queue_offset
    )
