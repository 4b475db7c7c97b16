"""
The layout of a stored message in the bytes of a pull's answer.

Numbers are big endian, without padding. The head has a fixed size. Hosts have 8 bytes, or 20 with
IPv6. The lengths of the other fields precede them:

    size 4 | magic 4 | CRC 4 | queue id 4 | flag 4 | queue offset 8 | commit-log offset 8 |
    sysFlag 4 | born timestamp 8 | born host | store timestamp 8 | store host | reconsume times 4 |
    prepared transaction offset 8 | body length 4 | body | topic length 1 or 2 | topic |
    properties length 2 | properties
"""

import struct
from struct import Struct

from isal import isal_zlib

from mq_client import errors

HEAD = Struct(">iIIiiqqiq")
SIZE, MAGIC, CRC, QUEUE_ID, FLAG = 0, 4, 8, 12, 16
QUEUE_OFFSET, COMMIT_LOG_OFFSET, SYS_FLAG, BORN_TIMESTAMP, BORN_HOST = 20, 28, 36, 40, 48

# The positions below are for two IPv4 hosts. Each IPv6 host shifts later fields by 12 bytes.
STORE_TIMESTAMP, STORE_HOST, RECONSUME_TIMES, PREPARED_OFFSET = 56, 64, 72, 76
BODY_LENGTH, BODY = 84, 88
IPV4_HOST, IPV6_EXTRA = 8, 12

V1, V2 = 0xDAA320A7, 0xDAA320AB
"""The magic numbers. In v2 a topic's length has two bytes, so it may exceed 127."""
BLANK = 0xCBD43194
"""The magic number of a blank: the unused end of a commit-log file, not a message."""
LEAST = BODY + 1 + 2
"""Bytes of the shortest message, with empty body, topic and properties."""
LEAST_BLANK = 8

BORN_V6, STORE_V6 = 0x10, 0x20
INNER_BATCH, NEED_UNWRAP = 0x80, 0x40
WRAPPED = INNER_BATCH | NEED_UNWRAP
"""If both bits are set, the body is a batch of messages, which the reader must split."""
CRC_MASK = 0x7FFF_FFFF
MOST_BYTES = 1 << 30
"""
Maximum size of the messages of one answer. Offsets in an Arrow view are signed 32-bit numbers, and
must reach the expanded bodies too.
"""

_SIZE = Struct(">i")


def compute_crc(body: bytes | memoryview) -> int:
    """Compute the checksum of a stored body as RocketMQ does."""
    checksum: int = isal_zlib.crc32(body)  # zlib's function is several times slower
    return checksum & CRC_MASK


def find_starts(data: bytes | bytearray | memoryview) -> list[int]:
    """Find where each message or blank begins. The last one must end where the data ends."""
    if len(data) > MOST_BYTES:
        raise errors.ProtocolError(f"messages of {len(data):,} bytes: at most {MOST_BYTES:,}")
    found = []
    place, end, size_at = 0, len(data), _SIZE.unpack_from
    try:
        while place < end:
            found.append(place)
            (size,) = size_at(data, place)
            if size < LEAST_BLANK:
                raise errors.ProtocolError(
                    f"message at byte {place}: its size is {size}, below {LEAST_BLANK}"
                )
            place += size
    except struct.error:
        raise errors.ProtocolError(f"{end - place} bytes at the end are not a message") from None
    if place > end:
        raise errors.ProtocolError(f"message at byte {found[-1]}: {place - end} bytes are missing")
    return found
