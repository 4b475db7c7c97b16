"""
Makes the ids that producers give to messages: the property UNIQ_KEY, shown to users as message id.

Laid out as RocketMQ's own, so that its tools find out from an id about when a message was sent:
address 4 | process 2 | any 4 | milliseconds since the month began 4 | count 2, in hexadecimal.
"""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from mq_client import errors

ORIGIN_BYTES = 4 + 2 + 4
_COUNTS = 1 << 16


class UniqueKeys:
    """Ids of one producer. They may be made in several threads at once."""

    def __init__(self, origin: bytes, clock_ms: Callable[[], int]) -> None:
        """
        Take what no other producer has, and a clock that tells milliseconds since 1970.

        The origin is an IPv4 address, the low half of a process id and 4 bytes of any kind, random
        for example.
        """
        if len(origin) != ORIGIN_BYTES:
            raise errors.UsageError(f"an origin of {len(origin)} bytes: {ORIGIN_BYTES} are needed")
        self._origin = origin.hex().upper()
        self._clock_ms = clock_ms
        self._counts = itertools.count()
        self._month = (0, 0)

    def make(self) -> str:
        """Make the next one. They are distinct up to 65,536 in a millisecond."""
        now = self._clock_ms()
        begin, end = self._month
        if not begin <= now < end:
            begin, end = self._month = _month(now)
        return f"{self._origin}{now - begin:08X}{next(self._counts) % _COUNTS:04X}"


def _month(now_ms: int) -> tuple[int, int]:
    """Tell where the month of a time begins, and the next one, in milliseconds."""
    now = datetime.fromtimestamp(now_ms // 1000, UTC)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    end = (begin + timedelta(days=31)).replace(day=1)
    return int(begin.timestamp()) * 1000, int(end.timestamp()) * 1000
