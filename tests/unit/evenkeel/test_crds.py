"""The types define the CustomResourceDefinitions, and the same types read manifests."""

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contract.kinds import groups, jobs, parts, topics
from evenkeel import crds
from evenkeel.crds import KINDS, CrdKind
from generate.crds import FOLDERS

ROOT = Path(__file__).parents[3]
MOST_BYTES = 256 * 1024
"""The limit of `kubectl apply`, which keeps a copy in an annotation."""
TYPES = {"object", "array", "string", "integer", "boolean"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_files_follow_from_the_types(folder: str) -> None:
    found = {file.stem: file.read_text("utf-8") for file in (ROOT / folder).iterdir()}
    assert found == {kind.crd_name: crds.render_yaml(kind) for kind in KINDS}, "run `make generate`"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_definition_is_far_from_what_kubectl_takes_at_most(kind: CrdKind) -> None:
    assert len(crds.render_yaml(kind).encode()) < MOST_BYTES / 2


def parts_of(schema: dict[str, Any]) -> list[dict[str, Any]]:
    inner = [*schema.get("properties", {}).values()]
    inner += [each for name in ("items", "additionalProperties") if (each := schema.get(name))]
    return [schema, *(part for each in inner for part in parts_of(each))]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_part_of_a_schema_has_a_type_and_stands_in_place(kind: CrdKind) -> None:
    for schema in (crds.build_schema(kind.spec), crds.build_schema(kind.status)):
        for part in parts_of(schema):
            assert part["type"] in TYPES
            assert not part.keys() & {"$ref", "anyOf", "oneOf", "allOf", "title"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_field_says_what_it_means(kind: CrdKind) -> None:
    schema = crds.build_schema(kind.spec)
    silent = [
        name
        for part in parts_of(schema)
        for name, each in part.get("properties", {}).items()
        if not each.get("description")
    ]
    assert silent == []


def test_a_rule_stands_beside_the_part_it_is_about() -> None:
    schema = crds.build_schema(groups.GroupSpec)
    strategy = schema["properties"]["strategy"]
    assert {
        "rule": "!has(self.sticky) || self.name == 'Sticky'",
        "message": "sticky requires name: Sticky",
    } in strategy["x-kubernetes-validations"]
    (rule,) = crds.build_schema(groups.GroupStatus)["x-kubernetes-validations"]
    assert rule["message"] == "epoch must not decrease"


def test_a_field_that_may_be_missing_has_no_null() -> None:
    schema = crds.build_schema(topics.TopicSpec)
    assert schema["properties"]["tls"]["type"] == "object"
    assert "default" not in schema["properties"]["tls"]
    assert schema["properties"]["refreshInterval"]["default"] == "30s"


def test_a_manifest_that_cannot_be_is_an_error_that_names_the_field() -> None:
    spec = {"topics": [{"name": "orders"}], "strategy": {"name": "Stickyy"}}
    with pytest.raises(msgspec.ValidationError, match=r"'Stickyy' - at `\$\.strategy\.name`"):
        msgspec.convert(spec, groups.GroupSpec)


@pytest.mark.parametrize(
    "text",
    ["2026-11-21T08:00:00Z", "2026-11-21T08:00:00.123456789+05:30", "1970-01-01T23:59:59-00:00"],
)
def test_a_time_in_rfc_3339_is_taken(text: str) -> None:
    assert msgspec.convert(text, parts.Moment) == text
    assert datetime.fromisoformat(text).tzinfo is not None


@pytest.mark.parametrize(
    "text",
    ["", "garbage", "1795248000000", "2026-11-21", "2026-11-21T08:00:00", "2026-13-21T08:00:00Z"],
)
def test_a_start_that_is_no_time_is_refused(text: str) -> None:
    job = {
        "sink": {"format": "noop"},
        "checkpoint": {"url": "/state"},
        "startFrom": "Timestamp",
        "startTimestamp": text,
    }
    with pytest.raises(msgspec.ValidationError, match=r"at `\$\.startTimestamp`"):
        msgspec.convert(job, jobs.Job)


def test_an_empty_route_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"at `\$\.route`"):
        msgspec.convert({"route": []}, topics.TopicSpec)


def test_defaults_are_those_of_the_schema() -> None:
    spec = msgspec.convert({"topics": [{"name": "orders"}]}, groups.GroupSpec)
    shown = crds.build_schema(groups.GroupSpec)["properties"]
    assert shown["messageModel"]["default"] == spec.message_model.value == "Clustering"
    interval = shown["rebalance"]["properties"]["interval"]["default"]
    assert interval == spec.rebalance.interval == "20s"
    assert parts.GROUP == "evenkeel.dev"
