"""Annotations that request something now, on a real API server."""

import json

from sandbox.kubernetes import Cluster
from sandbox.statuses import Document, count_loads, read_condition
from sandbox.waiting import wait_for
from tests.real.cluster.jobs import DRIVER, GROUPS, ROUTE, Kubelet, is_running, job
from tests.real.cluster.running import Namespace, RunningOperator

LABELS = {"app": "billing"}


def ask(namespace: Namespace, **annotations: str | None) -> None:
    """Set annotations, or remove them."""
    found = {f"evenkeel.dev/{name}": value for name, value in annotations.items()}
    namespace.change(GROUPS, "billing", {"metadata": {"annotations": found}})


def share(namespace: Namespace, *pods: str) -> Document:
    """Create a group of pods, and wait until they share its queues."""
    namespace.make("Topic", "orders", {"route": ROUTE})
    for name in pods:
        namespace.pod(name, LABELS)
    consumers = {"podSelector": {"matchLabels": LABELS}}
    namespace.make(
        "ConsumerGroup", "billing", {"topics": [{"name": "orders"}], "consumers": consumers}
    )
    return namespace.until(GROUPS, "billing", lambda it: len(count_loads(it)) == len(pods))


def make_running(namespace: Namespace) -> tuple[Kubelet, str, list[str]]:
    """Create a group whose job runs with two executors; return its driver and their pods."""
    namespace.make_known_topic("orders", ROUTE)
    namespace.claim("billing-state")
    namespace.make("ConsumerGroup", "billing", job())
    kubelet = Kubelet(namespace)
    driver = kubelet.driver()
    kubelet.runs()
    names = [kubelet.executor(number, driver) for number in ("1", "2")]
    kubelet.reports(driver, 1, "1", "2")
    namespace.until(GROUPS, "billing", is_running)
    return kubelet, driver, names


def test_a_paused_group_is_rebalanced_once_whoever_leads_afterwards(
    kubernetes: Cluster, namespace: Namespace
) -> None:
    kubeconfig = kubernetes.admin.kubeconfig
    with RunningOperator(kubeconfig, namespace.name):
        share(namespace, "pod-a", "pod-b")
        ask(namespace, paused="true")
        namespace.pod("pod-c", LABELS)
        paused = namespace.until(GROUPS, "billing", lambda it: it["consumers"] == 3)
        assert count_loads(paused) == {"pod-a": 4, "pod-b": 4, "pod-c": 0}
        ask(namespace, rebalance="monday")
        moved = namespace.until(GROUPS, "billing", lambda it: it.get("rebalancedFor"))
        assert moved["rebalancedFor"] == "monday"
        assert sorted(count_loads(moved).values()) == [2, 3, 3]
        assert moved["lastRebalance"]["trigger"] == "Asked"
    namespace.pod("pod-d", LABELS)
    with RunningOperator(kubeconfig, namespace.name):
        after = namespace.until(GROUPS, "billing", lambda it: it["consumers"] == 4)
        assert count_loads(after) == {**count_loads(moved), "pod-d": 0}
        assert after["lastRebalance"] == moved["lastRebalance"]


def test_a_drained_pod_is_emptied_until_its_name_is_taken_away(
    operator: RunningOperator, namespace: Namespace
) -> None:
    share(namespace, "pod-a", "pod-b")
    ask(namespace, drain="pod-b,pod-of-yesterday")
    drained = namespace.until(
        GROUPS, "billing", lambda it: read_condition(it, "Drained") == ("True", "Empty")
    )
    assert count_loads(drained) == {"pod-a": 8, "pod-b": 0}
    ask(namespace, drain=None)
    back = namespace.until(GROUPS, "billing", lambda it: count_loads(it)["pod-b"])
    assert count_loads(back) == {"pod-a": 4, "pod-b": 4}
    assert read_condition(back, "Drained") == ("", "")


def test_a_drained_executor_s_slot_waits_for_the_next_one_with_its_queues(
    operator: RunningOperator, namespace: Namespace
) -> None:
    kubelet, driver, names = make_running(namespace)
    ask(namespace, drain=names[1])
    status = namespace.until(
        GROUPS, "billing", lambda it: read_condition(it, "Drained")[0] == "False"
    )
    (said,) = [each["message"] for each in status["conditions"] if each["type"] == "Drained"]
    assert said == f"{names[1]} fills billing-1"
    assert kubelet.driver() == driver, "nothing needs a restart"
    kubelet.reports(driver, 1, "1")
    namespace.delete(namespace.core("pods", names[1]))
    empty = namespace.until(
        GROUPS, "billing", lambda it: read_condition(it, "Drained")[0] == "True"
    )
    new = kubelet.executor("3", driver)
    kubelet.reports(driver, 1, "1", "3")
    full = namespace.until(GROUPS, "billing", lambda it: it["assignments"][1]["pod"] == new)
    for each in (empty, full):
        assert count_loads(each) == {"billing-0": 4, "billing-1": 4}
        assert each["epoch"] == 1


def test_a_job_that_stopped_for_lost_messages_starts_when_it_is_asked_to_skip_them(
    operator: RunningOperator, namespace: Namespace
) -> None:
    kubelet, first, _ = make_running(namespace)
    kubelet.reports(first, 1, error="DataLossError: messages are lost")
    kubelet.ended(78)
    namespace.until(GROUPS, "billing", lambda it: read_condition(it, "Ready")[1] == "Failed")
    ask(namespace, skip="monday")
    second = kubelet.driver(but=first)
    made = namespace.found(namespace.core("configmaps", "billing-job"))
    assert made is not None
    assert json.loads(made["data"]["job.json"])["skip"] == "monday"

    kubelet.runs()
    lost = "orders@broker-a 0: 39 messages, offsets 2 to 40"
    skipped = {"value": "monday", "messages": 39, "lost": lost}
    facts = {"adoptedEpoch": 1, "slots": {}, "pinned": True, "error": None, "skipped": skipped}
    report = {"data": {"report.json": json.dumps({"driver": second, **facts})}}
    namespace.patch(namespace.core("configmaps", DRIVER), report)
    told = namespace.until(GROUPS, "billing", lambda it: it.get("lastSkip"))["lastSkip"]
    assert {name: told[name] for name in skipped} == skipped
    events = wait_for(namespace.events, lambda found: "Skipped" in dict(found))
    assert dict(events)["Skipped"] == f"39 messages were skipped as requested: {lost}"
