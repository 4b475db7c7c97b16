"""Manifests are refused if an API server would refuse them: rules, duplicates, versions, kinds."""

from pathlib import Path

import pytest
import yaml

from evenkeel import manifests
from evenkeel.crds import CONSUMER_GROUP, TOPIC, CrdKind
from evenkeel.errors import ManifestError
from evenkeel.manifests import Manifests
from tests.specs import GROUP, REFUSED, SERVERS, TAKEN, Spec, of_job, thing


def read(tmp_path: Path, document: object) -> Manifests:
    path = tmp_path / "manifests.yaml"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return manifests.read(path)


@pytest.mark.parametrize(("kind", "spec"), TAKEN)
def test_what_an_api_server_takes_is_read(tmp_path: Path, kind: CrdKind, spec: Spec) -> None:
    found = read(tmp_path, thing(kind, "x", spec))
    assert len(found.topics) + len(found.groups) == 1


@pytest.mark.parametrize(("kind", "spec"), [(kind, spec) for kind, spec, _ in REFUSED])
def test_what_an_api_server_refuses_is_refused(tmp_path: Path, kind: CrdKind, spec: Spec) -> None:
    with pytest.raises(ManifestError, match=f"{kind.name} x: "):
        read(tmp_path, thing(kind, "x", spec))


@pytest.mark.parametrize(
    ("kind", "spec", "complaint"),
    [
        (TOPIC, {**SERVERS, "route": []}, "Topic x: Expected"),
        (TOPIC, {}, "Topic x: spec: set either nameServers or route"),
        (
            CONSUMER_GROUP,
            of_job(mode="Scheduled"),
            "ConsumerGroup x: spec.job: schedule is required with mode Scheduled, and only "
            "allowed there",
        ),
        (
            CONSUMER_GROUP,
            {**GROUP, "topics": [{"name": "a"}, {"name": "b", "filter": {}}]},
            "ConsumerGroup x: spec.topics[1].filter: set either tags or sql",
        ),
        (
            CONSUMER_GROUP,
            {**GROUP, "topics": [{"name": "a"}, {"name": "a"}]},
            "ConsumerGroup x: spec.topics[1]: there are two entries with name a",
        ),
        (
            CONSUMER_GROUP,
            of_job(startFrom="Timestamp", startTimestamp="2026-02-30T08:00:00Z"),
            "ConsumerGroup x: spec.job.startTimestamp: '2026-02-30T08:00:00Z' is not a date and "
            "time",
        ),
    ],
)
def test_the_place_and_the_reason_are_named(
    tmp_path: Path, kind: CrdKind, spec: Spec, complaint: str
) -> None:
    with pytest.raises(ManifestError) as error:
        read(tmp_path, thing(kind, "x", spec))
    assert str(error.value).startswith(complaint)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"apiVersion": "evenkeel.dev/v1"},
            "Topic x: there is no apiVersion evenkeel.dev/v1; use evenkeel.dev/v1alpha1",
        ),
        ({"apiVersion": "evenkel.dev/v1alpha1"}, "Topic x: there is no apiVersion evenkel.dev/v1a"),
        ({"apiVersion": None}, "Topic x: it has no apiVersion, such as evenkeel.dev/v1alpha1"),
        ({"kind": "topic"}, "topic x: there is no kind topic in evenkeel.dev/v1alpha1; Topic may"),
        ({"kind": None}, "x: it has no kind"),
    ],
    ids=["version", "group", "none", "kind", "no kind"],
)
def test_another_version_or_kind_is_refused(tmp_path: Path, changes: Spec, complaint: str) -> None:
    with pytest.raises(ManifestError) as error:
        read(tmp_path, {**thing(TOPIC, "x", SERVERS), **changes})
    assert complaint in str(error.value)


def test_topics_of_other_systems_are_passed_over(tmp_path: Path) -> None:
    other = {**thing(TOPIC, "x", {"any": 1}), "apiVersion": "sns.services.k8s.aws/v1alpha1"}
    assert read(tmp_path, other).topics == {}


def test_a_time_without_quotes_is_a_string_as_it_is_for_kubectl(tmp_path: Path) -> None:
    spec = of_job(startFrom="Timestamp", startTimestamp="2026-11-21T08:00:00Z")
    text = yaml.safe_dump(thing(CONSUMER_GROUP, "x", spec)).replace("'", "")
    (found,) = read(tmp_path, text).groups.values()
    assert found.spec.job is not None
    assert found.spec.job.start_timestamp == "2026-11-21T08:00:00Z"
