"""Waits for what RocketMQ shows a little later, without telling when."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_SECONDS = 300.0
"""For what never comes: what comes late on a slow machine is no failure."""
PAUSE_SECONDS = 0.02

Value = TypeVar("Value")


def eventually(
    look: Callable[[], Value],
    is_right: Callable[[Value], bool],
    patience_seconds: float = PATIENCE_SECONDS,
    pause_seconds: float = PAUSE_SECONDS,
) -> Value:
    """Look again and again until it is right; return what is seen then, or last."""
    deadline = time.monotonic() + patience_seconds
    while not is_right(seen := look()) and time.monotonic() < deadline:
        time.sleep(pause_seconds)
    return seen
