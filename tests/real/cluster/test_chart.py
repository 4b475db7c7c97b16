"""
The chart, installed by the real helm on a real API server; the operator runs as its account.

The API server logs each request, so the test knows which rights the operator had and used.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox import jars, kubernetes, ports
from sandbox.kubernetes import Cluster
from sandbox.statuses import Document, read_condition
from sandbox.waiting import wait_for
from tests.real.cluster import member_pods, release
from tests.real.cluster.release import Release, granted, kubectl, refused, used
from tests.real.cluster.running import Namespace, make_namespace

ROUTE = [{"broker": "broker-a", "readQueues": 8, "writeQueues": 8}]
GROUPS = "consumergroups"
FOR_OWNERS = {("evenkeel.dev", "consumergroups/finalizers", "update")}
"""A right that an admission plugin checks, without a log entry."""


@dataclass(frozen=True)
class Audited:
    """An API server that logs which user does what."""

    cluster: Cluster
    log: Path


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    """An API server without our kinds, which the chart installs."""
    folder = tmp_path_factory.mktemp("audit")
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    }
    (folder / "policy.json").write_text(json.dumps(policy))
    flags = {
        "audit-policy-file": str(folder / "policy.json"),
        "audit-log-path": str(folder / "log"),
        "enable-admission-plugins": "OwnerReferencesPermissionEnforcement",
    }
    try:
        with kubernetes.run(flags) as cluster:
            yield Audited(cluster, folder / "log")
    except jars.JarsError as error:
        pytest.skip(f"NO REAL KUBERNETES: {error}")


def is_ready(status: Document) -> bool:
    return read_condition(status, "Ready")[0] == "True"


def use_everything(it: Namespace) -> None:
    """Use topics and groups so that the operator needs each of its rights."""
    secret = {"metadata": {"name": "acl"}, "stringData": {"accessKey": "a", "secretKey": "b" * 8}}
    assert it.user.ask("POST", it.core("secrets"), secret).status == 201
    code = {"metadata": {"name": "code"}, "data": {"transform.py": "x = 1"}}
    assert it.user.ask("POST", it.core("configmaps"), code).status == 201
    it.claim("state")

    refs = {"credentialsSecretRef": {"name": "acl"}}
    it.make("Topic", "payments", {"nameServers": ["127.0.0.1:1"], **refs})
    it.until("topics", "payments", lambda status: read_condition(status, "Ready")[0] == "False")
    known = {"brokers": ROUTE, "readQueues": 8, "observedGeneration": 1}
    it.patch(it.path("topics", "payments", "status"), {"status": known})
    a_job = {
        "executors": 1,
        "transform": {"configMapRef": {"name": "code", "key": "transform.py"}},
        "sink": {"format": "noop"},
        "checkpoint": {"persistentVolumeClaim": "state"},
        "allowForeignConsumers": True,  # there is no broker that could list other readers
    }
    it.make("ConsumerGroup", "paying", {"topics": [{"name": "payments"}], "job": a_job})
    first = until_pod(it, "paying-driver", but="")
    it.change(GROUPS, "paying", {"spec": {"job": {"trigger": "2s"}}})
    until_pod(it, "paying-driver", but=first)

    it.make("Topic", "orders", {"route": ROUTE})
    of_pods = {"consumers": {"podSelector": {"matchLabels": {"app": "shop"}}}}
    it.make("ConsumerGroup", "shopping", {"topics": [{"name": "orders"}], **of_pods})
    it.pod("shop-1", {"app": "shop"})
    it.until(GROUPS, "shopping", is_ready)

    make_long_assignment(it)


def make_long_assignment(it: Namespace) -> None:
    """Make an assignment that is too long for a status, and then another one."""
    for number in range(60):
        route = [{"broker": "broker-a", "readQueues": 210, "writeQueues": 210}]
        it.make("Topic", f"topic-{number}", {"route": route})
    topics = [{"name": f"topic-{number}"} for number in range(60)]

    def spec(consumers: int) -> Document:
        static = [{"id": f"c-{number}"} for number in range(consumers)]
        return {"topics": topics, "consumers": {"static": static}}

    it.make("ConsumerGroup", "many", spec(1000))
    first = it.until(GROUPS, "many", lambda status: status.get("slices"), 60)
    it.change(GROUPS, "many", {"spec": spec(999)})
    it.until(GROUPS, "many", lambda status: status.get("epoch", 0) > first["epoch"], 60)
    old = set(first["slices"])

    def kept() -> set[str]:
        items = it.user.ask("GET", it.core("configmaps")).body["items"]
        return old & {each["metadata"]["name"] for each in items}

    assert not wait_for(kept, lambda names: not names)


def until_pod(it: Namespace, name: str, but: str) -> str:
    """Wait for a pod of this name whose uid is not `but`; return the pod's uid."""

    def uid() -> str:
        found = it.found(it.core("pods", name))
        if found is not None and found["metadata"].get("deletionTimestamp"):
            # A kubelet would do this; the operator may have done it already.
            it.user.ask("DELETE", it.core("pods", name), {"gracePeriodSeconds": 0})
            return ""
        return "" if found is None else found["metadata"]["uid"]

    found = wait_for(uid, lambda uid: uid not in ("", but), 60)
    assert found not in ("", but)
    return found


