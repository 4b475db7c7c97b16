"""An API server refuses, is cut off, or drops watches: nothing is lost, and other groups go on."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.names import PAUSED
from sandbox.kubernetes import Cluster
from sandbox.statuses import Document, count_loads, read_condition
from sandbox.waiting import wait_for
from tests.real.cluster.faulty import Answer, Call, FaultyApi, faulty
from tests.real.cluster.running import Namespace, RunningOperator

ROUTE = [{"broker": "broker-a", "readQueues": 8, "writeQueues": 8}]
GROUPS = "consumergroups"
OF_PODS = {"podSelector": {"matchLabels": {"app": "billing"}}}


@pytest.fixture
def proxy(kubernetes: Cluster) -> Iterator[FaultyApi]:
    with faulty(kubernetes.admin, kubernetes.url) as found:
        yield found


@pytest.fixture
def operator(proxy: FaultyApi, namespace: Namespace, tmp_path: Path) -> Iterator[RunningOperator]:
    """An operator that uses the proxy."""
    with RunningOperator(proxy.kubeconfig(tmp_path), namespace.name) as found:
        found.wait_until_ready()
        yield found
        sys.stdout.write(found.log)  # pytest shows the log if the test has failed


def is_ready(status: Document) -> bool:
    return read_condition(status, "Ready")[0] == "True"


def with_two_pods(namespace: Namespace) -> Document:
    """Make a group whose two pods own four queues each."""
    namespace.make("Topic", "orders", {"route": ROUTE})
    spec = {"topics": [{"name": "orders"}], "consumers": OF_PODS}
    namespace.make("ConsumerGroup", "billing", spec)
    for name in ("billing-x", "billing-y"):
        namespace.pod(name, {"app": "billing"})
    return namespace.until(
        GROUPS, "billing", lambda it: count_loads(it) == {"billing-x": 4, "billing-y": 4}
    )


@pytest.mark.parametrize("status", [429, 500, 0])
def test_writes_that_fail_are_repeated(
    operator: RunningOperator, namespace: Namespace, proxy: FaultyApi, status: int
) -> None:
    before = with_two_pods(namespace)
    failed: list[Call] = []

    def fail_thrice(call: Call) -> Answer | None:
        if call.method == "PUT" and call.path.endswith("/billing/status") and len(failed) < 3:
            failed.append(call)
            return Answer(status)
        return None

    proxy.fault = fail_thrice
    namespace.set_ready("billing-y", "False")
    after = namespace.until(GROUPS, "billing", lambda it: count_loads(it) == {"billing-x": 8})
    assert len(failed) == 3
    assert after["epoch"] == before["epoch"] + 1


def test_one_group_whose_writes_are_refused_holds_up_no_other(
    operator: RunningOperator, namespace: Namespace, proxy: FaultyApi
) -> None:
    proxy.fault = lambda call: Answer(500) if "/consumergroups/bad/" in call.path else None
    namespace.make("Topic", "orders", {"route": ROUTE})
    spec = {"topics": [{"name": "orders"}], "consumers": {"static": [{"id": "a"}]}}
    namespace.make("ConsumerGroup", "bad", spec)
    namespace.make("ConsumerGroup", "good", {**spec, "group": "other"})
    namespace.until(GROUPS, "good", is_ready)
    assert namespace.status(GROUPS, "bad") == {}
    proxy.fault = lambda call: None
    namespace.until(GROUPS, "bad", is_ready, 90)


def test_watches_that_are_cut_and_refused_for_a_while_empty_no_group(
    operator: RunningOperator, namespace: Namespace, proxy: FaultyApi
) -> None:
    before = with_two_pods(namespace)
    refused: list[Call] = []

    def refuse_watches(call: Call) -> Answer | None:
        if call.method == "GET" and call.path.endswith(("/pods", "/consumergroups", "/topics")):
            refused.append(call)
            return Answer(500)
        return None

    proxy.fault = refuse_watches
    proxy.drop_watches()
    wait_for(lambda: len(refused), lambda count: count >= 3)
    namespace.delete(namespace.core("pods", "billing-y"))
    namespace.pod("billing-z", {"app": "billing"})
    assert namespace.status(GROUPS, "billing")["assignments"] == before["assignments"]
    proxy.fault = lambda call: None
    after = namespace.until(
        GROUPS, "billing", lambda it: count_loads(it) == {"billing-x": 4, "billing-z": 4}, 120
    )
    assert after["epoch"] > before["epoch"]


def test_a_list_that_is_stale_brings_no_pod_back(
    operator: RunningOperator, namespace: Namespace, proxy: FaultyApi
) -> None:
    with_two_pods(namespace)
    stale = namespace.user.ask("GET", namespace.core("pods")).body
    namespace.delete(namespace.core("pods", "billing-y"))
    namespace.pod("billing-z", {"app": "billing"})
    before = namespace.until(
        GROUPS, "billing", lambda it: count_loads(it) == {"billing-x": 4, "billing-z": 4}
    )
    lists: list[Call] = []
    too_old = {"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}

    def give_stale_lists(call: Call) -> Answer | None:
        if call.method != "GET" or not call.path.endswith("/pods"):
            return None
        if call.is_watch:
            return None if lists else Answer(200, too_old)
        lists.append(call)
        return Answer(200, stale)

    proxy.fault = give_stale_lists
    proxy.drop_watches()
    assert wait_for(lambda: len(lists), bool)
    # The watch reports this pod after all earlier changes.
    namespace.pod("billing-w", {"app": "billing"})
    wanted = {"billing-w", "billing-x", "billing-z"}
    after = namespace.until(GROUPS, "billing", lambda it: count_loads(it).keys() == wanted)
    assert after["epoch"] > before["epoch"]


def test_a_status_that_was_changed_by_somebody_else_is_looked_at_again(
    operator: RunningOperator, namespace: Namespace
) -> None:
    before = with_two_pods(namespace)
    path = namespace.path(GROUPS, "billing", "status")
    namespace.patch(path, {"status": {"assignments": [], "epoch": before["epoch"] + 5}})
    after = namespace.until(
        GROUPS, "billing", lambda it: count_loads(it) == {"billing-x": 4, "billing-y": 4}
    )
    assert after["epoch"] == before["epoch"] + 6


def test_an_annotation_pauses_a_group(operator: RunningOperator, namespace: Namespace) -> None:
    before = with_two_pods(namespace)
    annotations = {"metadata": {"annotations": {PAUSED: "true"}}}
    namespace.change(GROUPS, "billing", annotations)
    namespace.until(GROUPS, "billing", lambda it: read_condition(it, "Paused")[0] == "True")
    namespace.pod("billing-z", {"app": "billing"})
    status = namespace.until(
        GROUPS, "billing", lambda it: read_condition(it, "Balanced") == ("False", "Deferred")
    )
    assert count_loads(status) == {"billing-x": 4, "billing-y": 4, "billing-z": 0}
    assert status["moved"] == before.get("moved", 0)


def test_a_pod_that_was_made_under_a_drivers_name_meanwhile_is_not_deleted(
    operator: RunningOperator, namespace: Namespace, proxy: FaultyApi
) -> None:
    """A new leader may have created the pod while a delete of the old leader is in flight."""
    driver = namespace.core("pods", "billing-driver")
    namespace.make_known_topic("orders", ROUTE)
    job = {
        "image": "x:1",
        "sink": {"format": "noop"},
        "checkpoint": {"url": "/state"},
        "allowForeignConsumers": True,  # there is no broker that could list other readers
    }
    namespace.make("ConsumerGroup", "billing", {"topics": [{"name": "orders"}], "job": job})
    assert wait_for(lambda: namespace.found(driver), bool)
    deletes: list[Call] = []

    def make_anew(call: Call) -> Answer | None:
        if call.method == "DELETE" and call.path == driver and not deletes:
            namespace.delete(driver)
            namespace.pod("billing-driver", {"of": "somebody"})
            deletes.append(call)
        return None

    proxy.fault = make_anew
    namespace.change(GROUPS, "billing", {"spec": {"suspend": True}})
    assert wait_for(lambda: len(deletes), bool)
    namespace.until(GROUPS, "billing", lambda it: read_condition(it, "JobRunning")[1] == "Ended")
    found = namespace.found(driver)
    assert found is not None
    assert found["metadata"]["labels"] == {"of": "somebody"}
