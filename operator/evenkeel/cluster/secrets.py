"""
Caches Secrets for a short time, because reconciles of topics and groups need them often.

The operator does not watch Secrets, because it would need the right to read all of them. So a new
password is used within `KEPT_SECONDS`. Missing Secrets are read again sooner.
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
"""How long an answer is kept if the Secret is missing, forbidden or incomplete."""


@dataclass(frozen=True, slots=True)
class _Read:
    """The answer for one Secret, or the request in flight."""

    answer: asyncio.Task[Document]
    until: float


class Secrets:
    """Secrets that were read recently."""

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without any Secrets."""
        self._api = api
        self._clock = clock
        self._read: dict[Key, _Read] = {}
        self._cleared_at = clock()

    async def get(self, key: Key) -> Document:
        """Read a Secret. Parallel requests for the same Secret share one answer."""
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
