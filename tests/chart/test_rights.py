"""The operator has only rights that it uses, and all rights that it gives to drivers."""

from collections.abc import Iterator, Sequence

import pytest
import yaml

from evenkeel import manifests
from evenkeel.cluster.manifest import rights
from evenkeel.objects import ConsumerGroup
from tests.chart.rendering import EVERYTHING, NAME, NAMESPACE, OFF, Document, Helm, Rendered

JOB = """
apiVersion: evenkeel.dev/v1alpha1
kind: ConsumerGroup
metadata: {name: billing, namespace: shop, uid: u}
spec:
  topics: [{name: orders}]
  job: {executors: 1, sink: {format: noop}, checkpoint: {url: "s3a://b"}}
status: {epoch: 1, slices: [billing-epoch-1-0]}
"""
EVERYWHERE = """
evenkeel.dev topics list watch
evenkeel.dev consumergroups get list watch
evenkeel.dev topics/status update
evenkeel.dev consumergroups/status update
evenkeel.dev consumergroups/finalizers update
- configmaps get list watch create patch delete
- events create
- persistentvolumeclaims get
- pods get list watch create patch delete deletecollection
- secrets get
- serviceaccounts get create patch
coordination.k8s.io leases get create update patch
rbac.authorization.k8s.io roles get create patch
rbac.authorization.k8s.io rolebindings get create patch
networking.k8s.io networkpolicies get create patch
"""
OF_THE_CLUSTER = """
- nodes list watch
apiextensions.k8s.io customresourcedefinitions list watch
"""
Right = tuple[str, str, str]
ROLES = ("Role", "ClusterRole")


