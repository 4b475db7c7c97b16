"""
Ends a driver whose loop hangs.

The loop may wait for something that never answers, such as a JVM that hangs, while another thread
still renews the Lease. Then nothing is read, and no other driver can start. So the loop calls the
watchdog at each turn, several times a second, and the watchdog ends the driver after a long time
without a call. A long batch does not count as hanging, because the loop continues beside it.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FIRST_SECONDS = 1800.0
"""Limit for the first iteration: Spark may first download packages, and a node may be busy."""
LIMIT_SECONDS = 300.0
"""Limit between two iterations: to stop a session may take minutes on a busy node."""


class LoopWatchdog:
    """Watches one driver's loop."""

    def __init__(
        self,
        end: Callable[[str], object],
        first: float = FIRST_SECONDS,
        limit: float = LIMIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start counting. `end` is called, from another thread, when the driver must end."""
        self._end = end
        self._limit = limit
        self._clock = clock
        self._seen_at = clock()
        self._allowed = first
        self._over = threading.Event()

    def note_turn(self) -> None:
        """Note that the loop has begun an iteration."""
        self._seen_at, self._allowed = self._clock(), self._limit

    @property
    def seconds_left(self) -> float:
        """How many seconds the loop still has to begin its next iteration."""
        return max(0.0, self._seen_at + self._allowed - self._clock())

    @contextmanager
    def run_in_thread(self) -> Iterator[None]:
        """Watch in a separate thread until the block ends."""
        threading.Thread(target=self._watch, name="alive", daemon=True).start()
        try:
            yield
        finally:
            self._over.set()

    def _watch(self) -> None:
        while seconds_left := self.seconds_left:
            pause = min(seconds_left, self._limit / 10)  # the first iteration shortens the limit
            if self._over.wait(pause):
                return
        self._end(f"its loop has begun no turn for {self._allowed:g} s")
