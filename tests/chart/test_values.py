"""Each value has an effect, and the files made from the comments in values.yaml are up to date."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from generate import notation, values
from tests.chart.rendering import (
    ALL_ON,
    CHART,
    EVERYTHING,
    Document,
    Helm,
    at,
    settings_of,
)  # fmt: skip

VALUES = values.read((CHART / "values.yaml").read_text("utf-8"))
GIVEN = yaml.safe_load(EVERYTHING.read_text("utf-8"))
POD = "Deployment spec.template.spec"
CONTAINER = f"{POD}.containers.0"
IMAGE, JOBS_IMAGE = f"{CONTAINER}.image", f"{CONTAINER}.args.2"
ENDPOINT = "ServiceMonitor spec.endpoints.0"
JOBS_ENDPOINT = "PodMonitor spec.podMetricsEndpoints.0"
ALERT = "PrometheusRule spec.groups.0.rules.0"


WHERE = {
    "image.registry": IMAGE,
    "image.repository": IMAGE,
    "image.digest": IMAGE,
    "image.pullPolicy": f"{CONTAINER}.imagePullPolicy",
    "image.pullSecrets": f"{POD}.imagePullSecrets",
    "jobs.image.registry": JOBS_IMAGE,
    "jobs.image.repository": JOBS_IMAGE,
    "jobs.image.tag": JOBS_IMAGE,
    "watch.namespaces": "PodMonitor spec.namespaceSelector.matchNames",
    "rbac.secrets.names": "Role rules.6.resourceNames",
    "serviceAccount.name": f"{POD}.serviceAccountName",
    "serviceAccount.annotations": "ServiceAccount metadata.annotations",
    "nameOverride": "Service spec.selector.app~1kubernetes~1io/name",
    "fullnameOverride": "Service metadata.name",
    "commonLabels": "Service metadata.labels",
    "documentationUrl": f"{ALERT}.annotations.runbook_url",
    "replicas": "Deployment spec.replicas",
    "strategy": "Deployment spec.strategy",
    "jobs.restartsAtOnce": f"{CONTAINER}.args.3",
    "lease.duration": f"{CONTAINER}.args.7",
    "lease.deadline": f"{CONTAINER}.args.8",
    "lease.period": f"{CONTAINER}.args.9",
    "resources": f"{CONTAINER}.resources",
    "terminationGracePeriodSeconds": f"{POD}.terminationGracePeriodSeconds",
    "startupProbe": f"{CONTAINER}.startupProbe",
    "livenessProbe": f"{CONTAINER}.livenessProbe",
    "readinessProbe": f"{CONTAINER}.readinessProbe",
    "podSecurityContext": f"{POD}.securityContext",
    "securityContext": f"{CONTAINER}.securityContext",
    "podLabels": "Deployment spec.template.metadata.labels",
    "podAnnotations": "Deployment spec.template.metadata.annotations",
    "nodeSelector": f"{POD}.nodeSelector",
    "tolerations": f"{POD}.tolerations",
    "affinity": f"{POD}.affinity",
    "topologySpreadConstraints": f"{POD}.topologySpreadConstraints",
    "priorityClassName": f"{POD}.priorityClassName",
    "service.port": "Service spec.ports.0.port",
    "service.annotations": "Service metadata.annotations",
    "monitoring.serviceMonitor.labels": "ServiceMonitor metadata.labels",
    "monitoring.serviceMonitor.interval": f"{ENDPOINT}.interval",
    "monitoring.serviceMonitor.scrapeTimeout": f"{ENDPOINT}.scrapeTimeout",
    "monitoring.podMonitor.labels": "PodMonitor metadata.labels",
    "monitoring.podMonitor.interval": f"{JOBS_ENDPOINT}.interval",
    "monitoring.podMonitor.scrapeTimeout": f"{JOBS_ENDPOINT}.scrapeTimeout",
    "monitoring.rules.labels": "PrometheusRule metadata.labels",
    "monitoring.rules.alertLabels": f"{ALERT}.labels",
    "monitoring.dashboard.namespace": "ConfigMap metadata.namespace",
    "monitoring.dashboard.label": "ConfigMap metadata.labels",
    "monitoring.dashboard.labelValue": "ConfigMap metadata.labels.example_dashboard",
    "monitoring.dashboard.folderAnnotation": "ConfigMap metadata.annotations",
    "monitoring.dashboard.folder": "ConfigMap metadata.annotations.example~1com/folder",
    "networkPolicy.metricsFrom": "NetworkPolicy spec.ingress.0.from",
    "networkPolicy.egress.apiServerPorts": "NetworkPolicy spec.egress.1.ports.0.port",
    "networkPolicy.egress.rocketmqPorts": "NetworkPolicy spec.egress.1.ports.1.port",
    "networkPolicy.egress.extra": "NetworkPolicy spec.egress.2",
    "podDisruptionBudget.maxUnavailable": "PodDisruptionBudget spec.maxUnavailable",
}
SWITCHES = {
    "crds.enabled": "CustomResourceDefinition",
    "rbac.create": "ClusterRoleBinding",
    "rbac.aggregate": "ClusterRole",
    "serviceAccount.create": "ServiceAccount",
    "monitoring.serviceMonitor.enabled": "ServiceMonitor",
    "monitoring.podMonitor.enabled": "PodMonitor",
    "monitoring.rules.enabled": "PrometheusRule",
    "monitoring.dashboard.enabled": "ConfigMap",
    "networkPolicy.enabled": "NetworkPolicy",
    "podDisruptionBudget.enabled": "PodDisruptionBudget",
}
"""The kind of the object that each switch creates."""
ELSEWHERE = {
    "crds.keep": "test_definitions.py",
    "image.tag": "test_operator.py",
    "jobs.enabled": "test_rights.py",
    "jobs.image.digest": "test_operator.py",
    "members.enabled": "test_members.py",
    "monitoring.rules.disabled": "test_monitoring.py",
    "nameServers.allowed": "test_operator.py",
    "networkPolicy.egress.enabled": "test_operator.py",
    "rbac.secrets.enabled": "test_rights.py",
    "test.timeout": "test_helm_test.py",
}
"""Values that other tests check, and the files of those tests."""


def leaves(found: Sequence[values.Value]) -> dict[str, values.Value]:
    inner = {name: leaf for each in found for name, leaf in leaves(each.inner).items()}
    return inner | {each.name: each for each in found if each.type}


def test_each_value_is_tested() -> None:
    assert {*WHERE, *SWITCHES, *ELSEWHERE} == leaves(VALUES).keys()
    for name, file in ELSEWHERE.items():
        text = Path(__file__).with_name(file).read_text("utf-8")
        assert name in text or name.replace(".", "__") in text


@pytest.mark.parametrize("name", WHERE)
def test_a_value_is_seen_where_it_belongs(helm: Helm, name: str) -> None:
    wanted = at(GIVEN, name)
    assert wanted != leaves(VALUES)[name].default
    kind, _, path = WHERE[name].partition(" ")
    found = at(helm.template(EVERYTHING).of(kind)[0], path)
    if isinstance(wanted, dict):
        assert settings_of(wanted).items() <= settings_of(found).items()
    elif isinstance(wanted, list):
        assert found in (wanted, wanted[0])
    else:
        assert str(wanted).rstrip("/") in (found if isinstance(found, dict) else str(found))


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_makes_an_object_or_does_not(helm: Helm, name: str) -> None:
    """The test sets two replicas, because a single replica gets no disruption budget."""
    on = {**ALL_ON, "replicas": "2"}
    with_it = len(helm.template(**on).of(SWITCHES[name]))
    without = len(helm.template(**{**on, name.replace(".", "__"): "false"}).of(SWITCHES[name]))
    assert with_it > without


def test_a_map_or_list_may_be_left_empty(helm: Helm, tmp_path: Path) -> None:
    """Users write `podLabels:` with nothing after it, which means null."""
    empty: Document = {}
    for name, leaf in leaves(VALUES).items():
        if isinstance(leaf.default, dict | list):
            *sections, last = name.split(".")
            inner = empty
            for section in sections:
                inner = inner.setdefault(section, {})
            inner[last] = None
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(empty))
    assert helm.template(file, **ALL_ON).container["args"]


def test_schema_and_table_follow_from_the_comments() -> None:
    made = (CHART / "values.schema.json").read_text("utf-8")
    assert made == values.schema(VALUES), "run `make generate`"
    readme = (CHART / "README.md").read_text("utf-8")
    assert readme == values.insert_table(readme, VALUES), "run `make generate`"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1", "a: there is no comment above it"),
        ("# A.\na: 1", r"a: its comment does not end with a type in \[\]"),
        ("# A.\na:\n  # B. [nonsense]\n  b: 1", "there is no type 'nonsense'"),
    ],
    ids=["no comment", "no type", "unknown type"],
)
def test_a_value_that_is_not_explained_is_an_error_that_names_it(text: str, complaint: str) -> None:
    with pytest.raises(notation.NotationError, match=complaint):
        values.schema(values.read(text))


def test_a_table_needs_its_place() -> None:
    with pytest.raises(notation.NotationError, match=r"README\.md lacks the lines"):
        values.insert_table("# evenkeel", VALUES)
