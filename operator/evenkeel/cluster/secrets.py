"""
Caches Secrets for a short time, because each reconcile of a topic or group needs them.

They cannot be watched: that would need the right to read all Secrets. So a new password is used
within `KEPT_SECONDS`, and missing Secrets are read again sooner.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_client import Api, Document
from evenkeel.cluster.api.api_errors import ForbiddenError, NotFoundError
from evenkeel.objects import Key

KEPT_SECONDS = 60.0
MISSING_SECONDS = 5.0
"""For Secrets that are missing, forbidden or incomplete."""


@dataclass(frozen=True, slots=True)
class _Read:
    """An answer, or a request in flight."""

    answer: asyncio.Task[Document]
    until: float


class Secrets:
    """The Secrets that were read recently."""

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        """Read nothing yet."""
        self._api = api
        self._clock = clock
        self._read: dict[Key, _Read] = {}
        self._cleared_at = clock()

    async def get(self, key: Key) -> Document:
        """Read a Secret; requests in parallel share one answer."""
        now = self._clock()
        self._clear(now)
        found = self._read.get(key)
        if found is None or found.until <= now:
            asking = asyncio.create_task(self._api.get(paths.build_path(paths.SECRETS, key)))
            found = self._read[key] = _Read(asking, now + KEPT_SECONDS)
        try:
            return await asyncio.shield(found.answer)
        except (NotFoundError, ForbiddenError):
            self.doubt(key)
            raise
        except BaseException:
            if found.answer.done() and self._read.get(key) is found:
                del self._read[key]
            raise

    def doubt(self, key: Key) -> None:
        """Read a Secret again soon, because its content is unusable."""
        found = self._read.get(key)
        soon = self._clock() + MISSING_SECONDS
        if found is not None and found.until > soon:
            self._read[key] = _Read(found.answer, soon)

    def _clear(self, now: float) -> None:
        """Drop passwords that are no longer used."""
        if now - self._cleared_at < KEPT_SECONDS:
            return
        self._cleared_at = now
        self._read = {key: each for key, each in self._read.items() if each.until > now}
