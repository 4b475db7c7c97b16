"""
Assignments that are too long for a status. Pure.

They are cut into ConfigMaps that never change, and the status names those instead. A slice's name
has the epoch in it, and a hash of what it holds: so after a crash there is never one name for two
contents.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from contract.kinds.groups import MOST_ASSIGNED, Assigned, GroupStatus
from contract.names import SLICE
from evenkeel.cluster.manifest import names
from evenkeel.cluster.manifest.names import Document
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key

MOST_BYTES = 512 * 1024
"""Of assignments in a status, and of a slice; etcd takes 1.5 MiB for a whole object."""


def cut(group: ConsumerGroup, status: GroupStatus) -> list[Document]:
    """Make the ConfigMaps for a group's next status; none if it fits."""
    texts = [msgspec.json.encode(each) for each in status.assignments]
    if len(texts) <= MOST_ASSIGNED and sum(map(len, texts)) <= MOST_BYTES:
        return []
    return [_config_map(group, status.epoch, text) for text in _packed(texts)]


def sliced(status: GroupStatus, slices: Iterable[Document]) -> GroupStatus:
    """Let a status name these instead of holding them; without any it stays whole."""
    found = [each["metadata"]["name"] for each in slices]
    kept = [] if found else status.assignments
    return msgspec.structs.replace(status, assignments=kept, slices=found)


def whole(group: ConsumerGroup, find: Callable[[Key], list[Assigned] | None]) -> ConsumerGroup:
    """Bring the slices of a group's status in, if there are any and all are found."""
    if not group.status.slices:
        return group
    assignments: list[Assigned] = []
    for name in group.status.slices:
        found = find(group.beside(name))
        if found is None:
            return group
        assignments += found
    status = msgspec.structs.replace(group.status, assignments=assignments)
    return replace(group, status=status)


def read(body: Mapping[str, Any]) -> list[Assigned] | None:
    """Read a slice; None for all other ConfigMaps."""
    text = (body.get("data") or {}).get(SLICE)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=list[Assigned])
    except msgspec.DecodeError as error:
        name = body["metadata"]["name"]
        raise ManifestError(f"ConfigMap {name}: {SLICE} cannot be read: {error}") from error


def epoch_of(name: str) -> int:
    """Read of which epoch a slice is; 0 for a name that is none of a slice."""
    found = re.search(r"-epoch-(\d+)-[^-]+$", name)
    return int(found[1]) if found else 0


def _packed(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Join as many as one slice takes."""
    some: list[bytes] = []
    for text in texts:
        if some and sum(map(len, some)) + len(text) > MOST_BYTES:
            yield b"[" + b",".join(some) + b"]"
            some = []
        some.append(text)
    yield b"[" + b",".join(some) + b"]"


def _config_map(group: ConsumerGroup, epoch: int, text: bytes) -> Document:
    digest = hashlib.sha256(text).hexdigest()[:8]
    name = f"{group.head.key.name}-epoch-{epoch}-{digest}"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": names.metadata(group, name),
        "immutable": True,
        "data": {SLICE: text.decode()},
    }
