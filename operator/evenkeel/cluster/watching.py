"""
What kopf watches for us, and nothing more: it never writes to any object.

Left alone it would copy each object to compare it with what it has written there, and would take
away the finalizer that all operators made with kopf share. And a minute of 403 or 5xx would end a
watch, and all others with it: it asks nine times, and then gives up. Here each watch asks on for
ever, by itself. What else ends one, as garbage does, ends all, and then this process has to end.
"""

import logging
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import kopf

from contract.kinds import parts
from evenkeel.cluster.brake import Brake
from evenkeel.cluster.scopes import WatchedKind
from evenkeel.objects import head

FINALIZER = f"{parts.GROUP}/nothing"
WATCH_SECONDS = 20  # the API server takes whole ones only
"""
A watch ends and goes on where it was: that shows soon whether anybody is there.

Where packets are lost without a word, nothing else does.
"""
SILENT_SECONDS = WATCH_SECONDS + 4.0
"""By then the API server has ended a watch, if it is there."""
REQUEST_SECONDS = 15.0
CONNECT_SECONDS = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 4.0
NUMBER = re.compile(r"[0-9]+")


class ForEver:
    """Pauses between attempts, of which there is no last one; each watch has its own."""

    def __init__(self, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> None:
        """Begin with this pause."""
        self._first = first
        self._longest = longest

    def __iter__(self) -> Iterator[float]:
        """Begin anew."""
        pause = self._first
        while True:
            yield pause * random.uniform(0.8, 1)  # noqa: S311 nothing secret
            pause = min(2 * pause, self._longest)


class Sparing(logging.Filter):
    """Lets through what is new; attempts without end would fill the log."""

    def __init__(self) -> None:
        """Nothing was logged yet."""
        super().__init__()
        self._brake = Brake()

    def filter(self, record: logging.LogRecord) -> bool:
        """Take lines for the same that differ in numbers only."""
        text = NUMBER.sub("", record.getMessage())
        return self._brake.let_through(text, record.created) is not None


def be_patient(settings: kopf.OperatorSettings) -> None:
    """Let no watch end because nobody answers, refuses or is silent."""
    settings.networking.error_backoffs = ForEver()
    settings.networking.request_timeout = REQUEST_SECONDS
    settings.networking.connect_timeout = CONNECT_SECONDS
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.client_timeout = SILENT_SECONDS
    settings.watching.connect_timeout = CONNECT_SECONDS
    for name in ("kopf._cogs.clients.watching", "kopf._core.reactor.observation"):
        found = logging.getLogger(name)
        if not any(isinstance(each, Sparing) for each in found.filters):
            found.addFilter(Sparing())


def keep_hands_off(settings: kopf.OperatorSettings) -> None:
    """Let kopf only tell."""
    settings.posting.enabled = False
    settings.persistence.finalizer = FINALIZER
    settings.persistence.diffbase_storage = _NoDiffs()


class _NoDiffs(kopf.DiffBaseStorage):
    """Keeps nothing, so that there is nothing to compare."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> None:
        """Find nothing."""

    def store(self, **_: Any) -> None:
        """Write nothing."""


def register(kinds: Sequence[WatchedKind]) -> kopf.OperatorRegistry:
    """Make kopf's list of handlers."""
    registry = kopf.OperatorRegistry()
    for kind in kinds:
        _watch(registry, kind)
    return registry


def _watch(registry: kopf.OperatorRegistry, kind: WatchedKind) -> None:
    @kopf.on.event(*kind.resource, registry=registry, id=f"hear-{kind.name}")
    async def hear(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        found = head(body["metadata"])
        if type == "DELETED":
            kind.shelf.drop(found.key, found.uid)
        elif not kind.shelf.take(body):
            return
        kind.changed(found.key)
