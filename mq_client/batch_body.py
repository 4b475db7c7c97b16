"""
Join several messages into one body, as producers send them, and split such a body.

A message is `size 4 | magic 4 | CRC 4 | flag 4 | body length 4 | body | properties length 2 |
properties`, big endian. Magic and CRC are zero and are not used.
"""

import struct
from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from mq_client import errors

MOST_MESSAGES = 32_767
"""A broker counts the messages of one body in a signed 16-bit number."""

_HEAD = Struct(">iiiii")
_PROPERTIES_LENGTH = Struct(">h")
_LEAST = _HEAD.size + _PROPERTIES_LENGTH.size


class BatchPart(NamedTuple):
    """The position of one message in the body."""

    flag: int
    body: int
    body_length: int
    properties: int
    properties_length: int


def encode(messages: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """Join messages, each given by its flag, body and encoded properties."""
    pieces: list[bytes] = []
    for flag, body, properties in messages:
        size = _LEAST + len(body) + len(properties)
        head = _HEAD.pack(size, 0, 0, flag, len(body))
        pieces += (head, body, _PROPERTIES_LENGTH.pack(len(properties)), properties)
    return b"".join(pieces)


def split(data: bytes | memoryview, most: int = MOST_MESSAGES) -> list[BatchPart]:
    """Find the messages. Raise a `ProtocolError` if they are too many or a length is wrong."""
    most = min(most, MOST_MESSAGES)
    found: list[BatchPart] = []
    place = 0
    while place < len(data):
        if len(found) == most:
            raise errors.ProtocolError(f"more than {most:,} messages in one body")
        try:
            part, size = _read_part(data, place)
        except struct.error:
            part, size = None, 0
        if part is None or place + size > len(data):
            raise errors.ProtocolError(f"the body is not a batch: message {len(found)} is broken")
        found.append(part)
        place += size
    return found


def _read_part(data: bytes | memoryview, place: int) -> tuple[BatchPart | None, int]:
    size, _, _, flag, body_length = _HEAD.unpack_from(data, place)
    body = place + _HEAD.size
    if body_length < 0:
        return None, 0
    (length,) = _PROPERTIES_LENGTH.unpack_from(data, body + body_length)
    if not 0 <= length <= size - _LEAST - body_length:
        return None, 0
    properties = body + body_length + _PROPERTIES_LENGTH.size
    return BatchPart(flag, body, body_length, properties, length), size
