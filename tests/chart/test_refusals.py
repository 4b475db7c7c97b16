"""Values that cannot be are refused before anything is installed, and named."""

import re

import pytest

from tests.chart.rendering import Helm, RefusedError

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
    "one namespace that is no list": (
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
    "a label that is no text": (
        {"podLabels__tier": "1"},
        "at '/podLabels/tier': got number, want string",
    ),
    "a value taken away": ({"image__tag": "null"}, "at '/image': missing property 'tag'"),
    "a section taken away": ({"image": "null"}, "at '': missing property 'image'"),
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
        "lease.duration (3601) must be at most 3600: nobody leads for so long after a leader's end",
    ),
    "a leader that gives up too late": (
        {"lease__deadline": "15"},
        "lease.deadline (15) must be less than lease.duration (15): a leader must give up before "
        "another one takes over",
    ),
    "a lease renewed too late": (
        {"lease__period": "10"},
        "lease.period (10) must be less than lease.deadline (10): else the Lease cannot be "
        "renewed in time",
    ),
}


@pytest.mark.parametrize(("settings", "complaint"), CASES.values(), ids=CASES)
def test_a_value_that_cannot_be_is_refused_and_named(
    helm: Helm, settings: dict[str, str], complaint: str
) -> None:
    with pytest.raises(RefusedError, match=re.escape(complaint)):
        helm.template(**settings)


def test_a_chart_around_this_one_may_hand_in_its_globals(helm: Helm) -> None:
    assert helm.template(**{"global__anything": "1"}).objects


def test_a_kubernetes_that_is_too_old_is_refused(helm: Helm) -> None:
    with pytest.raises(RefusedError, match=r"incompatible with Kubernetes v1\.29"):
        helm.template(options=["--kube-version", "1.29.0"])
