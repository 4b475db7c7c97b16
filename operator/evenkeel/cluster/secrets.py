"""
Secrets, read again only after a while: each look at a topic or group asks for them.

They cannot be watched, for that would need the right to read all Secrets. So a new password is
followed within `KEPT_SECONDS`, and what is missing is looked for again sooner.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from evenkeel.cluster import paths
from evenkeel.cluster.api import Api, Document, ForbiddenError, GoneError
from evenkeel.objects import Key

KEPT_SECONDS = 60.0
MISSING_SECONDS = 5.0
"""What is not there, may not be read or is incomplete."""


@dataclass(frozen=True, slots=True)
class _Read:
    """What was answered, or is about to be."""

    answer: asyncio.Task[Document]
    until: float


class Secrets:
    """Those that were read a short while ago."""

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        """Read nothing yet."""
        self._api = api
        self._clock = clock
        self._read: dict[Key, _Read] = {}
        self._cleared_at = clock()

    async def get(self, key: Key) -> Document:
        """Read a Secret; whoever asks meanwhile gets the same answer."""
        now = self._clock()
        self._clear(now)
        found = self._read.get(key)
        if found is None or found.until <= now:
            asking = asyncio.create_task(self._api.get(paths.one(paths.SECRETS, key)))
            found = self._read[key] = _Read(asking, now + KEPT_SECONDS)
        try:
            return await asyncio.shield(found.answer)
        except (GoneError, ForbiddenError):
            self.doubt(key)
            raise
        except BaseException:
            if found.answer.done() and self._read.get(key) is found:
                del self._read[key]
            raise

    def doubt(self, key: Key) -> None:
        """Read it again soon: what it holds is of no use."""
        found = self._read.get(key)
        soon = self._clock() + MISSING_SECONDS
        if found is not None and found.until > soon:
            self._read[key] = _Read(found.answer, soon)

    def _clear(self, now: float) -> None:
        """Keep no password that nobody asks for any more."""
        if now - self._cleared_at < KEPT_SECONDS:
            return
        self._cleared_at = now
        self._read = {key: each for key, each in self._read.items() if each.until > now}
