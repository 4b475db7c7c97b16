"""An assignment that is too long for a status is in ConfigMaps; everything else stays the same."""

import json
from concurrent.futures import ThreadPoolExecutor

from sandbox.kubernetes import Cluster
from sandbox.statuses import Document, count_loads, read_condition
from sandbox.waiting import wait_for
from tests.real.cluster.running import Namespace, RunningOperator

GROUPS = "consumergroups"
TOPICS, QUEUES, CONSUMERS = 60, 210, 1000
"""Each consumer has a dozen queues, each of a different topic: about 800 KiB in total."""


def running(kubernetes: Cluster, namespace: Namespace) -> RunningOperator:
    return RunningOperator(kubernetes.admin.kubeconfig, namespace.name)


def make_many(namespace: Namespace) -> None:
    route = [{"broker": "broker-a", "readQueues": QUEUES, "writeQueues": QUEUES}]
    for number in range(TOPICS):
        namespace.make("Topic", f"topic-{number}", {"route": route})
    namespace.make("ConsumerGroup", "many", spec(CONSUMERS))


def spec(consumers: int) -> Document:
    return {
        "topics": [{"name": f"topic-{number}"} for number in range(TOPICS)],
        "consumers": {"static": [{"id": f"c-{number}"} for number in range(consumers)]},
    }


def config_maps(namespace: Namespace) -> dict[str, Document]:
    items = namespace.user.ask("GET", namespace.core("configmaps")).body["items"]
    return {each["metadata"]["name"]: each for each in items}


def shares(namespace: Namespace, status: Document) -> dict[str, list[Document]]:
    """Read the owners of queues from all slices."""
    found = config_maps(namespace)
    texts = [found[name]["data"]["assignments.json"] for name in status["slices"]]
    parts = [each for text in texts for each in json.loads(text)]
    return {each["consumer"]: each.get("queues", []) for each in parts}


def is_sliced(status: Document, epoch: int) -> bool:
    is_there = status.get("epoch") == epoch and bool(status.get("slices"))
    return is_there and read_condition(status, "Ready")[0] == "True"


def test_a_long_assignment_stands_in_slices_and_goes_on_after_a_restart(
    kubernetes: Cluster, namespace: Namespace
) -> None:
    with running(kubernetes, namespace):
        make_many(namespace)
        first = namespace.until(GROUPS, "many", lambda it: is_sliced(it, 1), 60)
        assert not first["assignments"]
        assert set(config_maps(namespace)) == set(first["slices"])
        assert all(each["immutable"] for each in config_maps(namespace).values())
        before = shares(namespace, first)
        whole = {"assignments": [{"consumer": k, "queues": v} for k, v in before.items()]}
        assert sum(count_loads(whole).values()) == TOPICS * QUEUES
    with running(kubernetes, namespace):
        namespace.change(GROUPS, "many", {"spec": spec(CONSUMERS - 1)})
        second = namespace.until(GROUPS, "many", lambda it: is_sliced(it, 2), 60)
        named = set(second["slices"])
        kept = wait_for(lambda: set(config_maps(namespace)), lambda names: names == named)
    assert kept == named
    after = shares(namespace, second)
    assert set(before) - set(after) == {f"c-{CONSUMERS - 1}"}
    moved = second["moved"]
    assert 0 < moved < 30  # of 12,600: only the queues of the consumer that left


def test_one_consumer_more_than_a_status_takes_stands_in_a_slice(
    kubernetes: Cluster, namespace: Namespace
) -> None:
    route = [{"broker": "broker-a", "readQueues": 8, "writeQueues": 8}]
    namespace.make("Topic", "orders", {"route": route})
    names = [f"shop-{number}" for number in range(1001)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: namespace.pod(name, {"app": "shop"}), names))
    of_pods = {"podSelector": {"matchLabels": {"app": "shop"}}}
    group = {"topics": [{"name": "orders"}], "consumers": of_pods}
    namespace.make("ConsumerGroup", "many", group)
    with running(kubernetes, namespace):
        status = namespace.until(GROUPS, "many", lambda it: it.get("slices"))
    assert read_condition(status, "Ready") == ("True", "Assigned")
    assert shares(namespace, status).keys() == set(names)


def test_a_status_whose_slices_are_gone_waits_and_says_how_to_go_on(
    kubernetes: Cluster, namespace: Namespace
) -> None:
    with running(kubernetes, namespace):
        make_many(namespace)
        first = namespace.until(GROUPS, "many", lambda it: is_sliced(it, 1), 60)
    for name in first["slices"]:
        namespace.delete(namespace.core("configmaps", name))
    with running(kubernetes, namespace):
        lost = namespace.until(
            GROUPS, "many", lambda it: read_condition(it, "Ready") == ("False", "SlicesMissing"), 60
        )
        assert lost["slices"] == first["slices"]
        assert "clear status.slices to assign all queues again" in json.dumps(lost["conditions"])
        path = namespace.path(GROUPS, "many", "status")
        namespace.patch(path, {"status": {"slices": None}})
        again = namespace.until(GROUPS, "many", lambda it: is_sliced(it, 2), 60)
    assert len(shares(namespace, again)) == CONSUMERS
