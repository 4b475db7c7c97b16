"""The operator's pods: image, command, security, scheduling, disruptions, network."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from evenkeel.control.topics import allowed_name_servers
from tests.chart.rendering import (
    ALL_ON,
    CHART,
    EVERYTHING,
    MONITORING,
    NAME,
    NAMESPACE,
    OFF,
    Document,
    Helm,
)

OF_THE_CLUSTER = ("CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding")
ONE, TWO = "sha256:" + 64 * "1", "sha256:" + 64 * "2"


@pytest.mark.parametrize(
    ("settings", "image"),
    [
        ({}, "evenkeel-operator:0.1.0"),
        ({"image__tag": "9.9.9"}, "evenkeel-operator:9.9.9"),
        ({"image__tag": "9.9.9", "image__digest": ONE}, f"evenkeel-operator@{ONE}"),
        ({"image__registry": "a.example.com/"}, "a.example.com/evenkeel-operator:0.1.0"),
    ],
    ids=["default", "tag", "digest wins", "registry"],
)
def test_the_image_is_named_as_nodes_want_it(
    helm: Helm, settings: dict[str, str], image: str
) -> None:
    found = helm.template(**settings)
    assert found.container["image"] == image
    assert found.hooks["Pod"]["spec"]["containers"][0]["image"] == image


def test_jobs_have_an_image_of_their_own(helm: Helm) -> None:
    assert "--image=evenkeel-spark:0.1.0" in helm.template().container["args"]
    by_digest = helm.template(jobs__image__digest=TWO, jobs__image__tag="v3").container["args"]
    assert f"--image=evenkeel-spark@{TWO}" in by_digest
    without = helm.template(OFF).container["args"]
    assert not [word for word in without if word.startswith("--image")]


def test_the_command_says_where_the_lease_is_and_how_long_it_holds(helm: Helm) -> None:
    container = helm.template().container
    assert "command" not in container, "the image's entry point reaps orphaned processes"
    assert container["args"] == [
        "operator",
        "--port=8080",
        "--image=evenkeel-spark:0.1.0",
        "--restarts-at-once=5",
        f"--lease-namespace={NAMESPACE}",
        "--lease-duration=15",
        "--lease-deadline=10",
        "--lease-period=2",
    ]


def test_namespaces_are_told_one_by_one(helm: Helm) -> None:
    args = helm.template(EVERYTHING).container["args"]
    assert [word for word in args if word.startswith("--namespace")] == [
        "--namespace=alpha",
        "--namespace=beta",
    ]


def test_name_servers_that_topics_may_name_are_told_one_by_one(helm: Helm) -> None:
    """The values of `nameServers.allowed` become options that the operator's own check accepts."""
    args = helm.template(EVERYTHING).container["args"]
    patterns = ["*.mq.svc:9876", "10.0.0.0/8:*"]
    assert [word for word in args if word.startswith("--allow")] == [
        f"--allow-name-servers={pattern}" for pattern in patterns
    ]
    assert [allowed_name_servers.check_pattern(pattern) for pattern in patterns] == patterns


def breaches(pod: Document) -> list[str]:
    """List violations of Pod Security's level `restricted`, in the fields that the chart uses."""
    found = []
    of_pod = pod.get("securityContext", {})
    if set(pod) & {"hostNetwork", "hostPID", "hostIPC", "volumes", "initContainers"}:
        found.append("what of the host or of volumes")
    for container in pod["containers"]:
        both: dict[str, Any] = of_pod | container.get("securityContext", {})
        wanted = {
            "allowPrivilegeEscalation": False,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            "capabilities": {"drop": ["ALL"]},
        }
        found += [name for name, value in wanted.items() if both.get(name) != value]
        if both.get("runAsUser") == 0 or both.get("privileged"):
            found.append("runs as root")
    return found


def test_pods_pass_the_level_restricted(helm: Helm) -> None:
    found = helm.template()
    assert breaches(found.pod["spec"]) == []
    assert breaches(found.hooks["Pod"]["spec"]) == []
    assert breaches(helm.template(securityContext__capabilities="null").pod["spec"]) != []


def test_pods_run_as_the_images_user_and_write_nowhere(helm: Helm) -> None:
    spec = helm.template().pod["spec"]
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["runAsGroup"]) == (
        65532,
        65532,
    )
    assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


