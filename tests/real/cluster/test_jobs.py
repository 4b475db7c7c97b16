"""A group's job on a real API server; the test sets the status of pods as a kubelet would."""

import json

import pytest

from mq_client import blocking, filters
from sandbox.rocketmq import RocketMq
from sandbox.statuses import Document, count_loads, read_condition
from sandbox.waiting import wait_for
from tests.real.cluster.jobs import DRIVER, GROUPS, ROUTE, Kubelet, is_running, job
from tests.real.cluster.running import Namespace, RunningOperator


@pytest.fixture
def kubelet(operator: RunningOperator, namespace: Namespace) -> Kubelet:
    """A group whose job has just got its assignment."""
    namespace.make_known_topic("orders", ROUTE)
    namespace.claim("billing-state")
    namespace.make("ConsumerGroup", "billing", job())
    return Kubelet(namespace)


def test_a_job_starts_with_an_assignment_and_its_executors_show_in_the_status(
    kubelet: Kubelet, namespace: Namespace
) -> None:
    driver = kubelet.driver()
    first = namespace.status(GROUPS, "billing")
    assert first["epoch"] == 1
    assert count_loads(first) == {"billing-0": 4, "billing-1": 4}
    assert read_condition(first, "Ready") == ("False", "Starting")
    kubelet.runs()
    names = [kubelet.executor(number, driver) for number in ("1", "2")]
    kubelet.reports(driver, 1, "1", "2")
    status = namespace.until(GROUPS, "billing", is_running)
    assert [each["pod"] for each in status["assignments"]] == names
    assert status["adoptedEpoch"] == 1
    assert status["epoch"] == 1


def test_an_executor_whose_pod_goes_leaves_its_slot_and_keeps_its_queues(
    kubelet: Kubelet, namespace: Namespace
) -> None:
    driver = kubelet.driver()
    kubelet.runs()
    names = [kubelet.executor(number, driver) for number in ("1", "2")]
    kubelet.reports(driver, 1, "1", "2")
    namespace.until(GROUPS, "billing", is_running)
    namespace.change(GROUPS, "billing", {"spec": {"rebalance": {"grace": "5s"}}})
    kubelet.executor("3", driver)  # no report names this executor yet
    namespace.delete(namespace.core("pods", names[1]))
    status = namespace.until(
        GROUPS, "billing", lambda it: it["assignments"][1].get("emptySince", "")
    )
    assert count_loads(status) == {"billing-0": 4, "billing-1": 4}
    long_ago = [{}, {"emptySince": "2026-01-01T00:00:00Z"}]
    stored = [{**one, **new} for one, new in zip(status["assignments"], long_ago, strict=True)]
    namespace.patch(
        namespace.path(GROUPS, "billing", "status"), {"status": {"assignments": stored}}
    )
    kubelet.reports(driver, 1, "1", error="one is still starting")
    namespace.until(GROUPS, "billing", lambda it: read_condition(it, "Ready")[1] == "JobReports")
    kubelet.reports(driver, 1, "1", "3")
    status = namespace.until(
        GROUPS, "billing", lambda it: not it["assignments"][1].get("emptySince", "")
    )
    assert count_loads(status) == {"billing-0": 4, "billing-1": 4}
    assert status["assignments"][1]["executor"] == "3"
    assert status["epoch"] == 1


def test_more_and_fewer_executors_need_no_new_driver(
    kubelet: Kubelet, namespace: Namespace
) -> None:
    driver = kubelet.driver()
    kubelet.runs()
    for number in ("1", "2"):
        kubelet.executor(number, driver)
    kubelet.reports(driver, 1, "1", "2")
    namespace.until(GROUPS, "billing", is_running)
    namespace.change(GROUPS, "billing", {"spec": {"job": {"executors": 3}}})
    wider = namespace.until(GROUPS, "billing", lambda it: it["epoch"] == 2)
    assert count_loads(wider) == {"billing-0": 4, "billing-1": 4, "billing-2": 0}
    kubelet.executor("3", driver)
    kubelet.reports(driver, 2, "1", "2", "3")
    grown = namespace.until(GROUPS, "billing", lambda it: it["epoch"] == 3)
    assert count_loads(grown) == {"billing-0": 3, "billing-1": 3, "billing-2": 2}
    kubelet.reports(driver, 3, "1", "2", "3")
    namespace.until(GROUPS, "billing", lambda it: it["adoptedEpoch"] == 3)
    namespace.change(GROUPS, "billing", {"spec": {"job": {"executors": 2}}})
    shrunk = namespace.until(GROUPS, "billing", lambda it: it["epoch"] == 4)
    assert sorted(count_loads(shrunk).values()) == [4, 4]
    assert kubelet.driver() == driver


