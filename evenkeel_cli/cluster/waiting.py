"""Polls a cluster until it shows something."""

import time
from collections.abc import Callable
from typing import TypeVar

from evenkeel.cluster.api.api_errors import AwayError

PAUSE_SECONDS = 0.3
Value = TypeVar("Value")


def poll(look: Callable[[], Value | None], seconds: float) -> Value | None:
    """
    Call `look` until it returns something; return None after a timeout.

    If the API server does not answer, it is asked again.
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
