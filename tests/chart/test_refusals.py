"""Invalid values are refused before anything is installed, with an error that names them."""

import json
import re

import pytest

from tests.chart.rendering import CHART, Helm, RefusedError

CASES = {
    "no such value": ({"replica": "2"}, "at '': additional properties 'replica' not allowed"),
    "no such value inside": (
        {"image__tags": "x"},
        "at '/image': additional properties 'tags' not allowed",
    ),
    "a text for a number": ({"replicas": "two"}, "at '/replicas': got string, want integer"),
    "fewer than none": ({"replicas": "-1"}, "at '/replicas': minimum: got -1, want 0"),
    "a number for a switch": ({"crds__keep": "1"}, "at '/crds/keep': got number, want boolean"),
    "no port": ({"service__port": "0"}, "at '/service/port': minimum: got 0, want 1"),
    "beyond all ports": (
        {"service__port": "65536"},
        "at '/service/port': maximum: got 65,536, want 65,535",
    ),
    "a port in a list": (
        {"networkPolicy__egress__rocketmqPorts": "{0}"},
        "at '/networkPolicy/egress/rocketmqPorts/0': minimum: got 0, want 1",
    ),
    "a digest that is none": (
        {"image__digest": "sha256:12"},
        "at '/image/digest': 'sha256:12' does not match pattern",
    ),
    "a digest of jobs": (
        {"jobs__image__digest": "latest"},
        "at '/jobs/image/digest': 'latest' does not match pattern",
    ),
    "a tag that YAML takes for a number": (
        {"image__tag": "2026"},
        "at '/image/tag': got number, want string",
    ),
    "a tag in the repository": (
        {"image__repository": "a b"},
        "at '/image/repository': 'a b' does not match pattern",
    ),
    "a pull policy that is none": (
        {"image__pullPolicy": "Sometimes"},
        "at '/image/pullPolicy': value must be one of 'IfNotPresent', 'Always', 'Never'",
    ),
    "one namespace that is not a list": (
        {"watch__namespaces": "alpha"},
        "at '/watch/namespaces': got string, want array",
    ),
    "a namespace that cannot be": (
        {"watch__namespaces": "{alpha,*}"},
        "at '/watch/namespaces/1': '*' does not match pattern",
    ),
    "a namespace named twice": (
        {"watch__namespaces": "{alpha,beta,alpha}"},
        "at '/watch/namespaces': items at 0 and 2 are equal",
    ),
    "a label that is not text": (
        {"podLabels__tier": "1"},
        "at '/podLabels/tier': got number, want string",
    ),
    "a value taken away": ({"image__tag": "null"}, "at '/image': missing property 'tag'"),
    "a section taken away": ({"image": "null"}, "at '': missing property 'image'"),
    "more than a Deployment is for": (
        {"replicas": "101"},
        "at '/replicas': maximum: got 101, want 100",
    ),
    "a test that never ends": (
        {"test__timeout": "99999"},
        "at '/test/timeout': maximum: got 99,999, want 86,400",
    ),
    "a grace that never ends": (
        {"terminationGracePeriodSeconds": "99999"},
        "at '/terminationGracePeriodSeconds': maximum: got 99,999, want 86,400",
    ),
    "a lease for ever": (
        {"lease__duration": "99999"},
        "at '/lease/duration': maximum: got 99,999, want 3,600",
    ),
    "a leader for ever": (
        {"lease__deadline": "99999"},
        "at '/lease/deadline': maximum: got 99,999, want 3,600",
    ),
    "a renewal never": (
        {"lease__period": "99999"},
        "at '/lease/period': maximum: got 99,999, want 3,600",
    ),
    "a Service that begins with a digit": (
        {"fullnameOverride": "1abc"},
        "at '/fullnameOverride': '1abc' does not match pattern",
    ),
    "an account's name too long": (
        {"serviceAccount__name": 254 * "a"},
        "at '/serviceAccount/name': maxLength: got 254, want 253",
    ),
    "a label's name that is none": (
        {"commonLabels__bad label!": "x"},
        "at '/commonLabels': additional properties 'bad label!' not allowed",
    ),
    "a label's value that is none": (
        {"podLabels__tier": "a b"},
        "at '/podLabels/tier': 'a b' does not match pattern",
    ),
    "a label's value too long": (
        {"podLabels__tier": 64 * "a"},
        f"at '/podLabels/tier': '{64 * 'a'}' does not match pattern",
    ),
    "an annotation's name that is none": (
        {"podAnnotations__a:b": "x"},
        "at '/podAnnotations': additional properties 'a:b' not allowed",
    ),
    "an alert's label that Prometheus does not know": (
        {"monitoring__rules__alertLabels__my-team": "x"},
        "at '/monitoring/rules/alertLabels': additional properties 'my-team' not allowed",
    ),
    "a probe that never asks": (
        {"startupProbe__periodSeconds": "-1"},
        "at '/startupProbe/periodSeconds': minimum: got -1, want 1",
    ),
    "a probe that asks otherwise": (
        {"livenessProbe__tcpSocket": "1"},
        "at '/livenessProbe': additional properties 'tcpSocket' not allowed",
    ),
    "a dashboard's label that is none": (
        {"monitoring__dashboard__label": "bad label!"},
        "at '/monitoring/dashboard/label': 'bad label!' does not match pattern",
    ),
    "a dashboard without label": (
        {"monitoring__dashboard__label": ""},
        "at '/monitoring/dashboard/label': '' does not match pattern",
    ),
    "a dashboard's label without value": (
        {"monitoring__dashboard__labelValue": "a b"},
        "at '/monitoring/dashboard/labelValue': 'a b' does not match pattern",
    ),
    "a folder without annotation": (
        {"monitoring__dashboard__folderAnnotation": ""},
        "at '/monitoring/dashboard/folderAnnotation': '' does not match pattern",
    ),
    "two annotations in one": (
        {"monitoring__dashboard__folderAnnotation": "a: b\n    evil"},
        "at '/monitoring/dashboard/folderAnnotation': 'a: b\\n    evil' does not match pattern",
    ),
    "an address of two lines": (
        {"documentationUrl": "https://docs.example.com/\n"},
        "at '/documentationUrl': 'https://docs.example.com/\\n' does not match pattern",
    ),
    "a monitor that never rests": (
        {"monitoring__serviceMonitor__interval": "0s"},
        "at '/monitoring/serviceMonitor/interval': '0s' does not match pattern",
    ),
    "a budget of no percent": (
        {"podDisruptionBudget__maxUnavailable": "0%"},
        "at '/podDisruptionBudget/maxUnavailable': '0%' does not match pattern",
    ),
    "a scrape longer than its interval": (
        {
            "monitoring__podMonitor__interval": "1m",
            "monitoring__podMonitor__scrapeTimeout": "61s",
        },
        "monitoring.podMonitor.scrapeTimeout (61s) must not exceed its interval (1m)",
    ),
    "a lease of no time": ({"lease__period": "0"}, "at '/lease/period': exclusiveMinimum"),
    "an address that is none": (
        {"documentationUrl": "docs"},
        "at '/documentationUrl': 'docs' does not match pattern",
    ),
    "a budget of nothing": (
        {"podDisruptionBudget__maxUnavailable": "0"},
        "at '/podDisruptionBudget/maxUnavailable': minimum: got 0, want 1",
    ),
    "a lease for hours": (
        {"lease__duration": "3601"},
        "at '/lease/duration': maximum: got 3,601, want 3,600",
    ),
    "a leader that gives up too late": (
        {"lease__deadline": "15"},
        "lease.deadline (15) must be less than lease.duration (15): a leader must step down before "
        "another one takes over",
    ),
    "a lease renewed too late": (
        {"lease__period": "10"},
        "lease.period (10) must be less than lease.deadline (10): otherwise the Lease cannot "
        "be renewed in time",
    ),
}


