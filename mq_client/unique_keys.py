"""
Makes the ids that producers give to messages: the property UNIQ_KEY, shown to users as message id.

Laid out as RocketMQ's own, so that its tools find out from an id about when a message was sent:
address 4 | process 2 | any 4 | milliseconds since the month began 4 | count 2, in hexadecimal.
"""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime

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

    def make(self) -> str:
        """Make the next one. They are distinct up to 65,536 in a millisecond."""
        now = self._clock_ms()
        count = next(self._counts) % _COUNTS
        return f"{self._origin}{now - _month_start_ms(now):08X}{count:04X}"


def _month_start_ms(now_ms: int) -> int:
    now = datetime.fromtimestamp(now_ms // 1000, UTC)
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return int(month.timestamp()) * 1000
