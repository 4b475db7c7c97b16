"""Monitors, alerts and the dashboard."""

import copy
import json
import re

import pytest
import yaml

from tests import job_objects
from tests.chart.rendering import ALL_ON, CHART, EVERYTHING, NAMESPACE, Document, Helm, RefusedError

ALERTS = [
    rule
    for group in yaml.safe_load((CHART / "files" / "alerts.yaml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]


def rules(helm: Helm, **settings: str) -> list[Document]:
    found = helm.template(monitoring__rules__enabled="true", **settings).one("PrometheusRule")
    return [rule for group in found["spec"]["groups"] for rule in group["rules"]]


def test_alerts_are_those_of_the_file(helm: Helm) -> None:
    """Only the links differ: alerts have none unless `documentationUrl` is set."""
    wanted = copy.deepcopy(ALERTS)
    for each in wanted:
        del each["annotations"]["runbook_url"]
    assert wanted
    assert rules(helm) == wanted


def test_an_alert_links_to_its_runbook_in_your_documentation(helm: Helm) -> None:
    found = rules(helm, documentationUrl="https://docs.example.com/keel/")
    assert [each["annotations"]["runbook_url"] for each in found] == [
        f"https://docs.example.com/keel/{each['annotations']['runbook_url']}" for each in ALERTS
    ]


def test_an_alert_can_be_left_out(helm: Helm) -> None:
    first = ALERTS[0]["alert"]
    kept = rules(helm, monitoring__rules__disabled=f"{{{first}}}")
    assert {each["alert"] for each in kept} == {each["alert"] for each in ALERTS} - {first}


def test_leaving_out_an_alert_that_is_not_there_is_refused(helm: Helm) -> None:
    with pytest.raises(RefusedError, match=r"rules\.disabled: there is no alert EvenkeelOops"):
        rules(helm, monitoring__rules__disabled="{EvenkeelOops}")


def test_the_monitor_finds_the_operators_service(helm: Helm) -> None:
    found = helm.template(**ALL_ON)
    monitor = found.one("ServiceMonitor")["spec"]
    service = found.one("Service")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] == service["spec"]["ports"][0]["name"]
    assert endpoint["honorLabels"] is True  # `namespace` is a group's, not the operator's


def test_the_monitor_of_jobs_looks_wherever_the_operator_looks(helm: Helm) -> None:
    everywhere = helm.template(**ALL_ON).one("PodMonitor")["spec"]
    assert everywhere["namespaceSelector"] == {"any": True}
    named = helm.template(EVERYTHING).one("PodMonitor", "the-keel")["spec"]
    assert named["namespaceSelector"] == {"matchNames": ["alpha", "beta"]}


def test_the_monitor_of_jobs_selects_drivers_and_says_whose_they_are(helm: Helm) -> None:
    pod = job_objects.driver(job_objects.a_group())
    labels = pod["metadata"]["labels"]
    monitor = helm.template(**ALL_ON).one("PodMonitor")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["podMetricsEndpoints"]
    ports = [each["name"] for each in job_objects.main(pod)["ports"]]
    assert endpoint["port"] in ports
    (relabeling,) = endpoint["relabelings"]
    assert relabeling["targetLabel"] == "name"
    (source,) = relabeling["sourceLabels"]
    prefix = "__meta_kubernetes_pod_label_"
    told = {prefix + re.sub("[^a-z]", "_", label): value for label, value in labels.items()}
    assert told[source] == "billing"


def test_the_dashboard_is_loaded_as_it_is(helm: Helm) -> None:
    found = helm.template(**ALL_ON).of("ConfigMap")[0]
    assert found["metadata"]["namespace"] == NAMESPACE
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert "annotations" not in found["metadata"]
    files = {file.name: file for file in (CHART / "files" / "dashboards").iterdir()}
    assert found["data"].keys() == files.keys() == {"evenkeel.json"}
    for name, file in files.items():
        assert json.loads(found["data"][name]) == json.loads(file.read_text("utf-8"))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            ["serviceMonitor"],
            "this cluster has no ServiceMonitor (monitoring.coreos.com/v1): install the Prometheus "
            "Operator, or set monitoring.serviceMonitor.enabled=false",
        ),
        (
            ["podMonitor", "rules"],
            "this cluster has no PodMonitor, no PrometheusRule (monitoring.coreos.com/v1): install "
            "the Prometheus Operator, or set monitoring.podMonitor.enabled=false, "
            "monitoring.rules.enabled=false",
        ),
    ],
    ids=["one", "two"],
)
def test_missing_kinds_are_told_in_one_sentence(
    helm: Helm, values: list[str], sentence: str
) -> None:
    settings = {f"monitoring__{each}__enabled": "true" for each in values}
    with pytest.raises(RefusedError) as refused:
        helm.template(apis=(), **settings)
    assert str(refused.value).count(sentence) == 1
    assert str(refused.value).count("this cluster") == 1


def test_the_dashboard_needs_no_prometheus_operator(helm: Helm) -> None:
    found = helm.template(apis=(), monitoring__dashboard__enabled="true")
    assert found.of("ConfigMap")
