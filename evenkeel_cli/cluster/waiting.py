"""Polls a cluster until it is in an expected state."""

import time
from collections.abc import Callable
from typing import TypeVar

from evenkeel.cluster.api.api_errors import AwayError

PAUSE_SECONDS = 0.3
Value = TypeVar("Value")


def poll(look: Callable[[], Value | None], seconds: float) -> Value | None:
    """
    Call `look` until it returns a value other than None. Return None after `seconds`.

    While the API server does not answer, `look` is called again.
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
