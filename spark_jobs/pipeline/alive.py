"""
Ends a driver whose loop hangs.

The thread that renews the Lease goes on while the loop waits for something that never answers, such
as a JVM that does nothing any more. Nobody would read then, and no other driver could begin. The
loop gives a sign twice a second; one that gives none for very long is taken to hang. A batch that
takes long is no such thing: the loop goes on beside it.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FIRST_SECONDS = 1800.0
"""Until the first sign: Spark may fetch packages before it starts, and a node may be busy."""
LIMIT_SECONDS = 300.0
"""From one sign to the next. The end of a session may take minutes on a busy node."""


class Alive:
    """Waits for signs of one driver's loop."""

    def __init__(
        self,
        end: Callable[[str], object],
        first: float = FIRST_SECONDS,
        limit: float = LIMIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Count from now on. `end` is called, from another thread, when this driver must end."""
        self._end = end
        self._limit = limit
        self._clock = clock
        self._seen_at = clock()
        self._patience = first
        self._over = threading.Event()

    def sign(self) -> None:
        """Note that the loop turns."""
        self._seen_at, self._patience = self._clock(), self._limit

    @property
    def left(self) -> float:
        """Tell how many seconds the loop still has for its next sign."""
        return max(0.0, self._seen_at + self._patience - self._clock())

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch in a thread of its own, until left."""
        threading.Thread(target=self._watch, name="alive", daemon=True).start()
        try:
            yield
        finally:
            self._over.set()

    def _watch(self) -> None:
        while left := self.left:
            if self._over.wait(min(left, self._limit / 10)):  # the first sign leaves less time
                return
        self._end(f"its loop has given no sign of life for {self._patience:g} s")
