"""A cluster's problems with a group's job: the group's status reports each; other groups go on."""

import copy
import json
from collections.abc import Callable, Iterator

import pytest

from sandbox.kubernetes import Cluster
from sandbox.statuses import Document, read_condition
from sandbox.waiting import wait_for
from tests.real.cluster.running import Namespace, RunningOperator

ROUTE = [{"broker": "broker-a", "readQueues": 8, "writeQueues": 8}]
GROUPS = "consumergroups"
DRIVER = "billing-driver"


@pytest.fixture(autouse=True)
def no_defect(operator: RunningOperator) -> Iterator[None]:
    """Check that the operator has logged no unexpected error."""
    yield
    assert "this is a defect" not in operator.log
    assert "Traceback" not in operator.log


@pytest.fixture
def topic(operator: RunningOperator, namespace: Namespace) -> None:
    namespace.make_known_topic("orders", ROUTE)


def job(**fields: object) -> Document:
    whole = {
        "image": "x:1",
        "sink": {"format": "noop"},
        "checkpoint": {"url": "/state"},
        "allowForeignConsumers": True,  # there is no broker that could list other readers
    }
    return {"topics": [{"name": "orders"}], "job": {**whole, **fields}}


def has_driver(namespace: Namespace) -> bool:
    return namespace.found(namespace.core("pods", DRIVER)) is not None


def told(namespace: Namespace, *words: str) -> Document:
    """Wait until the group's status says that it is not ready, with this message."""
    return namespace.until(
        GROUPS,
        "billing",
        lambda it: (
            read_condition(it, "Ready")[0] == "False"
            and all(word in json.dumps(it["conditions"]) for word in words)
        ),
    )


def others_go_on(namespace: Namespace) -> None:
    spec = {"topics": [{"name": "orders"}], "consumers": {"static": [{"id": "a"}]}}
    namespace.make("ConsumerGroup", "other", spec)
    namespace.until(GROUPS, "other", lambda it: read_condition(it, "Ready")[0] == "True")


@pytest.mark.usefixtures("topic")
def test_a_config_map_that_is_missing_is_named_and_the_job_starts_when_it_is_there(
    namespace: Namespace,
) -> None:
    transform = {"configMapRef": {"name": "code", "key": "transform.py"}}
    namespace.make("ConsumerGroup", "billing", job(transform=transform))
    told(namespace, "there is no ConfigMap", "/code, which its job names")
    assert not has_driver(namespace)
    place = namespace.core("configmaps")
    document = {"metadata": {"name": "code"}, "data": {"other.py": ""}}
    assert namespace.user.ask("POST", place, document).status == 201
    told(namespace, "ConfigMap code has no entry transform.py")
    namespace.patch(namespace.core("configmaps", "code"), {"data": {"transform.py": "x = 1"}})
    wait_for(lambda: has_driver(namespace), bool)
    assert has_driver(namespace)


@pytest.mark.usefixtures("topic")
def test_a_claim_that_is_missing_is_named(namespace: Namespace) -> None:
    checkpoint = {"persistentVolumeClaim": "billing-state"}
    namespace.make("ConsumerGroup", "billing", job(checkpoint=checkpoint))
    told(namespace, "there is no PersistentVolumeClaim", "/billing-state")
    namespace.claim("billing-state")
    wait_for(lambda: has_driver(namespace), bool)
    assert has_driver(namespace)


@pytest.mark.usefixtures("topic")
def test_executors_that_the_api_server_would_refuse_are_told_of_before_the_job_starts(
    namespace: Namespace,
) -> None:
    def executor(operator: str) -> Document:
        toleration = {"key": "spot", "operator": operator}
        return {"podTemplate": {"spec": {"tolerations": [toleration]}}}

    namespace.make("ConsumerGroup", "billing", job(executor=executor("Sometimes")))
    told(namespace, "the API server refuses its executors", "tolerations[0].operator", "Sometimes")
    assert not has_driver(namespace)
    namespace.change(GROUPS, "billing", {"spec": job(executor=executor("Exists"))})
    wait_for(lambda: has_driver(namespace), bool)
    assert has_driver(namespace)


@pytest.mark.usefixtures("topic")
def test_a_quota_that_is_used_up_is_told_and_the_job_starts_when_there_is_room(
    namespace: Namespace,
) -> None:
    place = namespace.core("resourcequotas")
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    assert namespace.user.ask("POST", place, quota).status == 201
    used = {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}
    namespace.patch(f"{place}/none/status", used)  # as the controller manager does
    namespace.make("ConsumerGroup", "billing", job())
    told(namespace, "exceeded quota: none")
    others_go_on(namespace)
    namespace.delete(f"{place}/none")
    wait_for(lambda: has_driver(namespace), bool)
    assert has_driver(namespace)


@pytest.mark.usefixtures("topic")
def test_a_namespace_that_is_being_deleted_gets_no_job(namespace: Namespace) -> None:
    namespace.make("ConsumerGroup", "billing", {**job(), "suspend": True})
    namespace.until(GROUPS, "billing", lambda it: read_condition(it, "Ready")[1] == "NotRunning")
    # The sandbox has no controller that empties a namespace, so the deletion does not end.
    namespace.delete(f"/api/v1/namespaces/{namespace.name}")
    namespace.change(GROUPS, "billing", {"spec": {"suspend": False}})
    told(namespace, "because it is being terminated")
    assert not has_driver(namespace)


@pytest.fixture
def grown_kinds(kubernetes: Cluster) -> Iterator[Callable[[], None]]:
    """Return a function that installs the kinds of a later version; restore ours at the end."""
    place = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    admin = kubernetes.admin
    paths = [f"{place}/{plural}.evenkeel.dev" for plural in ("topics", "consumergroups")]
    ours = {path: admin.ask("GET", path).body["spec"]["versions"] for path in paths}

    def install(path: str, versions: list[Document]) -> None:
        change = {"spec": {"versions": versions}}
        answer = admin.ask("PATCH", path, change, "application/merge-patch+json")
        assert answer.status == 200, answer.body

    def grow() -> None:
        for path, versions in ours.items():
            (grown,) = copy.deepcopy(versions)
            schema = grown["schema"]["openAPIV3Schema"]["properties"]
            schema["spec"]["properties"]["ofTomorrow"] = {"type": "string"}
            install(path, [grown])

    yield grow
    for path, versions in ours.items():
        install(path, versions)


def test_kinds_of_a_later_version_are_read_on(
    namespace: Namespace, grown_kinds: Callable[[], None]
) -> None:
    namespace.make("Topic", "orders", {"route": ROUTE})
    others_go_on(namespace)
    grown_kinds()
    change = {"spec": {"consumers": {"static": [{"id": "a"}, {"id": "b"}]}, "ofTomorrow": "x"}}

    def is_known() -> bool:
        namespace.change(GROUPS, "other", change)
        return "ofTomorrow" in namespace.get(GROUPS, "other")["spec"]

    wait_for(is_known, bool)
    namespace.until(GROUPS, "other", lambda it: it["consumers"] == 2)
    assert namespace.get(GROUPS, "other")["spec"]["ofTomorrow"] == "x"
