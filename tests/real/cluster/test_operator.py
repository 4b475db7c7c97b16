"""The operator on a real API server: it turns topics and groups into statuses and Events."""

import os
import signal
from pathlib import Path

import yaml

import sandbox.operator
from sandbox.kubernetes import Cluster
from sandbox.rocketmq import RocketMq
from sandbox.statuses import Document, count_loads, read_condition
from sandbox.waiting import wait_for
from tests.real.cluster.running import Namespace, RunningOperator

ROOT = Path(__file__).parents[3]
ROUTE = [{"broker": "broker-a", "readQueues": 8, "writeQueues": 8}]
GROUPS = "consumergroups"


def static(*names: str) -> Document:
    return {
        "topics": [{"name": "orders"}],
        "consumers": {"static": [{"id": each} for each in names]},
    }


def make_assigned(namespace: Namespace, *names: str) -> Document:
    """Create a group with a static list, wait until it is assigned, and return its status."""
    namespace.make("Topic", "orders", {"route": ROUTE})
    namespace.make("ConsumerGroup", "billing", static(*names))
    return namespace.until(GROUPS, "billing", is_ready)


def of_pods() -> Document:
    pods = {"podSelector": {"matchLabels": {"app": "billing"}}}
    return {"topics": [{"name": "orders"}], "consumers": pods}


def is_ready(status: Document) -> bool:
    return read_condition(status, "Ready")[0] == "True"


def test_a_topic_gets_its_route_from_the_name_server(
    operator: RunningOperator, namespace: Namespace, rocketmq: RocketMq, topic: str
) -> None:
    spec = {"topic": topic, "nameServers": [rocketmq.name_server.address]}
    namespace.make("Topic", "orders", spec)
    status = namespace.until("topics", "orders", is_ready)
    assert [each["broker"] for each in status["brokers"]] == ["broker-a", "broker-b"]
    assert status["readQueues"] == 4
    assert status["observedGeneration"] == 1


def test_queues_stay_in_the_zone_that_their_broker_tells_the_name_server(
    operator: RunningOperator, namespace: Namespace, rocketmq: RocketMq, topic: str
) -> None:
    spec = {"topic": topic, "nameServers": [rocketmq.name_server.address]}
    namespace.make("Topic", "orders", spec)
    status = namespace.until("topics", "orders", is_ready)
    assert [each["zone"] for each in status["brokers"]] == ["zone-a", "zone-b"]
    there = {"static": [{"id": "a", "zone": "zone-b"}, {"id": "b", "zone": "zone-a"}]}
    group = {"topics": [{"name": "orders"}], "consumers": there}
    namespace.make("ConsumerGroup", "billing", group)
    assigned = namespace.until(GROUPS, "billing", is_ready)
    shares = {each["consumer"]: each["queues"] for each in assigned["assignments"]}
    assert {name: [part["broker"] for part in parts] for name, parts in shares.items()} == {
        "a": ["broker-b"],
        "b": ["broker-a"],
    }


def test_a_topic_that_is_nowhere_says_what_to_do(
    operator: RunningOperator, namespace: Namespace, rocketmq: RocketMq
) -> None:
    spec = {"nameServers": [rocketmq.name_server.address]}
    namespace.make("Topic", "nowhere", spec)
    namespace.make("Topic", "nobody", {"nameServers": ["does-not-exist.invalid:9876"]})
    for name, reason in (("nowhere", "TopicUnknown"), ("nobody", "NameServerUnreachable")):
        namespace.until(
            "topics",
            name,
            lambda it, reason=reason: read_condition(it, "Ready") == ("False", reason),  # type: ignore[misc]
        )