def all_rights(rules: Sequence[Document]) -> Iterator[Right]:
    """List rights verb by verb, without the names of objects."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield group, resource, verb


def rights_of(found: Rendered, kind: str, name: str = NAME) -> set[Right]:
    return set(all_rights(found.one(kind, name)["rules"]))


def listed(text: str) -> set[Right]:
    """Read rights from lines that have a group, a resource and verbs."""
    rows = [line.split() for line in text.split("\n") if line]
    return {(row[0].strip("-"), row[1], verb) for row in rows for verb in row[2:]}


@pytest.fixture
def group() -> ConsumerGroup:
    return manifests.read_group(yaml.safe_load(JOB))


def test_no_rule_has_a_wildcard_or_lets_anybody_escape(helm: Helm) -> None:
    found = [helm.template(), helm.template(EVERYTHING)]
    roles = [role for each in found for kind in ROLES for role in each.of(kind)]
    roles += [each.hooks["Role"] for each in found]
    assert len(roles) > 6
    for role in roles:
        assert not {word for right in all_rights(role["rules"]) for word in right} & {
            "*", "escalate", "bind", "impersonate",
        }  # fmt: skip


def test_the_operator_may_do_this_and_nothing_else(helm: Helm) -> None:
    assert rights_of(helm.template(), "ClusterRole") == listed(EVERYWHERE + OF_THE_CLUSTER)
    for role in helm.template(EVERYTHING).of("Role"):
        if role["metadata"]["name"] == "the-keel":
            assert set(all_rights(role["rules"])) == listed(EVERYWHERE)


def test_the_operator_has_every_right_that_a_driver_gets(helm: Helm, group: ConsumerGroup) -> None:
    """In Kubernetes, an account can grant only rights that it has."""
    given = set(all_rights(rights.build_role(group)["rules"]))
    assert ("", "pods", "deletecollection") in given
    assert given <= rights_of(helm.template(), "ClusterRole")
    for role in helm.template(EVERYTHING).of("Role"):
        if role["metadata"]["namespace"] in ("alpha", "beta"):
            assert given <= set(all_rights(role["rules"]))


def test_a_whole_cluster_takes_one_role_and_its_binding(helm: Helm) -> None:
    found = helm.template()
    binding = found.one("ClusterRoleBinding")
    assert binding["roleRef"]["name"] == found.one("ClusterRole")["metadata"]["name"] == NAME
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}]
    assert found.pod["spec"]["serviceAccountName"] == NAME
    assert ("", "nodes", "watch") in rights_of(found, "ClusterRole")


def test_namespaces_take_a_role_each_and_nothing_of_the_whole_cluster(helm: Helm) -> None:
    found = helm.template(watch__namespaces="{alpha,beta}")
    assert found.of("ClusterRole") == found.of("ClusterRoleBinding") == []
    roles = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in found.of("Role")}
    assert roles == {("alpha", NAME), ("beta", NAME), (NAMESPACE, f"{NAME}-lease")}
    bound = {
        (each["metadata"]["namespace"], each["roleRef"]["name"]) for each in found.of("RoleBinding")
    }
    assert bound == roles
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
    for each in found.of("RoleBinding"):
        assert each["subjects"] == [subject]
    for role in found.of("Role"):
        resources = {resource for _, resource, _ in all_rights(role["rules"])}
        assert not resources & {"nodes", "customresourcedefinitions"}


def test_the_lease_is_the_only_one_that_it_may_change_beside_those_of_jobs(helm: Helm) -> None:
    found = helm.template(jobs__enabled="false")
    assert not {right for right in rights_of(found, "ClusterRole") if right[1] == "leases"}
    make, keep = found.one("Role", f"{NAME}-lease")["rules"]
    assert (make["verbs"], "resourceNames" in make) == (["create"], False)
    assert (keep["verbs"], keep["resourceNames"]) == (["get", "update"], ["evenkeel-operator"])


def test_secrets_are_read_by_name_and_never_listed(helm: Helm) -> None:
    def of_secrets(found: Rendered, kind: str) -> list[Document]:
        (role,) = found.of(kind)[-1:] if kind == "ClusterRole" else found.of(kind)[:1]
        return [rule for rule in role["rules"] if "secrets" in rule["resources"]]

    (rule,) = of_secrets(helm.template(rbac__aggregate="false"), "ClusterRole")
    assert rule == {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    (rule,) = of_secrets(helm.template(EVERYTHING), "Role")
    assert rule["resourceNames"] == ["mq-acl", "mq.ca"]
    without = helm.template(rbac__aggregate="false", rbac__secrets__enabled="false")
    assert of_secrets(without, "ClusterRole") == []


def test_without_jobs_it_makes_no_pods_accounts_and_roles(helm: Helm) -> None:
    with_jobs = rights_of(helm.template(), "ClusterRole")
    without = rights_of(helm.template(jobs__enabled="false"), "ClusterRole")
    assert without < with_jobs
    assert {verb for _, resource, verb in without if resource == "pods"} == {"list", "watch"}
    kinds = {resource for _, resource, _ in without}
    assert not kinds & {
        "roles",
        "rolebindings",
        "serviceaccounts",
        "persistentvolumeclaims",
        "networkpolicies",
    }


def test_rights_may_be_given_by_somebody_else(helm: Helm) -> None:
    found = helm.template(OFF)
    assert [each for kind in ROLES for each in found.of(kind)] == []
    assert found.of("ServiceAccount") == []
    assert found.pod["spec"]["serviceAccountName"] == "default"
    named = helm.template(serviceAccount__create="false", serviceAccount__name="ours")
    assert named.pod["spec"]["serviceAccountName"] == "ours"


def test_who_may_view_or_edit_a_namespace_may_do_so_with_our_kinds(helm: Helm) -> None:
    found = helm.template()
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    view, edit = (found.one("ClusterRole", f"{NAME}-{name}") for name in ("view", "edit"))
    into = [
        {label for label in role["metadata"]["labels"] if label.startswith(prefix)}
        for role in (view, edit)
    ]
    assert into == [
        {f"{prefix}{name}" for name in ("view", "edit", "admin")},
        {f"{prefix}{name}" for name in ("edit", "admin")},
    ]
    assert {verb for _, _, verb in all_rights(view["rules"])} == {"get", "list", "watch"}
    may_edit = set(all_rights(edit["rules"]))
    for resource in ("topics", "consumergroups"):
        for verb in ("create", "update", "patch", "delete"):
            assert ("evenkeel.dev", resource, verb) in may_edit
    assert ("evenkeel.dev", "consumergroups/scale", "patch") in may_edit
    assert not {right for right in may_edit if right[1].endswith("/status")}
