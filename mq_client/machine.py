"""What both clients ask of the machine they run on: two clocks, and ids that nobody else makes."""

import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from mq_client.unique_keys import UniqueKeys


def wall_ms() -> int:
    """Tell the time that people read, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _new_keys() -> Callable[[], str]:
    """Make ids of messages. RocketMQ's hold the host's address; random bytes say less, and do."""
    process = os.getpid() & 0xFFFF
    origin = secrets.token_bytes(4) + process.to_bytes(2) + secrets.token_bytes(4)
    return UniqueKeys(origin, wall_ms).make


@dataclass(frozen=True, slots=True)
class Machine:
    """The means; a test gives its own."""

    now: Callable[[], float] = time.monotonic
    """Seconds, never going back."""
    wall_ms: Callable[[], int] = wall_ms
    new_key: Callable[[], str] = field(default_factory=_new_keys)