def test_a_list_of_consumers_is_assigned_and_an_event_tells_what_moved(
    operator: RunningOperator, namespace: Namespace
) -> None:
    first = make_assigned(namespace, "a", "b")
    assert count_loads(first) == {"a": 4, "b": 4}
    assert first["epoch"] == 1
    namespace.change(GROUPS, "billing", {"spec": static("a", "b", "c")})
    second = namespace.until(GROUPS, "billing", lambda it: it.get("epoch") == 2)
    assert count_loads(second) == {"a": 3, "b": 3, "c": 2}
    assert second["lastRebalance"]["trigger"] == "SpecChanged"
    assert second["lastRebalance"]["epoch"] == 2
    moves = second["lastRebalance"]["moves"]
    assert sorted((each["from"], each["to"], each["reason"]) for each in moves) == [
        ("a", "c", "joined"), ("b", "c", "joined"),
    ]  # fmt: skip
    assert sum(len(each["queues"]) for each in moves) == second["moved"] == 2
    (told,) = wait_for(namespace.events, bool)
    assert told[0] == "Rebalanced"
    assert "a -> c, joined: orders@broker-a" in told[1]


def test_pods_come_and_go(operator: RunningOperator, namespace: Namespace) -> None:
    namespace.make("Topic", "orders", {"route": ROUTE})
    namespace.make("ConsumerGroup", "billing", of_pods())
    namespace.until(GROUPS, "billing", lambda it: read_condition(it, "Assigned")[1] == "Unowned")
    for name in ("billing-x", "billing-y"):
        namespace.pod(name, {"app": "billing"})
    namespace.pod("other", {"app": "other"})
    both = namespace.until(
        GROUPS, "billing", lambda it: count_loads(it) == {"billing-x": 4, "billing-y": 4}
    )
    namespace.set_ready("billing-y", "False")
    one = namespace.until(GROUPS, "billing", lambda it: count_loads(it) == {"billing-x": 8})
    assert one["epoch"] > both["epoch"]
    assert one["lastRebalance"]["trigger"] == "ConsumersChanged"
    namespace.delete(namespace.core("pods", "billing-x"))
    gone = namespace.until(GROUPS, "billing", lambda it: count_loads(it) == {})
    assert read_condition(gone, "Ready") == ("False", "Unowned")


def test_objects_of_others_are_left_as_they_are(
    operator: RunningOperator, namespace: Namespace
) -> None:
    """Operators that use kopf share a finalizer, and each would remove it from all objects."""
    namespace.pod("theirs", {"app": "billing"})
    finalizers = ["kopf.zalando.org/KopfFinalizerMarker"]
    namespace.patch(namespace.core("pods", "theirs"), {"metadata": {"finalizers": finalizers}})
    namespace.make("Topic", "orders", {"route": ROUTE})
    namespace.make("ConsumerGroup", "billing", of_pods())
    namespace.until(GROUPS, "billing", lambda it: count_loads(it) == {"theirs": 8})
    # The pod stays until its finalizer is removed.
    namespace.delete(namespace.core("pods", "theirs"))
    namespace.until(GROUPS, "billing", lambda it: count_loads(it) == {})
    found = namespace.found(namespace.core("pods", "theirs"))
    assert found is not None
    assert found["metadata"]["finalizers"] == finalizers
    assert "annotations" not in found["metadata"]


def test_a_pod_that_was_there_before_the_operator_and_goes_is_missed_at_once(
    kubernetes: Cluster, namespace: Namespace
) -> None:
    namespace.make("Topic", "orders", {"route": ROUTE})
    namespace.make("ConsumerGroup", "billing", {**of_pods(), "rebalance": {"interval": "1h"}})
    namespace.pod("billing-x", {"app": "billing"})
    with RunningOperator(kubernetes.admin.kubeconfig, namespace.name):
        namespace.until(GROUPS, "billing", lambda it: count_loads(it) == {"billing-x": 8})
        namespace.delete(namespace.core("pods", "billing-x"))
        namespace.until(GROUPS, "billing", lambda it: count_loads(it) == {})


def test_the_example_shares_its_queues_out_to_pods(
    operator: RunningOperator, namespace: Namespace
) -> None:
    for each in yaml.safe_load_all((ROOT / "examples" / "pods" / "billing.yaml").read_text()):
        namespace.make(each["kind"], each["metadata"]["name"], each["spec"])
    for name in ("billing-x", "billing-y"):
        namespace.pod(name, {"app": "billing"})
    namespace.until(
        GROUPS, "billing", lambda it: count_loads(it) == {"billing-x": 4, "billing-y": 4}
    )


