"""Logs a lasting problem when it begins, and then once a minute."""

import logging
import time

SECONDS = 60.0
"""Time between two log lines about the same problem."""
MOST_TROUBLES = 1000


class Brake:
    """The current problems, by key."""

    def __init__(self, log: logging.Logger) -> None:
        """Write to this log."""
        self._log = log
        self._since: dict[object, float] = {}
        self._said: dict[object, float] = {}

    def say(self, key: object, text: str) -> None:
        """Log a problem when it begins, and once a minute while it lasts."""
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
        """Log that a problem is over, if it had been logged."""
        since = self._since.pop(key, None)
        if since is not None:
            del self._said[key]
            self._log.info("%s, after %.1f s", text, time.monotonic() - since)

    def forget(self, key: object) -> None:
        """Forget a problem that no longer matters, without a log line."""
        self._since.pop(key, None)
        self._said.pop(key, None)
