"""The notes that helm prints after an installation."""

import re
from typing import Any

import pytest
import yaml

from evenkeel import manifests
from tests.chart.rendering import CHART, NAME, NAMESPACE, Helm


def notes(helm: Helm, *options: str) -> str:
    said = helm.run(
        "install", "keel", str(CHART), "--namespace", NAMESPACE, "--dry-run=client", *options
    )
    return said.partition("NOTES:\n")[2]


@pytest.fixture(scope="module")
def said(helm: Helm) -> str:
    return notes(helm)


def test_they_name_the_next_steps(said: str) -> None:
    assert f"kubectl --namespace {NAMESPACE} rollout status deployment/{NAME}\n" in said
    assert f"kubectl --namespace {NAMESPACE} get mqt,mqcg\n" in said
    assert f"helm --namespace {NAMESPACE} test keel\n" in said
    assert f"helm --namespace {NAMESPACE} uninstall keel\n" in said


def test_their_example_is_a_topic_and_a_group_that_reads_it(said: str) -> None:
    found = re.search(r"<<EOF\n(.*)\nEOF\n", said, re.DOTALL)
    assert found is not None
    documents: list[Any] = list(yaml.safe_load_all(found[1]))
    topic, group = (manifests.read_topic(documents[0]), manifests.read_group(documents[1]))
    assert [each["kind"] for each in documents] == ["Topic", "ConsumerGroup"]
    assert topic.spec.route
    assert group.spec.consumers
    assert group.spec.consumers.static
    assert list(group.topic_keys) == [topic.head.key]
    assert f"get mqcg {group.head.key.name} -o yaml" in said


def test_they_say_what_is_on(helm: Helm, said: str) -> None:
    assert "Spark jobs are on." in said
    assert "alerts are off, the dashboard is off. The network policy is off." in said
    other = notes(
        helm, "--set", "jobs.enabled=false,networkPolicy.enabled=true",
        "--set", "monitoring.dashboard.enabled=true",
    )  # fmt: skip
    assert "Spark jobs are off." in other
    assert "the dashboard is on. The network policy is on." in other


def test_they_say_what_an_uninstall_leaves(helm: Helm, said: str) -> None:
    delete = "kubectl delete crd consumergroups.evenkeel.dev topics.evenkeel.dev"
    assert delete in said
    assert delete not in notes(helm, "--set", "crds.keep=false")


def test_their_example_is_for_a_namespace_that_is_watched(helm: Helm) -> None:
    said = notes(helm, "--set", "watch.namespaces={alpha,beta}")
    assert "the namespaces alpha, beta." in said
    assert "kubectl --namespace alpha apply -f -" in said
