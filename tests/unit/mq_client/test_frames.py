"""However a stream is cut, it gives the same frames; invalid bytes are refused."""

import json
import random
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq_client import errors, frames
from mq_client.frames import Frame, FrameReader


def read(data: bytes, cuts: list[int], reader: FrameReader | None = None) -> list[Frame]:
    """Feed a stream in pieces. A piece is no longer than its cut and the space of the buffer."""
    reader = reader or FrameReader()
    found = []
    place = 0
    while place < len(data):
        space = reader.get_space()
        size = min(len(space), max(1, cuts.pop() if cuts else len(data)), len(data) - place)
        space[:size] = data[place : place + size]
        found += reader.accept(size)
        place += size
    return found


def plain(frame: Frame) -> tuple[object, ...]:
    fields = dict(frame.fields)
    return frame.code, frame.opaque, frame.flag, fields, frame.remark, bytes(frame.body)


FRAMES = [
    Frame(0, 1, frames.ANSWER, {}, None, b""),
    Frame(11, 2, 0, {"topic": "ünïcode", "queueId": "3"}, None, b"x" * 10),
    Frame(1, 3, frames.ANSWER, {}, "went wrong", b""),
    Frame(0, 4, frames.ANSWER, {"offset": "7"}, None, bytes(range(256)) * 300),
    Frame(40, 5, frames.ONE_WAY, {"consumerGroup": "g"}, None, b""),
]


@given(st.lists(st.integers(1, 40_000)))
def test_any_cut_of_a_stream_gives_the_same_frames(cuts: list[int]) -> None:
    stream = b"".join(map(frames.encode, FRAMES))
    assert [plain(frame) for frame in read(stream, cuts)] == [plain(frame) for frame in FRAMES]


def test_a_large_body_is_the_buffer_that_the_socket_filled() -> None:
    """The body is not copied: it lies in the memory that `get_space` returned."""
    data = frames.encode(Frame(0, 1, frames.ANSWER, body=b"z" * 1_000_000))
    reader = FrameReader()
    space = reader.get_space()
    space[:] = data[: len(space)]
    assert reader.accept(len(space)) == []
    rest = reader.get_space()
    rest[:] = data[len(space) :]
    (frame,) = reader.accept(len(rest))
    rest[-1] = ord("!")
    assert bytes(frame.body[-2:]) == b"z!"


def large(byte: int) -> bytes:
    return frames.encode(Frame(0, byte, frames.ANSWER, body=bytes([byte]) * 1_000_000))


def test_the_buffer_of_a_large_body_serves_again_when_nobody_looks_at_it() -> None:
    reader = FrameReader()
    (first,) = read(large(1), [], reader)
    assert isinstance(first.body, memoryview)
    buffer = first.body.obj
    del first
    (second,) = read(large(2), [], reader)
    assert isinstance(second.body, memoryview)
    assert second.body.obj is buffer


def test_a_part_of_a_large_body_survives_the_frames_that_follow() -> None:
    reader = FrameReader()
    (frame,) = read(large(1), [], reader)
    part = memoryview(frame.body)[500_000:500_009]
    del frame
    for byte in (2, 3):
        read(large(byte), [], reader)
    assert bytes(part) == b"\1" * 9


def test_what_a_reader_keeps_is_bounded() -> None:
    reader = FrameReader()
    tracemalloc.start()
    held = [read(large(1), [], reader) for _ in range(60)]
    assert sum(len(found) for found in held) == 60
    del held
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < frames.SPARES_MAX + 2_000_000


def test_a_small_body_survives_the_next_read() -> None:
    first, second = (frames.encode(Frame(0, n, 1, body=bytes([n]) * 99)) for n in (1, 2))
    reader = FrameReader()
    (frame,) = read(first, [], reader)
    read(second, [], reader)
    assert bytes(frame.body) == b"\1" * 99


