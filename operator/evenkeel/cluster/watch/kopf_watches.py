"""
Watches objects with kopf, which is configured to never write to them.

By default kopf compares each object with a copy that it stores in an annotation, and removes the
finalizer that all kopf operators share. It also gives up after nine attempts, so a minute of 403 or
5xx answers would end a watch, and with it all other watches. Here each watch retries for ever.
Other errors, such as an invalid answer, still end all watches, and then this process must end.
"""

import logging
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import kopf

from contract.kinds import parts
from evenkeel.cluster.rate_limiter import RateLimiter
from evenkeel.cluster.watch.scopes import WatchedKind
from evenkeel.objects import read_head

FINALIZER = f"{parts.GROUP}/nothing"
WATCH_SECONDS = 20  # the API server accepts only whole seconds
"""
How long one watch request lasts before it is renewed.

Because the time is short, the process soon notices that a connection silently loses packets.
"""
SILENT_SECONDS = WATCH_SECONDS + 4.0
"""If a watch request lasts longer than this, the API server does not answer."""
REQUEST_SECONDS = 15.0
CONNECT_SECONDS = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 4.0
NUMBER = re.compile(r"[0-9]+")


class EndlessPauses:
    """Endless growing pauses between attempts. Each watch has its own iterator."""

    def __init__(self, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> None:
        """Set the first and the longest pause."""
        self._first = first
        self._longest = longest

    def __iter__(self) -> Iterator[float]:
        """Begin with the first pause."""
        pause = self._first
        while True:
            yield pause * random.uniform(0.8, 1)  # noqa: S311 nothing secret
            pause = min(2 * pause, self._longest)


class RepeatFilter(logging.Filter):
    """Suppresses repeated log lines: endless retries would fill the log."""

    def __init__(self) -> None:
        """Begin without any lines."""
        super().__init__()
        self._brake = RateLimiter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Suppress a line that repeats too often. Differences in numbers do not count."""
        text = NUMBER.sub("", record.getMessage())
        return self._brake.let_through(text, record.created) is not None


def be_patient(settings: kopf.OperatorSettings) -> None:
    """Make watches retry for ever after errors, refusals and timeouts."""
    settings.networking.error_backoffs = EndlessPauses()
    settings.networking.request_timeout = REQUEST_SECONDS
    settings.networking.connect_timeout = CONNECT_SECONDS
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.client_timeout = SILENT_SECONDS
    settings.watching.connect_timeout = CONNECT_SECONDS
    for name in ("kopf._cogs.clients.watching", "kopf._core.reactor.observation"):
        found = logging.getLogger(name)
        if not any(isinstance(each, RepeatFilter) for each in found.filters):
            found.addFilter(RepeatFilter())


def keep_hands_off(settings: kopf.OperatorSettings) -> None:
    """Make kopf write nothing."""
    settings.posting.enabled = False
    settings.persistence.finalizer = FINALIZER
    settings.persistence.diffbase_storage = _NoDiffs()


class _NoDiffs(kopf.DiffBaseStorage):
    """Stores no copies of objects, so kopf compares nothing."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> None:
        """Return no copy."""

    def store(self, **_: Any) -> None:
        """Write nothing."""


def register(kinds: Sequence[WatchedKind]) -> kopf.OperatorRegistry:
    """Register kopf's handlers."""
    registry = kopf.OperatorRegistry()
    for kind in kinds:
        _watch(registry, kind)
    return registry


def _watch(registry: kopf.OperatorRegistry, kind: WatchedKind) -> None:
    @kopf.on.event(*kind.resource, registry=registry, id=f"hear-{kind.name}")
    async def hear(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        found = read_head(body["metadata"])
        if type == "DELETED":
            kind.cache.drop(found.key, found.uid)
        elif not kind.cache.take(body):
            return
        kind.changed(found.key)