@pytest.mark.parametrize(("settings", "complaint"), CASES.values(), ids=CASES)
def test_a_value_that_cannot_be_is_refused_and_named(
    helm: Helm, settings: dict[str, str], complaint: str
) -> None:
    with pytest.raises(RefusedError, match=re.escape(complaint)):
        helm.template(**settings)


@pytest.mark.parametrize("image", ["image", "jobs.image"])
@pytest.mark.parametrize(
    "registry",
    [
        "x\n          command: [sh, -c, id]",
        "reg.example.com:5000 #",
        "reg.example.com\n",
        "   ",
        "http://reg.example.com/",
        "a b # c",
        "{{ .Values }}",
        "reg.example.com:port",
        "/team",
    ],
)
def test_a_registry_that_cannot_be_is_refused(helm: Helm, image: str, registry: str) -> None:
    path = f"/{image.replace('.', '/')}/registry"
    with pytest.raises(RefusedError, match=f"at '{path}': .* does not match pattern"):
        helm.template(options=["--set-json", f"{image}.registry={json.dumps(registry)}"])


@pytest.mark.parametrize(
    "registry", ["", "localhost", "a.b:5000", "a-b.c/team/x", "10.0.0.1:5000/a/b/"]
)
def test_a_registry_is_a_host_with_port_and_path(helm: Helm, registry: str) -> None:
    image = helm.template(image__registry=registry).container["image"]
    assert image.startswith(registry)


def test_a_scrape_may_take_the_whole_interval(helm: Helm) -> None:
    assert helm.template(
        monitoring__podMonitor__interval="1m", monitoring__podMonitor__scrapeTimeout="60s"
    ).objects


@pytest.mark.parametrize("release", ["1rel", "123"])
def test_a_release_whose_service_cannot_be_is_refused_with_a_way_out(
    helm: Helm, release: str
) -> None:
    sentence = (
        f"the name of a Service must begin with a letter, but {release}-evenkeel does not: "
        "set fullnameOverride, or choose another release name"
    )
    with pytest.raises(RefusedError, match=sentence):
        helm.run("template", release, str(CHART))
    assert helm.run("template", release, str(CHART), "--set", "fullnameOverride=keel")


def test_a_chart_around_this_one_may_hand_in_its_globals(helm: Helm) -> None:
    assert helm.template(**{"global__anything": "1"}).objects


def test_a_kubernetes_that_is_too_old_is_refused(helm: Helm) -> None:
    with pytest.raises(RefusedError, match=r"incompatible with Kubernetes v1\.29"):
        helm.template(options=["--kube-version", "1.29.0"])
