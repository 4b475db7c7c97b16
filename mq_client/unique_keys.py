"""
Make message ids as producers do. The property UNIQ_KEY contains the id.

Ids have RocketMQ's layout, so its tools can see roughly when a message was sent. An id consists of
these bytes, in hexadecimal: the address (4 bytes), the process's id (2), any bytes (4), the
milliseconds since the month began (4), and a counter (2).
"""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from mq_client import errors

ORIGIN_BYTES = 4 + 2 + 4
_COUNTS = 1 << 16


class UniqueKeys:
    """Makes the ids of one producer. Several threads may use it at once."""

    def __init__(self, origin: bytes, clock_ms: Callable[[], int]) -> None:
        """
        Store an origin that no other producer has, and a clock of milliseconds since 1970.

        The origin is an IPv4 address, the low half of a process id and any 4 bytes, for example
        random ones.
        """
        if len(origin) != ORIGIN_BYTES:
            raise errors.UsageError(f"the origin has {len(origin)} bytes, not {ORIGIN_BYTES}")
        self._origin = origin.hex().upper()
        self._clock_ms = clock_ms
        self._counts = itertools.count()
        self._month = (0, 0)

    def make(self) -> str:
        """Make the next id. Up to 65,536 ids per millisecond are distinct."""
        now = self._clock_ms()
        begin, end = self._month
        if not begin <= now < end:
            begin, end = self._month = _find_month(now)
        return f"{self._origin}{now - begin:08X}{next(self._counts) % _COUNTS:04X}"


def _find_month(now_ms: int) -> tuple[int, int]:
    """Find when the month of this time and the next month begin, in milliseconds."""
    now = datetime.fromtimestamp(now_ms // 1000, UTC)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    end = (begin + timedelta(days=31)).replace(day=1)
    return int(begin.timestamp()) * 1000, int(end.timestamp()) * 1000
