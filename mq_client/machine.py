"""What both clients need of their machine: two clocks, and unique ids."""

import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from mq_client.unique_keys import UniqueKeys


def read_wall_clock() -> int:
    """Return the time of day in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _make_keys() -> Callable[[], str]:
    """Make a source of message ids. Random bytes replace the host's address in RocketMQ's ids."""
    process = os.getpid() & 0xFFFF
    origin = secrets.token_bytes(4) + process.to_bytes(2) + secrets.token_bytes(4)
    return UniqueKeys(origin, read_wall_clock).make


@dataclass(frozen=True, slots=True)
class Machine:
    """Clocks and ids. Tests replace them."""

    now: Callable[[], float] = time.monotonic
    """Monotonic seconds."""
    wall_ms: Callable[[], int] = read_wall_clock
    new_key: Callable[[], str] = field(default_factory=_make_keys)
