"""Waits for changes that become visible only after some time."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_SECONDS = 300.0
"""How long to wait for a change: so long that no test fails on a slow machine."""
PAUSE_SECONDS = 0.02

Value = TypeVar("Value")


def wait_for(
    look: Callable[[], Value],
    is_right: Callable[[Value], bool],
    patience_seconds: float = PATIENCE_SECONDS,
    pause_seconds: float = PAUSE_SECONDS,
) -> Value:
    """Call `look` until `is_right` accepts its value, or time is over; return the last value."""
    deadline = time.monotonic() + patience_seconds
    while not is_right(seen := look()) and time.monotonic() < deadline:
        time.sleep(pause_seconds)
    return seen