def assert_rights_are_right(
    audited: Audited, installed: Release, it: Namespace, watched: list[str]
) -> None:
    """Check that all requests were allowed, and that all unused rights are for drivers."""
    account = installed.account
    assert refused(audited.log, account) == []
    name = account.name.rpartition(":")[2]
    given = granted(installed.objects, name)
    assert "*" not in {part for right in given for part in right}
    took = used(audited.log, account)
    drivers = rights_of_driver(it)
    assert drivers <= given
    assert given - drivers - FOR_OWNERS - took == set()
    assert given >= FOR_OWNERS
    places = {each["metadata"].get("namespace") for each in installed.objects}
    assert places <= {None, installed.namespace, *watched}


def assert_helm_test_does_its_work(audited: Audited, installed: Release) -> None:
    user, done = installed.tested()
    assert done.returncode == 0, done.stderr
    assert "the operator works" in done.stdout
    assert refused(audited.log, user) == []
    given = granted(installed.hooks, user.name.rpartition(":")[2])
    assert given == used(audited.log, user)


def rights_of_driver(it: Namespace) -> set[tuple[str, str, str]]:
    place = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{it.name}/roles/paying-driver"
    role = it.found(place)
    assert role is not None
    return release.rights_of(role)


def test_it_installs_with_defaults_serves_the_examples_and_its_rights_are_enough_and_no_more(
    audited: Audited,
) -> None:
    installed = Release(audited.cluster, "evenkeel-system")
    said = installed.install()
    assert "kubectl --namespace evenkeel-system" in said
    shop = make_namespace(audited.cluster.admin, "shop")
    with installed.running() as operator:
        operator.wait_until_ready()
        applied = kubectl(
            audited.cluster.admin, "--namespace", "shop", "apply", "-f",
            str(release.ROOT / "examples"),
        )  # fmt: skip
        assert applied.returncode == 0, applied.stderr
        shop.until("topics", "orders", is_ready, 10)
        shop.until(GROUPS, "billing", is_ready, 10)
        everything = make_namespace(audited.cluster.admin, "all")
        use_everything(everything)
        assert_helm_test_does_its_work(audited, installed)
        before = shop.status(GROUPS, "billing")
        installed.upgrade(release.ROOT, "--set", "replicas=2")
        assert shop.status(GROUPS, "billing") == before
        assert "Traceback" not in operator.log
    assert_rights_are_right(audited, installed, everything, [])
    installed.uninstall()
    assert left_of(installed) == []
    kept = shop.status(GROUPS, "billing")
    assert kept == before


