"""The manifests of examples/members fit together, and suit the follower and the operator."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from contract import exit_codes
from contract.following import AUDIENCE
from contract.kinds.groups import MemberTerms
from evenkeel import times
from evenkeel.control.metrics import ObjectMetrics
from follower import command_line

MEMBERS = Path(__file__).parents[3] / "examples" / "members"
Document = dict[str, Any]


@pytest.fixture
def manifests() -> dict[str, Document]:
    """All manifests, by kind."""
    found = [
        each for file in MEMBERS.glob("*.yaml") for each in yaml.safe_load_all(file.read_text())
    ]
    return {each["kind"]: each for each in found}


@pytest.fixture
def pod(manifests: dict[str, Document]) -> Document:
    found: Document = manifests["Deployment"]["spec"]["template"]
    return found


@pytest.fixture
def container(pod: Document) -> Document:
    (found,) = pod["spec"]["containers"]
    return dict(found)


def test_everything_selects_the_pods(manifests: dict[str, Document], pod: Document) -> None:
    labels = pod["metadata"]["labels"].items()
    for selector in (
        manifests["Deployment"]["spec"]["selector"],
        manifests["ConsumerGroup"]["spec"]["consumers"]["members"]["selector"],
        manifests["PodMonitor"]["spec"]["selector"],
    ):
        assert selector["matchLabels"].items() <= labels


def test_the_follower_takes_the_arguments(
    container: Document, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the handler is missing, because users provide it. Wrong arguments would exit with 64."""
    assert container["command"][1:3] == ["-m", "follower"]
    ended = command_line.main([*container["command"][3:], *container["args"]])
    assert ended == exit_codes.PERMANENT
    assert "shop" in capsys.readouterr().err


def test_a_pod_may_finish_its_work_before_the_kubelet_kills_it(pod: Document) -> None:
    assert pod["spec"]["terminationGracePeriodSeconds"] > times.parse_duration(MemberTerms().drain)


def test_the_token_is_for_the_coordinator(pod: Document) -> None:
    (volume,) = pod["spec"]["volumes"]
    token = volume["projected"]["sources"][0]["serviceAccountToken"]
    assert token["audience"] == AUDIENCE


def test_probes_and_prometheus_ask_the_port_of_the_metrics(
    manifests: dict[str, Document], container: Document
) -> None:
    (port,) = container["ports"]
    assert f"--metrics-port={port['containerPort']}" in container["args"]
    (endpoint,) = manifests["PodMonitor"]["spec"]["podMetricsEndpoints"]
    asked = [container[f"{each}Probe"]["httpGet"]["port"] for each in ("readiness", "liveness")]
    assert {endpoint["port"], *asked} == {port["name"]}


def test_metrics_of_followers_bear_the_name_of_their_group(manifests: dict[str, Document]) -> None:
    (endpoint,) = manifests["PodMonitor"]["spec"]["podMetricsEndpoints"]
    (relabeling,) = endpoint["relabelings"]
    name = manifests["ConsumerGroup"]["metadata"]["name"]
    assert relabeling == {"targetLabel": "name", "replacement": name}


def test_the_autoscaler_scales_the_deployment_by_the_lag_of_the_group(
    manifests: dict[str, Document],
) -> None:
    spec = manifests["HorizontalPodAutoscaler"]["spec"]
    deployment = manifests["Deployment"]
    assert spec["scaleTargetRef"] == {
        "apiVersion": deployment["apiVersion"],
        "kind": "Deployment",
        "name": deployment["metadata"]["name"],
    }
    assert "replicas" not in deployment["spec"]
    (metric,) = spec["metrics"]
    asked = metric["external"]["metric"]
    assert asked["name"] in {each.name for each in ObjectMetrics(list, list).collect()}
    assert asked["selector"]["matchLabels"] == {
        "name": manifests["ConsumerGroup"]["metadata"]["name"]
    }