@pytest.mark.parametrize("is_seen", [True, False])
def test_the_lease_of_a_driver_that_was_seen_to_end_is_free_at_once(
    kubelet: Kubelet, namespace: Namespace, *, is_seen: bool
) -> None:
    """A driver that may still run somewhere keeps its Lease until it expires."""
    first = kubelet.driver()
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace.name}/leases/{DRIVER}"
    kubelet.holds_lease(first, seconds=30)
    kubelet.runs()
    if is_seen:
        kubelet.ended(137)
    else:
        kubelet.lost()
    kubelet.driver(but=first)
    found = namespace.found(lease)
    assert found is not None
    assert found["spec"].get("holderIdentity", "") == ("" if is_seen else first)
    assert found["spec"]["leaseDurationSeconds"] == 30


def test_a_driver_on_a_lost_node_is_replaced_when_its_lease_has_run_out(
    kubelet: Kubelet, namespace: Namespace
) -> None:
    """No kubelet can end the driver's pod, or report that it has ended."""
    first = kubelet.driver()
    namespace.bind(DRIVER)
    kubelet.runs()
    kubelet.holds_lease(first, seconds=2)
    kubelet.is_cut_off()
    second = kubelet.driver(but=first)
    namespace.bind(DRIVER)
    kubelet.runs()
    kubelet.holds_lease(second, seconds=2)
    path = namespace.core("pods", DRIVER)
    assert namespace.user.ask("DELETE", path, {"gracePeriodSeconds": 1}).status == 200
    found = namespace.found(path)
    assert found is not None
    assert found["metadata"]["uid"] == second
    status = namespace.until(
        GROUPS, "billing", lambda it: read_condition(it, "JobRunning") == ("False", "BackingOff")
    )
    assert "its Lease" in json.dumps(status["conditions"])
    kubelet.driver(but=second)


def test_a_driver_that_fails_is_replaced_and_one_that_cannot_go_on_is_not(
    kubelet: Kubelet, namespace: Namespace
) -> None:
    first = kubelet.driver()
    kubelet.ended(75)
    second = kubelet.driver(but=first)
    record = namespace.status(GROUPS, "billing")["job"]
    assert (record["exitCode"], record["failures"]) == (75, 1)
    kubelet.reports(second, 0, error="the transform raises: KeyError")
    kubelet.ended(78, seconds=6)
    status = namespace.until(
        GROUPS, "billing", lambda it: read_condition(it, "Ready")[1] == "Failed"
    )
    (message,) = [each["message"] for each in status["conditions"] if each["type"] == "Ready"]
    assert "exit code 78" in message or "KeyError" in message
    wait_for(lambda: namespace.found(namespace.core("pods", DRIVER)), lambda it: it is None)
    assert namespace.found(namespace.core("pods", DRIVER)) is None
    namespace.change(GROUPS, "billing", {"spec": {"job": {"trigger": "2s"}}})
    kubelet.driver(but=second)


def test_a_suspended_group_has_no_driver(kubelet: Kubelet, namespace: Namespace) -> None:
    kubelet.driver()
    namespace.change(GROUPS, "billing", {"spec": {"suspend": True}})
    wait_for(lambda: namespace.found(namespace.core("pods", DRIVER)), lambda it: it is None)
    status = namespace.until(GROUPS, "billing", lambda it: read_condition(it, "Ready")[0] == "True")
    assert read_condition(status, "Ready") == ("True", "NotRunning")
    namespace.change(GROUPS, "billing", {"spec": {"suspend": False}})
    kubelet.driver()


def test_a_group_that_is_being_deleted_starts_no_driver_again(
    kubelet: Kubelet, namespace: Namespace
) -> None:
    kubelet.driver()
    waits = {"metadata": {"finalizers": ["example.com/somebody-else"]}}
    namespace.change(GROUPS, "billing", waits)
    # As `kubectl delete --cascade=foreground` does.
    namespace.delete(namespace.path(GROUPS, "billing"))
    wait_for(lambda: namespace.found(namespace.core("pods", DRIVER)), lambda it: it is None)
    namespace.until(
        GROUPS,
        "billing",
        lambda it: (
            read_condition(it, "JobRunning") == ("False", "Ended")
            and namespace.found(namespace.core("pods", DRIVER)) is None
        ),
    )
    namespace.change(GROUPS, "billing", {"metadata": {"finalizers": None}})
    assert namespace.found(namespace.path(GROUPS, "billing")) is None