def test_in_one_namespace_it_needs_no_right_elsewhere(audited: Audited) -> None:
    installed = Release(audited.cluster, "evenkeel-narrow")
    watched = make_namespace(audited.cluster.admin, "narrow")
    installed.install("--set", "watch.namespaces={narrow}", "--take-ownership")
    kinds = {each["kind"] for each in installed.objects}
    assert not any(each["kind"] == "ClusterRoleBinding" for each in installed.objects), kinds
    with installed.running() as operator:
        operator.wait_until_ready()
        use_everything(watched)
        assert "Traceback" not in operator.log
    assert_rights_are_right(audited, installed, watched, ["narrow"])
    installed.uninstall()


def test_members_are_served_with_the_rights_that_the_chart_gives(audited: Audited) -> None:
    installed = Release(audited.cluster, "evenkeel-serving")
    served = make_namespace(audited.cluster.admin, "served")
    options = "watch.namespaces={served},members.enabled=true,jobs.enabled=false"
    installed.install("--take-ownership", "--set", options)
    claim = ports.claim()
    with installed.running("--members-port", str(claim.port)) as operator:
        operator.wait_until_ready()
        member_pods.make_group(served)
        pod = member_pods.join(served, "billing-a", claim.port)
        member_pods.until_granted((pod, "0-3"))
        place = f"/apis/discovery.k8s.io/v1/namespaces/{installed.namespace}/endpointslices"
        found = wait_for(lambda: served.user.ask("GET", place).body["items"], bool)
        assert found[0]["endpoints"][0]["addresses"] == [release.POD_IP]
        assert "Traceback" not in operator.log
    claim.release()
    assert refused(audited.log, installed.account) == []
    assert used(audited.log, installed.account) >= {
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("discovery.k8s.io", "endpointslices", "create"),
        ("", "secrets", "create"),
        ("", "configmaps", "patch"),
    }
    installed.uninstall()


def test_without_the_right_to_read_secrets_a_topic_says_so_and_others_go_on(
    audited: Audited,
) -> None:
    installed = Release(audited.cluster, "evenkeel-careful")
    careful = make_namespace(audited.cluster.admin, "careful")
    options = ("watch.namespaces={careful}", "rbac.secrets.enabled=false")
    installed.install("--take-ownership", "--set", ",".join(options))
    with installed.running() as operator:
        operator.wait_until_ready()
        refs = {"credentialsSecretRef": {"name": "acl"}}
        careful.make("Topic", "payments", {"nameServers": ["127.0.0.1:1"], **refs})
        careful.until(
            "topics", "payments", lambda it: read_condition(it, "Ready")[1] == "SecretForbidden"
        )
        careful.make("Topic", "orders", {"route": ROUTE})
        careful.until("topics", "orders", is_ready)
        assert "Traceback" not in operator.log
    installed.uninstall()


def left_of(installed: Release) -> list[str]:
    """List the objects that are left of a release, without the definitions, which must stay."""
    admin, found = installed.cluster.admin, []
    for path in (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{installed.namespace}/roles",
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{installed.namespace}/rolebindings",
        f"/apis/apps/v1/namespaces/{installed.namespace}/deployments",
        f"/api/v1/namespaces/{installed.namespace}/serviceaccounts",
        f"/api/v1/namespaces/{installed.namespace}/services",
        f"/api/v1/namespaces/{installed.namespace}/configmaps",
        f"/api/v1/namespaces/{installed.namespace}/secrets",
    ):
        for each in admin.ask("GET", path).body["items"]:
            labels = each["metadata"].get("labels") or {}
            is_ours = labels.get("app.kubernetes.io/instance") == release.NAME
            if is_ours or each.get("type", "").startswith("helm"):
                found.append(f"{path}/{each['metadata']['name']}")
    return found
