"""
Reads manifests: files of YAML documents, as kubectl takes and gives them.

Other kinds are passed over, for users keep them in the same files.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from evenkeel.api import parts
from evenkeel.api.groups import GroupSpec, GroupStatus
from evenkeel.api.topics import TopicSpec, TopicStatus
from evenkeel.errors import ManifestError

API_VERSION = f"{parts.GROUP}/{parts.VERSION}"
Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Topic:
    """A `Topic` object."""

    name: str
    spec: TopicSpec
    status: TopicStatus

    @property
    def topic(self) -> str:
        """RocketMQ's name of it."""
        return self.spec.topic or self.name


@dataclass(frozen=True, slots=True)
class Group:
    """A `ConsumerGroup` object."""

    name: str
    spec: GroupSpec
    status: GroupStatus

    @property
    def group(self) -> str:
        """RocketMQ's name of it."""
        return self.spec.group or self.name


@dataclass(frozen=True, slots=True)
class Manifests:
    """The objects of one namespace, by name."""

    topics: dict[str, Topic] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)


def read(path: Path) -> Manifests:
    """Read a file."""
    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ManifestError(f"{path} is no YAML: {error}") from error
    found = Manifests()
    for document in _objects(documents):
        name = _name(document, path)
        match document.get("kind"):
            case "Topic":
                found.topics[name] = Topic(name, *_parts(document, name, TopicSpec, TopicStatus))
            case "ConsumerGroup":
                found.groups[name] = Group(name, *_parts(document, name, GroupSpec, GroupStatus))
            case _:
                pass
    return found


def _objects(documents: list[Any]) -> Iterator[dict[str, Any]]:
    """Find ours, in lists too, which is how kubectl gives several."""
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == "List":
            yield from _objects(document.get("items") or [])
        elif isinstance(document, dict) and document.get("apiVersion") == API_VERSION:
            yield document


def _name(document: dict[str, Any], path: Path) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise ManifestError(f"{path}: a {document.get('kind')} has no metadata.name")
    return name


def _parts(
    document: dict[str, Any], name: str, spec: type[Kind], status: type[Any]
) -> tuple[Kind, Any]:
    return _read(document, name, "spec", spec), _read(document, name, "status", status)


def _read(document: dict[str, Any], name: str, part: str, kind: type[Kind]) -> Kind:
    try:
        return msgspec.convert(document.get(part) or {}, kind)
    except msgspec.ValidationError as error:
        where = f"{document['kind']} {name}"
        raise ManifestError(f"{where}: {str(error).replace('`$', f'`{part}')}") from error
