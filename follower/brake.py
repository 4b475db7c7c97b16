"""Says a lasting trouble once, and then sparingly."""

import logging
import time

SECONDS = 60.0
"""Between two lines about the same trouble."""
MOST_TROUBLES = 1000


class Brake:
    """The troubles that last, by key."""

    def __init__(self, log: logging.Logger) -> None:
        """Say it to this log."""
        self._log = log
        self._since: dict[object, float] = {}
        self._said: dict[object, float] = {}

    def say(self, key: object, text: str) -> None:
        """Say that a trouble is there: at its beginning, and once a minute."""
        now = time.monotonic()
        if key not in self._since and len(self._since) >= MOST_TROUBLES:
            return
        since = self._since.setdefault(key, now)
        if key not in self._said:
            self._log.warning("%s", text)
        elif now - self._said[key] >= SECONDS:
            self._log.warning("%s (for %.0f s now)", text, now - since)
        else:
            return
        self._said[key] = now

    def clear(self, key: object, text: str) -> None:
        """Say that a trouble is over, if it was there."""
        since = self._since.pop(key, None)
        if since is not None:
            del self._said[key]
            self._log.info("%s, after %.1f s", text, time.monotonic() - since)

    def forget(self, key: object) -> None:
        """Note that a trouble does not matter any more."""
        self._since.pop(key, None)
        self._said.pop(key, None)
