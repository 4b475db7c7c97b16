"""
Expand compressed message bodies. The message's sysFlag tells how.

Bit 0 means that a body is compressed. Bits 8 to 10 tell how: 1 is an LZ4 frame, 2 is zstd, 3 is
zlib, and 0 is zlib from old clients. A body never expands beyond a limit, whatever size its header
claims.
"""

import zlib
from enum import Enum

import lz4.frame
import zstandard

from mq_client import errors

COMPRESSED = 0x1
EXPANDED_MAX = 64 * 1024 * 1024
"""Limit of an expanded body: far above a broker's limit (4 MiB by default)."""


class Codec(Enum):
    """How a body is compressed. The value is the number in bits 8 to 10."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


def find_codec(sys_flag: int) -> Codec | None:
    """Find the compression in sysFlag. None: the body is not compressed."""
    if not sys_flag & COMPRESSED:
        return None
    number = sys_flag >> 8 & 7
    if number > Codec.ZLIB.value:
        raise errors.ProtocolError(f"sysFlag {sys_flag:#x}: compression {number} is unknown")
    return Codec(number or Codec.ZLIB.value)


def restore(body: bytes | memoryview, sys_flag: int, room: int) -> bytes | memoryview:
    """Expand a body to at most `room` bytes. A body that is not compressed is returned as it is."""
    codec = find_codec(sys_flag) if len(body) else None  # RocketMQ does not compress empty bodies
    return body if codec is None else expand(body, codec, min(room, EXPANDED_MAX))


def expand(body: bytes | memoryview, codec: Codec, limit: int = EXPANDED_MAX) -> bytes:
    """Expand a body. `ProtocolError`: the body is broken, or larger than `limit`."""
    try:
        whole, is_complete = _EXPANDERS[codec](body, limit)
    except (zlib.error, RuntimeError, zstandard.ZstdError, ValueError) as error:
        raise errors.ProtocolError(f"the {codec.name} body does not expand: {error}") from error
    if len(whole) > limit:
        raise errors.ProtocolError(f"the {codec.name} body is larger than {limit:,} bytes")
    if not is_complete:
        raise errors.ProtocolError(f"the {codec.name} body ends too early")
    return whole


# Each function returns up to `limit` + 1 bytes, and whether the compressed stream is complete.


def _expand_lz4(body: bytes | memoryview, limit: int) -> tuple[bytes, bool]:
    machine = lz4.frame.LZ4FrameDecompressor()
    whole = machine.decompress(body, max_length=limit + 1)
    return whole, machine.eof


def _expand_zlib(body: bytes | memoryview, limit: int) -> tuple[bytes, bool]:
    machine = zlib.decompressobj()
    return machine.decompress(body, limit + 1), machine.eof


def _expand_zstd(body: bytes | memoryview, limit: int) -> tuple[bytes, bool]:
    # RocketMQ's frames have no content size, so they are decompressed as a stream, one kilobyte at
    # a time. A kilobyte contains at most 341 blocks, which expand to at most 128 KiB each. So the
    # memory used beyond the limit is bounded.
    machine = zstandard.ZstdDecompressor(max_window_size=EXPANDED_MAX).decompressobj()
    view = memoryview(body)
    parts = []
    size = 0
    for start in range(0, len(view), 1024):
        if machine.eof or size > limit:
            break
        parts.append(machine.decompress(view[start : start + 1024]))
        size += len(parts[-1])
    return b"".join(parts), machine.eof


_EXPANDERS = {Codec.LZ4: _expand_lz4, Codec.ZLIB: _expand_zlib, Codec.ZSTD: _expand_zstd}