def test_pods_get_a_token_because_they_ask_for_one(helm: Helm) -> None:
    found = helm.template()
    for account in (found.one("ServiceAccount"), found.hooks["ServiceAccount"]):
        assert account["automountServiceAccountToken"] is False
    for spec in (found.pod["spec"], found.hooks["Pod"]["spec"]):
        assert spec["automountServiceAccountToken"] is True
        assert spec["enableServiceLinks"] is False  # no environment variables for other services


def test_a_cluster_may_choose_the_user_itself(helm: Helm) -> None:
    spec = helm.template(
        podSecurityContext__runAsUser="null", podSecurityContext__runAsGroup="null"
    ).pod["spec"]
    assert "runAsUser" not in spec["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] is True


def test_probes_ask_the_endpoints(helm: Helm) -> None:
    container = helm.template().container
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"http": 8080}
    assert {name: container[name]["httpGet"] for name in container if name.endswith("Probe")} == {
        "startupProbe": {"path": "/healthz", "port": "http"},
        "livenessProbe": {"path": "/healthz", "port": "http"},
        "readinessProbe": {"path": "/readyz", "port": "http"},
    }


def test_the_service_leads_to_the_operators_pods(helm: Helm) -> None:
    found = helm.template()
    service = found.one("Service")["spec"]
    assert service["selector"].items() <= found.pod["metadata"]["labels"].items()
    assert service["ports"] == [{"name": "http", "port": 8080, "targetPort": "http"}]


def test_labels_of_the_user_never_hide_a_pod_from_its_service(helm: Helm) -> None:
    found = helm.template(**{"podLabels__app\\.kubernetes\\.io/name": "mine"})
    selector = found.one("Deployment")["spec"]["selector"]["matchLabels"]
    assert selector.items() <= found.pod["metadata"]["labels"].items()


def test_several_operators_are_spread_over_hosts_and_not_all_taken_away(helm: Helm) -> None:
    one, two = helm.template(), helm.template(replicas="2")
    assert "topologySpreadConstraints" not in one.pod["spec"]
    assert one.of("PodDisruptionBudget") == []
    (spread,) = two.pod["spec"]["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == (
        "kubernetes.io/hostname",
        "ScheduleAnyway",
    )
    budget = two.one("PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    labels = two.pod["metadata"]["labels"].items()
    assert budget["selector"]["matchLabels"].items() <= labels
    assert spread["labelSelector"]["matchLabels"].items() <= labels


def test_the_network_policy_lets_metrics_in_and_lets_out_what_is_needed(helm: Helm) -> None:
    rendered = helm.template(networkPolicy__enabled="true")
    found = rendered.one("NetworkPolicy")["spec"]
    labels = rendered.pod["metadata"]["labels"]
    assert found["podSelector"]["matchLabels"].items() <= labels.items()
    assert found["podSelector"]["matchLabels"]
    assert found["policyTypes"] == ["Ingress", "Egress"]
    assert found["ingress"] == [{"ports": [{"port": "http", "protocol": "TCP"}]}]
    dns, calls = found["egress"]
    assert {(each["port"], each["protocol"]) for each in dns["ports"]} == {(53, "UDP"), (53, "TCP")}
    assert [each["port"] for each in calls["ports"]] == [443, 6443, 9876, 10911]


def test_calls_need_not_be_restricted(helm: Helm) -> None:
    found = helm.template(networkPolicy__enabled="true", networkPolicy__egress__enabled="false")
    policy = found.one("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert "egress" not in policy


def test_a_policy_without_ports_lets_dns_out_alone(helm: Helm) -> None:
    """An egress rule without ports would allow all traffic."""
    found = helm.template(
        networkPolicy__enabled="true",
        networkPolicy__egress__apiServerPorts="null",
        networkPolicy__egress__rocketmqPorts="null",
    ).one("NetworkPolicy")
    assert len(found["spec"]["egress"]) == 1


def test_all_objects_carry_the_releases_name_namespace_and_labels(helm: Helm) -> None:
    for each in helm.template(**ALL_ON, replicas="2").objects:
        assert each["apiVersion"]
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "keel"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["app.kubernetes.io/version"] == "0.1.0"
        assert labels["helm.sh/chart"] == "evenkeel-0.1.0"
        if each["kind"] != "CustomResourceDefinition":
            assert each["metadata"]["name"].startswith(NAME)
        if each["kind"] not in OF_THE_CLUSTER:
            assert each["metadata"]["namespace"] == NAMESPACE


def test_labels_of_the_user_are_on_every_object(helm: Helm) -> None:
    for each in helm.template(EVERYTHING).objects:
        assert each["metadata"]["labels"]["example.com/common"] == "yes"


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, NAME),
        ({"nameOverride": "balance"}, "keel-balance"),
        ({"nameOverride": "keel"}, "keel"),
        ({"fullnameOverride": "other"}, "other"),
        ({"fullnameOverride": 52 * "x"}, 52 * "x"),
        ({"nameOverride": 45 * "x" + "--y"}, f"keel-{45 * 'x'}"),
    ],
    ids=["both", "another", "once", "whole", "long", "cut between words"],
)
def test_names_follow_release_and_chart(helm: Helm, settings: dict[str, str], name: str) -> None:
    found = helm.template(**settings)
    assert found.of("Deployment")[0]["metadata"]["name"] == name
    assert all(len(each["metadata"]["name"]) <= 63 for each in found.objects)