def test_a_job_by_the_clock_runs_once_for_the_starts_that_were_missed(
    kubelet: Kubelet, namespace: Namespace
) -> None:
    first = kubelet.driver()
    yearly = {"mode": "Scheduled", "schedule": {"cron": "0 0 1 1 *"}}
    namespace.change(GROUPS, "billing", {"spec": {"job": yearly}})
    between = namespace.until(
        GROUPS, "billing", lambda it: read_condition(it, "Ready") == ("True", "NotRunning")
    )
    assert read_condition(between, "Assigned") == ("False", "NotRunning")
    assert "the next run begins at 20" in json.dumps(between["conditions"])
    wait_for(lambda: namespace.found(namespace.core("pods", DRIVER)), lambda it: it is None)
    assert namespace.found(namespace.core("pods", DRIVER)) is None
    missed = {"status": {"job": {"lastRunAt": "2020-01-01T00:00:00Z"}}}
    namespace.patch(namespace.path(GROUPS, "billing", "status"), missed)
    second = kubelet.driver(but=first)
    run_at = namespace.status(GROUPS, "billing")["job"]["runAt"]
    assert run_at.endswith("-01-01T00:00:00Z")
    kubelet.ended(75)
    kubelet.driver(but=second)
    kubelet.ended(0, seconds=9)
    done = namespace.until(
        GROUPS, "billing", lambda it: read_condition(it, "Ready") == ("True", "NotRunning")
    )
    assert done["job"]["lastRunAt"] == run_at
    assert not done["job"].get("runAt")
    wait_for(lambda: namespace.found(namespace.core("pods", DRIVER)), lambda it: it is None)
    assert namespace.found(namespace.core("pods", DRIVER)) is None


def test_a_change_that_needs_a_restart_makes_a_new_driver(
    kubelet: Kubelet, namespace: Namespace
) -> None:
    first = kubelet.driver()
    namespace.change(GROUPS, "billing", {"spec": {"job": {"trigger": "3s"}}})
    kubelet.driver(but=first)


def test_a_job_that_becomes_consumers_ends_before_they_get_its_queues(
    kubelet: Kubelet, namespace: Namespace
) -> None:
    kubelet.driver()
    namespace.bind(DRIVER)  # so that the pod stays until a kubelet has ended it
    kubelet.runs()
    namespace.pod("shop-1", {"app": "shop"})
    of_pods = {"podSelector": {"matchLabels": {"app": "shop"}}}
    namespace.change(GROUPS, "billing", {"spec": {"job": None, "consumers": of_pods}})
    path = namespace.core("pods", DRIVER)

    def is_ending(pod: Document | None) -> bool:
        return pod is not None and "deletionTimestamp" in pod["metadata"]

    assert is_ending(wait_for(lambda: namespace.found(path), is_ending))
    waits = namespace.until(
        GROUPS, "billing", lambda it: read_condition(it, "Ready") == ("False", "JobEnds")
    )
    assert waits["epoch"] == 1
    assert count_loads(waits) == {"billing-0": 4, "billing-1": 4}
    namespace.delete(path)
    done = namespace.until(GROUPS, "billing", lambda it: count_loads(it) == {"shop-1": 8})
    assert read_condition(done, "Ready") == ("True", "Assigned")


def test_what_cannot_be_made_is_told_and_what_runs_goes_on(
    kubelet: Kubelet, namespace: Namespace
) -> None:
    driver = kubelet.driver()
    wrong = {"spec": {"serviceAccountName": "admin"}}
    change = {"spec": {"job": {"driver": {"podTemplate": wrong}}}}
    namespace.change(GROUPS, "billing", change)
    status = namespace.until(
        GROUPS, "billing", lambda it: "serviceAccountName" in json.dumps(it["conditions"])
    )
    assert read_condition(status, "Ready")[0] == "False"
    assert kubelet.driver() == driver


def test_a_job_waits_until_nobody_else_is_seen_to_read_in_its_name(
    operator: RunningOperator,
    namespace: Namespace,
    rocketmq: RocketMq,
    client: blocking.Client,
    topic: str,
    group: str,
) -> None:
    """The job waits for silent brokers, for drivers of other clusters, and for other readers."""
    namespace.make_known_topic("orders", ROUTE, topic=topic)
    namespace.claim("billing-state")
    everything = {topic: filters.match_tags("*")}
    elsewhere = f"evenkeel-{group}@billing-driver#2020-01-01T00:00:00Z/of-another-cluster"
    driver = client.join(group, elsewhere, everything)
    alone = {**job(allowForeignConsumers=False), "group": group}
    namespace.make("ConsumerGroup", "billing", alone)

    def waits(reason: str, words: str) -> None:
        status = namespace.until(
            GROUPS, "billing", lambda it: read_condition(it, "Ready") == ("False", reason)
        )
        assert words in json.dumps(status["conditions"])
        assert namespace.found(namespace.core("pods", DRIVER)) is None

    waits("BackingOff", f"until all brokers have listed the readers of '{group}': none of 1 name")
    servers = {"nameServers": [rocketmq.name_server.address]}
    namespace.change("topics", "orders", {"spec": servers})
    waits("OtherDriver", elsewhere)
    with blocking.Client(rocketmq.name_server.address) as second:
        others = second.join(group, "someone@else", everything)
        driver.leave()
        waits("ForeignConsumers", "someone@else")
        others.leave()
        Kubelet(namespace).driver()
