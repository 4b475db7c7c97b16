"""Builds messages as a broker stores them, byte for byte, with defaults for most fields."""

import struct
import zlib
from collections.abc import Mapping

import lz4.frame
import zstandard

from mq_client import batch_body, compression, properties, wire
from mq_client.compression import Codec

IPV4_HOST = bytes([10, 0, 0, 7]) + (41234).to_bytes(4)
IPV6_HOST = bytes.fromhex("fe80000000000000000000000000002a") + (41234).to_bytes(4)
BORN_MS, STORED_MS = 1_763_700_000_000, 1_763_700_000_250


def message(
    body: bytes = b"hello",
    *,
    topic: str | bytes = "orders",
    texts: Mapping[str, str] | bytes = b"",
    queue_id: int = 3,
    offset: int = 0,
    place: int = 4096,
    flag: int = 0,
    sys_flag: int = 0,
    born_host: bytes = IPV4_HOST,
    store_host: bytes = IPV4_HOST,
    born_ms: int = BORN_MS,
    stored_ms: int = STORED_MS,
    reconsume_times: int = 0,
    prepared_offset: int = 0,
    crc: int | None = None,
    version: int = 1,
    behind: bytes = b"",
) -> bytes:
    """Write one message. `body` is stored unchanged: compress it if `sys_flag` says so."""
    name = topic.encode() if isinstance(topic, str) else topic
    raw = texts if isinstance(texts, bytes) else properties.encode(texts)
    for host, bit in ((born_host, wire.BORN_V6), (store_host, wire.STORE_V6)):
        sys_flag |= bit if len(host) == len(IPV6_HOST) else 0
    rest = b"".join(
        [
            struct.pack(">I", wire.V1 if version == 1 else wire.V2),
            struct.pack(">I", zlib.crc32(body) & wire.CRC_MASK if crc is None else crc),
            struct.pack(">iiqqiq", queue_id, flag, offset, place, sys_flag, born_ms),
            born_host,
            struct.pack(">q", stored_ms),
            store_host,
            struct.pack(">iqi", reconsume_times, prepared_offset, len(body)),
            body,
            len(name).to_bytes(version),
            name,
            struct.pack(">h", len(raw)),
            raw,
            behind,
        ]
    )
    return struct.pack(">i", len(rest) + 4) + rest


def with_int(data: bytes, place: int, value: int) -> bytes:
    """Write a number at a position in a message."""
    return data[:place] + struct.pack(">i", value) + data[place + 4 :]


def compress(body: bytes, codec: Codec) -> bytes:
    """Compress a body as a producer does."""
    match codec:
        case Codec.LZ4:
            return bytes(lz4.frame.compress(body))
        case Codec.ZSTD:
            return zstandard.ZstdCompressor().compress(body)
        case Codec.ZLIB:
            return zlib.compress(body)


def flag_of(codec: Codec) -> int:
    """Return the bits of sysFlag for this compression."""
    return compression.COMPRESSED | codec.value << 8


def compressed(body: bytes, codec: Codec, **fields: object) -> bytes:
    """Write one message whose body is stored compressed."""
    stored = compress(body, codec)
    return message(stored, sys_flag=flag_of(codec), **fields)  # type: ignore[arg-type]  # passed on


def inner_batch(
    *bodies: bytes, texts: bytes = b"", codec: Codec | None = None, **fields: object
) -> bytes:
    """Write one message that holds others, which the reader takes apart."""
    body = batch_body.encode((number, body, texts) for number, body in enumerate(bodies))
    sys_flag = wire.WRAPPED | (flag_of(codec) if codec else 0)
    stored = compress(body, codec) if codec else body
    return message(stored, sys_flag=sys_flag, **fields)  # type: ignore[arg-type]  # passed on


def _broken() -> dict[str, tuple[bytes, str]]:
    good = message(b"hello", topic="orders", texts=b"a\x01b\x02")
    v2 = message(bytes(20), topic="orders", version=2)
    v6 = message(b"", born_host=IPV6_HOST, store_host=IPV6_HOST)
    short = message(b"", topic="")
    return {
        "cut in its size": (good[:3], "3 bytes at the end are not a message"),
        "cut": (good[:-1], "message at byte 0: 1 bytes are missing"),
        "too long": (good + bytes(2), "2 bytes at the end are not a message"),
        "no size": (with_int(good, wire.SIZE, 0), "message at byte 0: its size is 0"),
        "negative size": (with_int(good, wire.SIZE, -4), "message at byte 0: its size is -4"),
        "magic number": (with_int(good, wire.MAGIC, 1), "byte 0: magic number 0x1 is unknown"),
        "negative body": (
            with_int(good, wire.BODY_LENGTH, -12),
            "lengths -12, 0, 0 do not fit",
        ),
        "body before the answer": (with_int(good, wire.BODY_LENGTH, -99), "is broken"),
        "endless body": (with_int(good, wire.BODY_LENGTH, 0x7FFF_FFFF), "is broken"),
        "body up to the end": (with_int(good, wire.BODY_LENGTH, 18), "is broken"),
        "body almost up to the end": (with_int(good, wire.BODY_LENGTH, 16), "is broken"),
        "endless topic": (good[:93] + b"\xff" + good[94:], "is broken"),
        "topic up to the end": (good[:93] + b"\x0c" + good[94:], "is broken"),
        "negative topic": (v2[:108] + b"\xff\xf8" + v2[110:], "lengths 20, -8, 0 do not"),
        "negative properties": (good[:-6] + b"\xff\xff" + good[-4:], "lengths 5, 6, -1 do not"),
        "endless properties": (good[:-6] + b"\x00\x05" + good[-4:], "lengths 5, 6, 5 do not"),
        "short": (with_int(short, 0, 90)[:-1], "message at byte 0 is broken"),
        "very short": (struct.pack(">iI", 20, wire.V1) + bytes(12), "message at byte 0 is broken"),
        "short for IPv6": (with_int(v6, 0, 92)[:92], "message at byte 0 is broken"),
    }


BROKEN = _broken()
"""Bytes that are no message, named after what is wrong, with the expected error."""


def blank(size: int = 8) -> bytes:
    """Write the blank entry that ends a commit-log file."""
    return struct.pack(">iI", size, wire.BLANK) + bytes(size - 8)