def test_names_that_yaml_takes_for_something_else_stay_names(helm: Helm) -> None:
    text = helm.run(
        "template", "yes", str(CHART), "--namespace", "2026",
        "--set-string", "watch.namespaces={1234},priorityClassName=1",
        "--set-string", "fullnameOverride=true,serviceAccount.name=123",
        *(word for each in MONITORING for word in ("--api-versions", each)),
        *(word for name, value in ALL_ON.items()
          for word in ("--set", f"{name.replace('__', '.')}={value}")),
        "--set", "replicas=2",
    )  # fmt: skip
    found = [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]
    for each in found:
        metadata = each["metadata"]
        assert isinstance(metadata["name"], str)
        assert metadata["labels"]["app.kubernetes.io/instance"] == "yes"
        assert metadata.get("namespace", "2026") in ("2026", "1234")
        for subject in each.get("subjects", ()):
            assert subject["namespace"] == "2026"
            assert subject["name"] in ("123", "true-test")
        if "roleRef" in each:
            assert each["roleRef"]["name"] in ("true", "true-lease", "true-test")
        if each["kind"] == "Deployment":
            pod = each["spec"]["template"]["spec"]
            assert (pod["priorityClassName"], pod["serviceAccountName"]) == ("1", "123")


def test_what_no_schema_has_seen_stays_within_its_quotes(helm: Helm) -> None:
    """Helm has an option that skips the schema."""
    hostile = "x\n          command: [sh]\n    evil"
    settings = {
        "image.registry": hostile,
        "image.pullPolicy": hostile,
        "jobs.image.registry": hostile,
        "monitoring.dashboard.folderAnnotation": hostile,
        "monitoring.dashboard.folder": hostile,
        "monitoring.serviceMonitor.interval": hostile,
        "watch.namespaces": [hostile],
    }
    words = [("--set-json", f"{name}={json.dumps(value)}") for name, value in settings.items()]
    found = helm.template(
        **ALL_ON, options=["--skip-schema-validation", *(word for each in words for word in each)]
    )
    container = found.container
    assert "command" not in container
    assert container["image"] == f"{hostile}/evenkeel-operator:0.1.0"
    assert container["imagePullPolicy"] == hostile
    assert f"--image={hostile}/evenkeel-spark:0.1.0" in container["args"]
    assert f"--namespace={hostile}" in container["args"]
    assert found.hooks["Pod"]["spec"]["containers"][0]["image"] == container["image"]
    assert found.of("ConfigMap")[0]["metadata"]["annotations"] == {hostile: hostile}
    assert found.one("ServiceMonitor")["spec"]["endpoints"][0]["interval"] == hostile


def test_large_numbers_of_a_file_stay_whole_numbers(helm: Helm, tmp_path: Path) -> None:
    """Helm reads numbers in files as floats, and would write 1e+06."""
    file = tmp_path / "values.yaml"
    file.write_text(
        "replicas: 1000000\nterminationGracePeriodSeconds: 1000000\ntest: {timeout: 1000000}\n"
        "podDisruptionBudget: {maxUnavailable: 1000000}\n"
        "startupProbe: {failureThreshold: 1000000}\n"
    )
    found = helm.template(file, options=["--skip-schema-validation"])
    assert "--timeout=1000000s" in found.hooks["Pod"]["spec"]["containers"][0]["args"]
    for whole in (
        found.one("Deployment")["spec"]["replicas"],
        found.pod["spec"]["terminationGracePeriodSeconds"],
        found.one("PodDisruptionBudget")["spec"]["maxUnavailable"],
        found.container["startupProbe"]["failureThreshold"],
    ):
        assert (whole, type(whole)) == (1000000, int)
