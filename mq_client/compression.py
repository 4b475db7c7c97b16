"""
Expands message bodies, as the message's sysFlag says.

Bit 0 says that a body is compressed, bits 8 to 10 how: 1 LZ4 frame, 2 zstd, 3 zlib; 0 is zlib too,
from old clients. A body never expands beyond a limit, whatever its own header claims.
"""

import zlib
from enum import Enum

import lz4.frame
import zstandard

from mq_client import errors

COMPRESSED = 0x1
EXPANDED_MAX = 64 * 1024 * 1024
"""Far above what a broker takes (4 MiB by default), far below what fills a machine."""


class Codec(Enum):
    """How a body is compressed; the value is its place in bits 8 to 10."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


def codec_of(sys_flag: int) -> Codec | None:
    """Read the bits of sysFlag. None: the body is plain."""
    if not sys_flag & COMPRESSED:
        return None
    number = sys_flag >> 8 & 7
    if number > Codec.ZLIB.value:
        raise errors.ProtocolError(f"sysFlag {sys_flag:#x}: compression {number} is unknown")
    return Codec(number or Codec.ZLIB.value)


def restore(body: bytes | memoryview, sys_flag: int, room: int) -> bytes | memoryview:
    """Expand a body to at most `room` bytes if sysFlag says so; else it is returned as it is."""
    codec = codec_of(sys_flag) if len(body) else None  # RocketMQ does not compress what is empty
    return body if codec is None else expand(body, codec, min(room, EXPANDED_MAX))


def expand(body: bytes | memoryview, codec: Codec, limit: int = EXPANDED_MAX) -> bytes:
    """Make a body whole again. A `ProtocolError` if it is broken, or larger than `limit`."""
    try:
        whole, is_complete = _EXPANDERS[codec](body, limit)
    except (zlib.error, RuntimeError, zstandard.ZstdError, ValueError) as error:
        raise errors.ProtocolError(f"the {codec.name} body does not expand: {error}") from error
    if len(whole) > limit:
        raise errors.ProtocolError(f"the {codec.name} body is larger than {limit:,} bytes")
    if not is_complete:
        raise errors.ProtocolError(f"the {codec.name} body ends too early")
    return whole


# Each returns up to `limit` + 1 bytes, and whether the compressed stream came to its end.


def _expand_lz4(body: bytes | memoryview, limit: int) -> tuple[bytes, bool]:
    machine = lz4.frame.LZ4FrameDecompressor()
    whole = machine.decompress(body, max_length=limit + 1)
    return whole, machine.eof


def _expand_zlib(body: bytes | memoryview, limit: int) -> tuple[bytes, bool]:
    machine = zlib.decompressobj()
    return machine.decompress(body, limit + 1), machine.eof


def _expand_zstd(body: bytes | memoryview, limit: int) -> tuple[bytes, bool]:
    # RocketMQ's frames carry no content size, so this must be a stream. A kilobyte holds at most
    # 341 blocks of 128 KiB, so what is made beyond the limit is bounded as well.
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