def test_pods_read_from_brokers_of_their_nodes_zone(
    kubernetes: Cluster, namespace: Namespace
) -> None:
    options = ("--lease-namespace", namespace.name)
    with sandbox.operator.RunningOperator(kubernetes.admin.kubeconfig, *options):
        counts = {"readQueues": 8, "writeQueues": 8}
        route = [{"broker": f"broker-{zone}", "zone": zone, **counts} for zone in ("z1", "z2")]
        namespace.make("Topic", "orders", {"route": route})
        namespace.make("ConsumerGroup", "billing", of_pods())
        for zone in ("z1", "z2"):
            namespace.node(f"{namespace.name}-{zone}", zone)
            namespace.pod(f"in-{zone}", {"app": "billing"}, node=f"{namespace.name}-{zone}")

        def zones(status: Document) -> list[tuple[str, str, list[str]]]:
            return [
                (
                    each["consumer"],
                    each.get("zone", ""),
                    [part["broker"] for part in each["queues"]],
                )
                for each in status.get("assignments", [])
            ]

        wanted = [(f"in-{zone}", zone, [f"broker-{zone}"]) for zone in ("z1", "z2")]
        namespace.until(GROUPS, "billing", lambda it: zones(it) == wanted)


def test_an_older_group_of_the_same_name_wins(
    operator: RunningOperator, namespace: Namespace, rocketmq: RocketMq, topic: str
) -> None:
    spec = {"topic": topic, "nameServers": [rocketmq.name_server.address]}
    namespace.make("Topic", "orders", spec)
    namespace.make("ConsumerGroup", "a-old", {**static("a"), "group": "billing"})
    namespace.until(GROUPS, "a-old", is_ready)
    namespace.make("ConsumerGroup", "b-new", {**static("b"), "group": "billing"})
    namespace.until(
        GROUPS, "b-new", lambda it: read_condition(it, "Ready") == ("False", "OlderGroup")
    )
    namespace.delete(namespace.path(GROUPS, "a-old"))
    namespace.until(GROUPS, "b-new", is_ready)


def test_an_older_group_takes_no_topic_from_one_that_reads_it(
    operator: RunningOperator, namespace: Namespace
) -> None:
    for each in ("bills", "orders"):
        namespace.make("Topic", each, {"route": ROUTE})
    shared = {**static("a"), "group": "shared"}
    namespace.make("ConsumerGroup", "a-old", {**shared, "topics": [{"name": "bills"}]})
    namespace.make("ConsumerGroup", "b-new", shared)
    for each in ("a-old", "b-new"):
        namespace.until(GROUPS, each, is_ready)
    namespace.change(GROUPS, "a-old", {"spec": {"topics": [{"name": "bills"}, {"name": "orders"}]}})
    namespace.until(GROUPS, "a-old", lambda it: read_condition(it, "Ready")[0] == "False")
    assert read_condition(namespace.status(GROUPS, "a-old"), "Ready") == ("False", "OlderGroup")
    assert is_ready(namespace.status(GROUPS, "b-new"))
    namespace.change(GROUPS, "a-old", {"spec": {"topics": [{"name": "bills"}]}})
    namespace.until(GROUPS, "a-old", is_ready)


def test_a_group_without_its_topic_waits_for_it(
    operator: RunningOperator, namespace: Namespace
) -> None:
    namespace.make("ConsumerGroup", "billing", static("a"))
    namespace.until(
        GROUPS, "billing", lambda it: read_condition(it, "Ready") == ("False", "TopicNotFound")
    )
    namespace.make("Topic", "orders", {"route": ROUTE})
    namespace.until(GROUPS, "billing", is_ready)