@pytest.mark.parametrize("total", [0, 3, frames.FRAME_MAX + 1, 0x7FFF_FFFF, 0xFFFF_FFFF])
def test_a_length_that_cannot_be_is_refused_before_memory_is_taken(total: int) -> None:
    with pytest.raises(errors.ProtocolError, match="announced"):
        read(struct.pack(">I", total), [])


def test_a_web_server_is_told_from_a_broker() -> None:
    with pytest.raises(errors.ProtocolError, match="is this the port of a RocketMQ broker"):
        read(b"HTTP/1.1 400 Bad Request\r\n\r\n", [])


def test_a_header_longer_than_its_frame_is_refused() -> None:
    with pytest.raises(errors.ProtocolError, match="the frame is broken"):
        read(struct.pack(">II", 10, 100) + b"{}    ", [])


def test_an_unknown_header_encoding_is_refused() -> None:
    with pytest.raises(errors.ProtocolError, match="encoding 7"):
        read(struct.pack(">II", 6, 7 << 24 | 2) + b"{}", [])


def with_header(header: bytes) -> bytes:
    return struct.pack(">II", 4 + len(header), len(header)) + header


NO_HEADERS = [b"", b"[]", b"nonsense", b"\xff\xfe", b'{"code":0,"extFields":[1]}']
NO_CODES = [b'{"code":"x"}', b'{"code":1.5}', b'{"code":true}']
TOO_DEEP = [b"{" * 100_000, b'{"a":' * 2000]


@pytest.mark.parametrize("header", [*NO_HEADERS, *NO_CODES, *TOO_DEEP], ids=range(10))
def test_a_header_that_is_none_is_refused(header: bytes) -> None:
    with pytest.raises(errors.ProtocolError):
        read(with_header(header), [])


def test_fields_become_text_whatever_json_they_were() -> None:
    header = json.dumps({"code": 0, "extFields": {"a": 1, "b": True, "c": None, "d": "x"}})
    (frame,) = read(with_header(header.encode()), [])
    assert frame.fields == {"a": "1", "b": "true", "d": "x"}


def test_a_frame_that_a_broker_would_not_take_is_refused_before_it_is_sent() -> None:
    with pytest.raises(errors.UsageError, match="16,777,216"):
        frames.encode(Frame(310, 1, body=b"x" * frames.FRAME_MAX))


def binary_header(fields: dict[str, str], remark: str) -> bytes:
    pairs = b"".join(
        struct.pack(f">H{len(k)}sI{len(v)}s", len(k), k.encode(), len(v), v.encode())
        for k, v in fields.items()
    )
    head = struct.pack(">hBhii", 40, 0, 493, 9, 2)
    text = remark.encode()
    return head + struct.pack(">I", len(text)) + text + struct.pack(">I", len(pairs)) + pairs


def test_a_binary_header_is_read_as_well() -> None:
    header = binary_header({"consumerGroup": "g", "x": ""}, "why")
    data = struct.pack(">II", 4 + len(header) + 3, 1 << 24 | len(header)) + header + b"abc"
    (frame,) = read(data, [])
    assert plain(frame) == (40, 9, 2, {"consumerGroup": "g", "x": ""}, "why", b"abc")


def test_bytes_of_any_kind_give_frames_or_a_protocol_error(rng: random.Random) -> None:
    """The test flips, cuts or inserts bytes in a valid stream."""
    stream = b"".join(map(frames.encode, [*FRAMES[:3], FRAMES[4]]))
    header = binary_header({"consumerGroup": "g"}, "why")
    stream += struct.pack(">II", 4 + len(header), 1 << 24 | len(header)) + header
    refused = 0
    for _ in range(30_000):
        data = bytearray(stream)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(data))
            data[place : place + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 2))
        try:
            read(bytes(data), [], FrameReader(limit=100_000))
        except errors.ProtocolError:
            refused += 1
    assert 3_000 < refused < 30_000
