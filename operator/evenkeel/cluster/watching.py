"""What kopf watches for us, and nothing more: it never writes to any object."""

from collections.abc import Sequence
from typing import Any

import kopf

from evenkeel.cluster.resync import Kind
from evenkeel.objects import head


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
