"""
Splits assignments that are too long for a status into ConfigMaps. Pure.

The status then names these ConfigMaps, which are called slices. A slice never changes. Its name
contains the epoch and a hash of its content, so that two contents never have the same name, even
after a crash.
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
"""Limit for the assignments in a status or a slice. etcd accepts objects of up to 1.5 MiB."""


def cut_assignments(group: ConsumerGroup, status: GroupStatus) -> list[Document]:
    """Build the slices for a group's next status; none if the status can hold the assignments."""
    texts = [msgspec.json.encode(each) for each in status.assignments]
    if len(texts) <= MOST_ASSIGNED and sum(map(len, texts)) <= MOST_BYTES:
        return []
    return [_build_config_map(group, status.epoch, text) for text in _pack(texts)]


def name_slices(status: GroupStatus, slices: Iterable[Document]) -> GroupStatus:
    """Replace the assignments of a status by the names of the slices, if there are slices."""
    found = [each["metadata"]["name"] for each in slices]
    kept = [] if found else status.assignments
    return msgspec.structs.replace(status, assignments=kept, slices=found)


def join_slices(
    group: ConsumerGroup, find: Callable[[Key], list[Assigned] | None]
) -> ConsumerGroup:
    """Add the assignments of all slices to a group's status. If a slice is missing, add none."""
    if not group.status.slices:
        return group
    assignments: list[Assigned] = []
    for name in group.status.slices:
        found = find(group.find_key(name))
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


def read_epoch(name: str) -> int:
    """Read the epoch in the name of a slice; 0 for other names."""
    found = re.search(r"-epoch-(\d+)-[^-]+$", name)
    return int(found[1]) if found else 0


def _pack(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Join as many assignments as fit into one slice."""
    some: list[bytes] = []
    for text in texts:
        if some and sum(map(len, some)) + len(text) > MOST_BYTES:
            yield b"[" + b",".join(some) + b"]"
            some = []
        some.append(text)
    yield b"[" + b",".join(some) + b"]"


def _build_config_map(group: ConsumerGroup, epoch: int, text: bytes) -> Document:
    digest = hashlib.sha256(text).hexdigest()[:8]
    name = f"{group.head.key.name}-epoch-{epoch}-{digest}"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": names.build_metadata(group, name),
        "immutable": True,
        "data": {SLICE: text.decode()},
    }
