"""
What kopf watches for us, and nothing more: it never writes to any object.

Left alone it would copy each object to compare it with what it has written there, and would take
away the finalizer that all operators made with kopf share.
"""

from collections.abc import Sequence
from typing import Any

import kopf

from evenkeel.api import parts
from evenkeel.cluster.resync import Kind
from evenkeel.objects import head

FINALIZER = f"{parts.GROUP}/nothing"


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


def register(kinds: Sequence[Kind]) -> kopf.OperatorRegistry:
    """Make kopf's list of handlers."""
    registry = kopf.OperatorRegistry()
    for kind in kinds:
        _watch(registry, kind)
    return registry


def _watch(registry: kopf.OperatorRegistry, kind: Kind) -> None:
    @kopf.on.event(*kind.resource, registry=registry, id=f"hear-{kind.name}")
    async def hear(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002
        found = head(body["metadata"])
        if type == "DELETED":
            kind.shelf.drop(found.key, found.uid)
        elif not kind.shelf.take(body):
            return
        kind.changed(found.key)
