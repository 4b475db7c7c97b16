"""
Encode and decode frames of the RocketMQ remoting protocol, without I/O.

A frame is `int32 total | int32 (encoding << 24 | header length) | header | body`, big endian. A
`FrameReader` provides the buffer that a socket reads into, and returns the frames that arrive in
it. A test needs only byte strings.

Headers are JSON, or RocketMQ's binary form if a broker is configured to send it. This client writes
JSON, and the peer answers in JSON.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from mq_client import errors, lenient_json

FRAME_MAX = 16 * 1024 * 1024
"""If a frame is larger, brokers close the connection without an error. So `encode` refuses it."""
ANSWER, ONE_WAY = 1, 2
"""The bits of `flag`."""
VERSION = 493
"""The number of RocketMQ 5.4.0. Name servers answer clients of new versions in standard JSON."""
JSON, BINARY = 0, 1
SCRATCH = 64 * 1024
SPARE_STEP = 1024 * 1024
"""Buffer sizes are rounded up to multiples of this, so that similar frames can reuse a buffer."""
SPARES_MAX = 2 * FRAME_MAX
"""How many bytes of buffers one connection keeps for reuse."""

_LENGTHS = Struct(">II")
_LENGTH = Struct(">I")
_BINARY_HEAD = Struct(">hBhii")
_write_json = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Frame:
    """A request or an answer. An answer has the same `opaque` number as its request."""

    code: int
    opaque: int
    flag: int = 0
    fields: Mapping[str, str] = field(default_factory=dict)
    remark: str | None = None
    body: bytes | memoryview = b""

    @property
    def is_answer(self) -> bool:
        """Whether the frame answers one of our requests."""
        return bool(self.flag & ANSWER)

    @property
    def is_one_way(self) -> bool:
        """Whether the frame is a request that gets no answer."""
        return bool(self.flag & ONE_WAY)


def encode(frame: Frame) -> bytes:
    """Encode a frame, with a JSON header."""
    header: dict[str, Any] = {
        "code": frame.code,
        "language": "PYTHON",
        "version": VERSION,
        "opaque": frame.opaque,
        "flag": frame.flag,
        "extFields": frame.fields,
        "serializeTypeCurrentRPC": "JSON",
    }
    if frame.remark is not None:
        header["remark"] = frame.remark
    data = _write_json(header).encode()
    total = 4 + len(data) + len(frame.body)
    if total > FRAME_MAX:
        raise errors.UsageError(f"a frame of {total:,} bytes: brokers accept at most {FRAME_MAX:,}")
    return b"".join((_LENGTHS.pack(total, len(data)), data, frame.body))


class FrameReader:
    """
    Turns the bytes that a socket reads into frames.

    Small frames share a scratch buffer, so one read may receive many of them. A larger frame is
    read into a buffer of its own. This buffer becomes the frame's body without a copy.
    """

    def __init__(self, limit: int = FRAME_MAX) -> None:
        """Prepare the reader. Frames above `limit` bytes are rejected."""
        self._limit = limit
        self._scratch = memoryview(bytearray(SCRATCH))
        self._start = self._end = 0
        self._large: memoryview | None = None
        self._spares = _Spares()
        self._filled = 0

    def get_space(self) -> memoryview:
        """Return the buffer for the next bytes. It is valid until `accept` is called."""
        if self._large is not None:
            return self._large[self._filled :]
        if self._start:
            unread = bytes(self._scratch[self._start : self._end])
            self._scratch[: len(unread)] = unread
            self._start, self._end = 0, len(unread)
        return self._scratch[self._end :]

    def accept(self, count: int) -> list[Frame]:
        """Read `count` new bytes, and return the frames that they complete."""
        if self._large is not None:
            self._filled += count
            if self._filled < len(self._large):
                return []
            whole, self._large = self._large, None
            return [parse(whole)]
        self._end += count
        return list(iter(self._take_small, None))

    def _take_small(self) -> Frame | None:
        unread = self._end - self._start
        if unread < _LENGTH.size:
            return None
        (total,) = _LENGTH.unpack_from(self._scratch, self._start)
        if not _LENGTH.size <= total <= self._limit:
            raise errors.ProtocolError(
                f"the peer announced a frame of {total:,} bytes, not 4 to {self._limit:,}; "
                "is this the port of a RocketMQ broker or name server?"
            )
        begin = self._start + _LENGTH.size
        if unread - _LENGTH.size >= total:
            self._start = begin + total
            return parse(memoryview(bytes(self._scratch[begin : self._start])))
        if total > SCRATCH - _LENGTH.size:
            self._large = self._spares.take(total)
            self._filled = self._end - begin
            self._large[: self._filled] = self._scratch[begin : self._end]
            self._start = self._end = 0
        return None


class _Spares:
    """
    Buffers of large frames that can be reused.

    Allocating and clearing a new buffer takes as long as receiving data into it.
    """

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        """Return a buffer that no view uses. Create one if necessary."""
        for buffer in self._buffers:
            if len(buffer) >= size and _is_free(buffer):
                return memoryview(buffer)[:size]
        buffer = bytearray(-(-size // SPARE_STEP) * SPARE_STEP)
        self._buffers.append(buffer)
        while sum(map(len, self._buffers)) > SPARES_MAX:
            del self._buffers[0]  # its views keep it alive
        return memoryview(buffer)[:size]


def _is_free(buffer: bytearray) -> bool:
    """Whether no view of the buffer exists. While there is a view, a buffer cannot be resized."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True