def test_nothing_is_written_where_nothing_changes(
    own_operator: RunningOperator, namespace: Namespace
) -> None:
    namespace.make("Topic", "orders", {"route": ROUTE, "refreshInterval": "100ms"})
    rebalance = {"interval": "100ms"}
    namespace.make("ConsumerGroup", "billing", {**static("a"), "rebalance": rebalance})
    namespace.until(GROUPS, "billing", is_ready)

    def looks() -> float:
        return own_operator.metric("reconciles_total", kind="ConsumerGroup") or 0

    before = looks()
    version = namespace.get(GROUPS, "billing")["metadata"]["resourceVersion"]
    assert wait_for(looks, lambda count: count > before + 10) > before + 10
    assert namespace.get(GROUPS, "billing")["metadata"]["resourceVersion"] == version


def test_a_second_operator_takes_over_and_goes_on_where_the_first_was(
    kubernetes: Cluster, own_operator: RunningOperator, namespace: Namespace
) -> None:
    make_assigned(namespace, "a", "b")
    with RunningOperator(kubernetes.admin.kubeconfig, namespace.name) as second:
        wait_for(lambda: second.get("/readyz")[0], lambda code: code == 200)
        assert second.metric("leader") == 0
        own_operator.kill()
        second.wait_until_ready()
        namespace.change(GROUPS, "billing", {"spec": static("a")})
        status = namespace.until(GROUPS, "billing", lambda it: it["epoch"] == 2)
        assert count_loads(status) == {"a": 8}


def test_a_leader_that_stops_gives_the_lease_back(
    own_operator: RunningOperator, namespace: Namespace
) -> None:
    own_operator.stop()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace.name}/leases/evenkeel-operator"
    lease = namespace.user.ask("GET", path)
    assert lease.body["spec"].get("holderIdentity", "") == ""


def test_a_leader_that_was_frozen_overwrites_nothing(
    kubernetes: Cluster, own_operator: RunningOperator, namespace: Namespace
) -> None:
    make_assigned(namespace, "a", "b")
    with RunningOperator(kubernetes.admin.kubeconfig, namespace.name) as second:
        os.kill(own_operator.pid, signal.SIGSTOP)
        second.wait_until_ready()
        namespace.change(GROUPS, "billing", {"spec": static("a")})
        namespace.until(GROUPS, "billing", lambda it: it["epoch"] == 2)
        os.kill(own_operator.pid, signal.SIGCONT)
        namespace.change(GROUPS, "billing", {"spec": static("a", "b", "c")})
        status = namespace.until(GROUPS, "billing", lambda it: len(count_loads(it)) == 3)
        assert status["epoch"] == 3
        assert wait_for(lambda: own_operator.metric("leader"), lambda found: found == 0) == 0
        assert second.metric("leader") == 1


def test_an_api_server_that_is_away_until_the_lead_is_lost_changes_nothing(
    kubernetes: Cluster, own_operator: RunningOperator, namespace: Namespace
) -> None:
    namespace.make("Topic", "orders", {"route": ROUTE})
    namespace.make("ConsumerGroup", "billing", of_pods())
    namespace.pod("billing-x", {"app": "billing"})
    before = namespace.until(GROUPS, "billing", is_ready)
    kubernetes.servers["kube-apiserver"].kill()
    assert wait_for(lambda: own_operator.metric("leader"), lambda found: found == 0) == 0
    kubernetes.servers["kube-apiserver"].restart()
    own_operator.wait_until_ready()
    namespace.pod("billing-y", {"app": "billing"})
    after = namespace.until(
        GROUPS, "billing", lambda it: count_loads(it) == {"billing-x": 4, "billing-y": 4}
    )
    assert after["epoch"] == before["epoch"] + 1


def test_the_series_of_an_object_go_with_it(
    own_operator: RunningOperator, namespace: Namespace
) -> None:
    make_assigned(namespace, "a")
    series = f'evenkeel_group_queues{{name="billing",namespace="{namespace.name}"}} 8.0'
    wait_for(lambda: own_operator.get("/metrics")[1], lambda text: series in text)
    assert series in own_operator.get("/metrics")[1]
    namespace.delete(namespace.path(GROUPS, "billing"))
    text = wait_for(lambda: own_operator.get("/metrics")[1], lambda text: "billing" not in text)
    assert "billing" not in text
