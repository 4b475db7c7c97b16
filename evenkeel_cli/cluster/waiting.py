"""Waits for what a cluster shows a little later."""

import time
from collections.abc import Callable
from typing import TypeVar

from evenkeel_cli.cluster.client import AwayError

PAUSE_SECONDS = 0.3
Value = TypeVar("Value")


def until(look: Callable[[], Value | None], seconds: float) -> Value | None:
    """
    Look until there is something to see; None when the time is over.

    An API server that is away meanwhile is asked again.
    """
    deadline = time.monotonic() + seconds
    while True:
        is_last = time.monotonic() >= deadline
        try:
            if (found := look()) is not None or is_last:
                return found
        except AwayError:
            if is_last:
                raise
        time.sleep(PAUSE_SECONDS)