def parse(data: memoryview) -> Frame:
    """Decode a frame. `data` starts after the total length."""
    (word,) = _LENGTH.unpack_from(data)
    encoding, length = word >> 24, word & 0xFF_FFFF
    end = _LENGTH.size + length
    if end > len(data):
        raise errors.ProtocolError(
            f"a header of {length:,} bytes in a frame of {len(data):,}: the frame is broken"
        )
    header = data[_LENGTH.size : end]
    if encoding == JSON:
        return _read_json(header, data[end:])
    if encoding == BINARY:
        return _read_binary(header, data[end:])
    raise errors.ProtocolError(f"header encoding {encoding} is unknown: 0 is JSON, 1 is binary")


def _read_json(data: memoryview, body: memoryview) -> Frame:
    header = lenient_json.parse(data)
    if not isinstance(header, dict):
        raise errors.ProtocolError("the header is not a JSON object")
    numbers = [header.get(name, 0) for name in ("code", "opaque", "flag")]
    if not all(type(number) is int for number in numbers):
        raise errors.ProtocolError(f"code, opaque and flag {numbers} are not all whole numbers")
    remark = header.get("remark")
    fields = header.get("extFields") or {}
    if not isinstance(fields, dict):
        raise errors.ProtocolError("extFields is not a JSON object")
    code, opaque, flag = numbers
    texts = {str(name): to_text(value) for name, value in fields.items() if value is not None}
    return Frame(code, opaque, flag, texts, None if remark is None else str(remark), body)


def to_text(value: object) -> str:
    """Convert a field, which may be a number or a boolean, to a string as Java does."""
    if isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_binary(data: memoryview, body: memoryview) -> Frame:
    try:
        code, _language, _version, opaque, flag = _BINARY_HEAD.unpack_from(data)
        remark, place = _read_text(data, _BINARY_HEAD.size, ">I")
        (size,) = _LENGTH.unpack_from(data, place)
        fields = dict(_read_pairs(data, place + _LENGTH.size, size))
    except (struct.error, UnicodeDecodeError) as error:
        raise errors.ProtocolError(f"a broken binary header: {error}") from error
    return Frame(code, opaque, flag, fields, remark or None, body)


def _read_pairs(data: memoryview, place: int, size: int) -> Iterator[tuple[str, str]]:
    end = place + size
    while place < end:
        name, place = _read_text(data, place, ">H")
        value, place = _read_text(data, place, ">I")
        yield name, value


def _read_text(data: memoryview, place: int, length: str) -> tuple[str, int]:
    prefix = Struct(length)
    (size,) = prefix.unpack_from(data, place)
    begin = place + prefix.size
    if begin + size > len(data):
        raise errors.ProtocolError(f"a binary header ends within a string of {size:,} bytes")
    return str(data[begin : begin + size], "utf-8"), begin + size
