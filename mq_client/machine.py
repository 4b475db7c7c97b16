"""The clocks and the source of unique ids that both clients use."""

import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from mq_client.unique_keys import UniqueKeys


def read_clock() -> float:
    """Return the seconds of a clock that never jumps."""
    return time.monotonic()


def read_wall_clock() -> int:
    """Return the time of day in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _make_keys() -> Callable[[], str]:
    """Make a source of message ids. They contain random bytes instead of the host's address."""
    process = os.getpid() & 0xFFFF
    origin = secrets.token_bytes(4) + process.to_bytes(2) + secrets.token_bytes(4)
    return UniqueKeys(origin, read_wall_clock).make


@dataclass(frozen=True, slots=True)
class Machine:
    """Two clocks and a source of ids, which tests replace."""

    now: Callable[[], float] = read_clock
    """A monotonic clock, in seconds."""
    wall_ms: Callable[[], int] = read_wall_clock
    new_key: Callable[[], str] = field(default_factory=_make_keys)
