"""
Reads manifests: files with YAML documents, as for kubectl.

It reads Topics and ConsumerGroups. It also reads all ConfigMaps and Secrets, because specs may
refer to them. It skips other kinds, and refuses objects that an API server would refuse.
"""

import base64
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from contract.kinds import parts
from contract.kinds.groups import GroupSpec, GroupStatus
from contract.kinds.topics import TopicSpec, TopicStatus
from contract.names import API_VERSION
from evenkeel import objects, rules, unknown_fields
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic

OURS = ("Topic", "ConsumerGroup")
KINDS = {
    (API_VERSION, "Topic"),
    (API_VERSION, "ConsumerGroup"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
}
LIKENESS = 0.85
"""An API group with at least this similarity counts as a misspelling of Evenkeel's API group."""
_DURATION = f"`str` matching regex {parts.DURATION_PATTERN!r}"
_DURATION_IN_WORDS = "a duration, such as 10s or 1m30s"
Document = Mapping[str, Any]
Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class Manifests:
    """The objects of a file."""

    topics: dict[Key, Topic] = field(default_factory=dict)
    groups: dict[Key, ConsumerGroup] = field(default_factory=dict)
    config_maps: dict[Key, dict[str, str]] = field(default_factory=dict)
    secrets: dict[Key, dict[str, str]] = field(default_factory=dict)


def read(path: Path) -> Manifests:
    """Read a manifest file."""
    try:
        with path.open(encoding="utf-8") as text:  # the parser's errors name the file
            documents = list(_list_objects(list(yaml.load_all(text, _Loader)), path))
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ManifestError(f"{path} is not valid YAML: {error}") from error
    except RecursionError as error:
        raise ManifestError(f"{path}: it is nested too deeply") from error
    found = Manifests()
    seen = set()
    for document in documents:
        who = _read_identity(document, path)
        if who in seen:
            raise ManifestError(f"{path}: {document['kind']} {who[1]} occurs twice")
        seen.add(who)
        match document.get("kind"):
            case "Topic":
                topic = read_topic(_refuse_unknown_fields(document, TopicSpec))
                _follow_rules(document, TopicSpec)
                found.topics[topic.head.key] = topic
            case "ConsumerGroup":
                group = read_group(_refuse_unknown_fields(document, GroupSpec))
                _follow_rules(document, GroupSpec)
                found.groups[group.head.key] = group
            case "ConfigMap":
                key = objects.read_head(document["metadata"]).key
                found.config_maps[key] = _read_entries(document, "data")
            case _:
                key = objects.read_head(document["metadata"]).key
                found.secrets[key] = _read_secret(document)
    return found


def read_topic(document: Document) -> Topic:
    """Convert a document from a file or the API server to an object."""
    spec, status = (
        _read_part(document, "spec", TopicSpec),
        _read_part(document, "status", TopicStatus),
    )
    return Topic(objects.read_head(document["metadata"]), spec, status)


def read_group(document: Document) -> ConsumerGroup:
    """Convert a document from a file or the API server to an object."""
    spec, status = (
        _read_part(document, "spec", GroupSpec),
        _read_part(document, "status", GroupStatus),
    )
    return ConsumerGroup(objects.read_head(document["metadata"]), spec, status)


class _Loader(yaml.SafeLoader):
    """Leaves times as strings, as kubectl does."""


_Loader.yaml_implicit_resolvers = {
    letter: [each for each in known if each[0] != "tag:yaml.org,2002:timestamp"]
    for letter, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _list_objects(documents: list[Any], path: Path) -> Iterator[Document]:
    """List the objects of known kinds, including objects inside a List."""
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == "List":
            items = document.get("items")
            yield from _list_objects(items if isinstance(items, list) else [], path)
        elif isinstance(document, dict):
            _refuse_strange_kind(document, path)
            if _read_kind(document) in KINDS:
                yield document


def _refuse_strange_kind(document: Document, path: Path) -> None:
    """Refuse a document without a kind, or with a misspelt apiVersion or kind of Evenkeel."""
    version, kind = document.get("apiVersion"), document.get("kind")
    metadata = document.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    who = f"{path}: {kind or 'an object'} {name}".rstrip()
    if not kind:
        raise ManifestError(f"{who}: it has no kind")
    if not version and kind in OURS:
        raise ManifestError(f"{who}: it has no apiVersion, such as {API_VERSION}")
    group = str(version).rpartition("/")[0]
    if kind in OURS and version != API_VERSION and _resembles_ours(group):
        raise ManifestError(f"{who}: there is no apiVersion {version}; use {API_VERSION}")
    if version == API_VERSION and kind not in OURS:
        meant = difflib.get_close_matches(str(kind).capitalize(), OURS, 1)
        hint = f"; {meant[0]} may be meant" if meant else ""
        raise ManifestError(f"{who}: there is no kind {kind} in {API_VERSION}{hint}")


def _resembles_ours(group: str) -> bool:
    return bool(difflib.get_close_matches(group, [parts.GROUP], cutoff=LIKENESS))


def _follow_rules(document: Document, kind: type[parts.Part]) -> None:
    """Refuse an object that breaks a rule of the schema, as the API server does."""
    if found := rules.find_faults(document.get("spec") or {}, kind, "spec"):
        raise ManifestError(
            f"{document['kind']} {document['metadata']['name']}: {'; '.join(found)}"
        )


def _refuse_unknown_fields(document: Document, kind: type[parts.Part]) -> Document:
    """Refuse an object with unknown fields."""
    for where in unknown_fields.find_unknown_fields(document.get("spec"), kind, "spec"):
        raise ManifestError(
            f"{document['kind']} {document['metadata']['name']}: there is no field {where}"
        )
    return document


def _read_kind(document: Document) -> tuple[str, str]:
    return str(document.get("apiVersion")), str(document.get("kind"))


def _read_secret(document: Document) -> dict[str, str]:
    try:
        encoded = _read_entries(document, "data").items()
        found = {name: base64.b64decode(value).decode() for name, value in encoded}
    except ValueError as error:
        raise ManifestError(f"Secret {document['metadata']['name']}: data: {error}") from error
    return found | _read_entries(document, "stringData")


def _read_entries(document: Document, part: str) -> dict[str, str]:
    return _read_part(document, part, dict[str, str])


class _Metadata(msgspec.Struct):
    """The fields of the metadata that are used, with the types that Kubernetes gives them."""

    name: parts.ObjectName
    namespace: parts.ObjectName | None = None
    generation: int = 0
    annotations: dict[str, str] | None = None


def _read_identity(document: Document, path: Path) -> tuple[str, Key]:
    kind, metadata = str(document["kind"]), document.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise ManifestError(f"{path}: a {kind} has no metadata.name")
    try:
        found = msgspec.convert(metadata, _Metadata)
    except msgspec.ValidationError as error:
        text = str(error).replace("`$", "`metadata")
        raise ManifestError(f"{path}: {kind} {metadata['name']}: {text}") from error
    return kind, Key(found.namespace or objects.DEFAULT_NAMESPACE, found.name)


def _read_part(document: Document, part: str, kind: type[Kind]) -> Kind:
    try:
        return msgspec.convert(document.get(part) or {}, kind)
    except msgspec.ValidationError as error:
        where = f"{document['kind']} {document['metadata']['name']}"
        said = str(error).replace("`$", f"`{part}").replace(_DURATION, _DURATION_IN_WORDS)
        raise ManifestError(f"{where}: {said}") from error
