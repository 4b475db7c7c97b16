"""The chart's definitions: an upgrade of the chart changes them, and an uninstall keeps them."""

from typing import Any

import pytest
import yaml

from evenkeel import crds, manifests
from tests.chart.rendering import CHART, ROOT, Document, Helm

KEEP = {"helm.sh/resource-policy": "keep"}
ANNOTATIONS = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))["annotations"]


def told(name: str) -> Any:
    return yaml.safe_load(ANNOTATIONS[f"artifacthub.io/{name}"])


def by_name(found: list[Document]) -> dict[str, Document]:
    return {each["metadata"]["name"]: each for each in found}


def test_the_chart_installs_the_definitions_as_they_are(helm: Helm) -> None:
    installed = by_name(helm.template().of("CustomResourceDefinition"))
    files = by_name([yaml.safe_load(file.read_text()) for file in (ROOT / "crds").iterdir()])
    assert installed.keys() == files.keys()
    for name, definition in installed.items():
        assert definition["spec"] == files[name]["spec"]


@pytest.mark.parametrize(("keep", "annotations"), [("true", KEEP), ("false", None)])
def test_definitions_outlive_the_release_unless_told_otherwise(
    helm: Helm, keep: str, annotations: dict[str, str] | None
) -> None:
    for each in helm.template(crds__keep=keep).of("CustomResourceDefinition"):
        assert each["metadata"].get("annotations") == annotations


def test_what_artifact_hub_shows_are_our_kinds() -> None:
    shown = {(each["name"], each["kind"], each["version"]) for each in told("crds")}
    assert shown == {(kind.crd_name, kind.name, "v1alpha1") for kind in crds.KINDS}
    assert {each["kind"] for each in told("crdsExamples")} == {kind.name for kind in crds.KINDS}
    assert {each["kind"] for each in told("changes")} <= {
        "added", "changed", "deprecated", "removed", "fixed", "security",
    }  # fmt: skip


def test_examples_on_artifact_hub_can_be_read() -> None:
    for each in told("crdsExamples"):
        read = manifests.read_topic if each["kind"] == "Topic" else manifests.read_group
        assert read(each).head.key.name == each["metadata"]["name"]
