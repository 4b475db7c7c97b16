"""
Builds the CustomResourceDefinitions from types. `make generate` writes them to files.

Kubernetes requires a structural schema. Such a schema has no references and no alternatives, and
has a type for each field. So the schema from msgspec is expanded. The docstrings of fields become
descriptions, and the rules of the types become CEL rules.
"""

import functools
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from contract.conditions import ConditionType
from contract.kinds import groups, parts, topics
from evenkeel.attribute_docs import read_attribute_docs

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class CrdKind:
    """One kind of object."""

    name: str
    plural: str
    short: str
    spec: type[parts.Part]
    status: type[parts.Part]
    columns: tuple[Column, ...]
    scale: Mapping[str, str] | None = None

    @property
    def crd_name(self) -> str:
        """The name of the definition and of its file."""
        return f"{self.plural}.{parts.GROUP}"


def _build_condition_path(kind: ConditionType, part: str = "status") -> str:
    return f".status.conditions[?(@.type=='{kind}')].{part}"


AGE = Column("Age", ".metadata.creationTimestamp", "date")
TOPIC = CrdKind(
    "Topic",
    "topics",
    "mqt",
    topics.TopicSpec,
    topics.TopicStatus,
    (
        Column("Read", ".status.readQueues", "integer"),
        Column("Write", ".status.writeQueues", "integer"),
        Column("Ready", _build_condition_path(ConditionType.READY)),
        Column("Reason", _build_condition_path(ConditionType.READY, "reason"), is_wide=True),
        AGE,
    ),
)
CONSUMER_GROUP = CrdKind(
    "ConsumerGroup",
    "consumergroups",
    "mqcg",
    groups.GroupSpec,
    groups.GroupStatus,
    (
        Column("Topics", ".spec.topics[*].name"),
        Column("Strategy", ".spec.strategy.name"),
        Column("Queues", ".status.queues", "integer"),
        Column("Consumers", ".status.consumers", "integer"),
        Column("Moved", ".status.moved", "integer"),
        Column("Lag", ".status.lag", "integer"),
        Column("Epoch", ".status.epoch", "integer"),
        Column("Adopted", ".status.adoptedEpoch", "integer", is_wide=True),
        Column("Ready", _build_condition_path(ConditionType.READY)),
        Column("Reason", _build_condition_path(ConditionType.READY, "reason"), is_wide=True),
        AGE,
    ),
    {
        "specReplicasPath": ".spec.job.executors",
        "statusReplicasPath": ".status.executors",
        "labelSelectorPath": ".status.selector",
    },
)
KINDS = (TOPIC, CONSUMER_GROUP)


def build_definition(kind: CrdKind) -> Schema:
    """Build the CustomResourceDefinition of a kind."""
    version = {
        "name": parts.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _build_object_schema(kind)},
        "subresources": {"status": {}, **({"scale": dict(kind.scale)} if kind.scale else {})},
        "additionalPrinterColumns": [_build_column(each) for each in kind.columns],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name},
        "spec": {
            "group": parts.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name,
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": [kind.short],
                "categories": [parts.CATEGORY],
            },
            "versions": [version],
        },
    }


def render_yaml(kind: CrdKind) -> str:
    """Render the definition as YAML."""
    head = "# Made from the types in contract/kinds by `make generate`.\n"
    return head + yaml.dump(build_definition(kind), Dumper=_Plain, sort_keys=False, width=100)


class _Plain(yaml.SafeDumper):
    """Writes a repeated value in full each time, not as a YAML alias."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _build_object_schema(kind: CrdKind) -> Schema:
    return {
        "type": "object",
        "description": inspect.getdoc(inspect.getmodule(kind.spec)) or "",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": build_schema(kind.spec),
            "status": build_schema(kind.status),
        },
    }


def _build_column(column: Column) -> Schema:
    wide = {"priority": 1} if column.is_wide else {}
    return {"name": column.name, "type": column.type, "jsonPath": column.path, **wide}


@functools.cache
def find_schema(kind: type[parts.Part]) -> Schema:
    """Return the schema of a type, from a cache. Callers must not change it."""
    return build_schema(kind)


def build_schema(kind: type[parts.Part]) -> Schema:
    """Build the schema of a type, with all nested types."""
    (root,), components = msgspec.json.schema_components([kind])
    known = {each.__name__: each for each in _list_parts(parts.Part)}
    return _expand(root, components, known)


def _expand(
    schema: Schema, components: Mapping[str, Schema], known: Mapping[str, type[parts.Part]]
) -> Schema:
    beside = {name: value for name, value in schema.items() if name not in ("$ref", "anyOf")}
    if "anyOf" in schema:  # the field is optional
        (some,) = [each for each in schema["anyOf"] if each != {"type": "null"}]
        beside.pop("default", None)
        return _expand(some, components, known) | beside
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        found = _expand(components[name], components, known)
        found = (_add_rules(found, known[name]) if name in known else found) | beside
        if found.get("default") == {}:  # rules are evaluated after this default is set
            found["default"] = {
                field: each["default"]
                for field, each in found["properties"].items()
                if "default" in each
            }
        return found
    if beside.get("default", "") is None:
        del beside["default"]
    beside.pop("title", None)
    if "enum" in beside:
        beside["type"] = "string"
    if beside.get("type") == "integer":
        beside["format"] = "int64"
    if "properties" in beside:
        beside["properties"] = {
            name: _expand(each, components, known) for name, each in beside["properties"].items()
        }
        if not beside.get("required"):
            beside.pop("required", None)
    if "items" in beside:
        beside["items"] = _expand(beside["items"], components, known)
    if inner := beside.get("additionalProperties"):
        beside["additionalProperties"] = _expand(inner, components, known)
    elif beside.get("type") == "object" and "properties" not in beside:
        beside["x-kubernetes-preserve-unknown-fields"] = (
            True  # otherwise the API server would drop unknown fields
        )
    return beside


def _add_rules(schema: Schema, kind: type[parts.Part]) -> Schema:
    """Add the descriptions of fields, and the rules of the type."""
    texts = {
        name: text
        for each in reversed(kind.__mro__)
        if issubclass(each, parts.Part)
        for name, text in read_attribute_docs(each).items()
    }
    by_name = {
        field.encode_name: texts.get(field.name, "") for field in msgspec.structs.fields(kind)
    }
    properties = {
        name: each | ({"description": by_name[name]} if by_name[name] else {})
        for name, each in schema.get("properties", {}).items()
    }
    if not kind.IS_FILLED:
        for each in properties.values():
            if each.get("default") in ("", False):
                del each["default"]
    schema = {**schema, "properties": properties}
    schema.pop("description", None)
    if kind.RULES:
        schema["x-kubernetes-validations"] = [
            {"rule": rule.holds, "message": rule.message} for rule in kind.RULES
        ]
    return schema


def _list_parts(kind: type[parts.Part]) -> Iterator[type[parts.Part]]:
    for each in kind.__subclasses__():
        yield each
        yield from _list_parts(each)
