"""
An API server answers 503, 403 or nothing for a while, or the rights in a namespace are removed.

The operator survives the outage, its probes report the outage, and the operator works again by
itself soon after the outage. With `make outages`, each outage lasts two minutes. Faults that no
watch can survive end the process.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.kubernetes import Cluster
from sandbox.statuses import Document, count_loads
from sandbox.waiting import wait_for
from tests.real.cluster.faulty import SILENCE, Answer, Call, Fault, FaultyApi, faulty
from tests.real.cluster.running import Namespace, RunningOperator

ROUTE = [{"broker": "broker-a", "readQueues": 8, "writeQueues": 8}]
GROUPS = "consumergroups"
RECOVERY_SECONDS = 30.0
OUTAGES = {"503": Answer(503), "403": Answer(403), "nothing": SILENCE}


@pytest.fixture
def outage_seconds(pytestconfig: pytest.Config) -> float:
    return float(pytestconfig.getoption("--outage-seconds"))


@pytest.fixture
def proxy(kubernetes: Cluster) -> Iterator[FaultyApi]:
    with faulty(kubernetes.admin, kubernetes.url) as found:
        yield found


def with_one_pod(namespace: Namespace) -> Document:
    """Make a group whose only pod owns all queues."""
    namespace.make("Topic", "orders", {"route": ROUTE})
    consumers = {"podSelector": {"matchLabels": {"app": "billing"}}}
    spec = {"topics": [{"name": "orders"}], "consumers": consumers, "group": namespace.name}
    namespace.make("ConsumerGroup", "billing", spec)
    namespace.pod("billing-x", {"app": "billing"})
    return namespace.until(GROUPS, "billing", lambda it: count_loads(it) == {"billing-x": 8})


def lasts(seconds: float, is_so: Callable[[], bool]) -> None:
    """Check that something stays true during the outage."""
    end = time.monotonic() + seconds
    wait_for(is_so, lambda found: not found or time.monotonic() > end, seconds + 1)
    assert is_so()


def probes(operator: RunningOperator) -> tuple[int, int]:
    return operator.get("/healthz")[0], operator.get("/readyz")[0]


@pytest.mark.parametrize("kind", OUTAGES)
def test_an_outage_is_lived_through_and_told_and_over_soon_after_its_end(
    proxy: FaultyApi, namespace: Namespace, tmp_path: Path, kind: str, outage_seconds: float
) -> None:
    with RunningOperator(proxy.kubeconfig(tmp_path), namespace.name) as operator:
        operator.wait_until_ready()
        before, pid = with_one_pod(namespace), operator.pid
        proxy.fault = lambda call: OUTAGES[kind]
        proxy.silence_watches() if kind == "nothing" else proxy.drop_watches()
        assert wait_for(lambda: probes(operator), lambda it: it == (200, 503), 40) == (200, 503)
        assert wait_for(lambda: operator.metric("leader"), lambda it: it == 0, 20) == 0
        lasts(outage_seconds, lambda: probes(operator) == (200, 503))
        namespace.pod("billing-y", {"app": "billing"})
        assert namespace.status(GROUPS, "billing") == before
        proxy.fault = lambda call: None
        after = namespace.until(
            GROUPS,
            "billing",
            lambda it: count_loads(it) == {"billing-x": 4, "billing-y": 4},
            RECOVERY_SECONDS,
        )
        assert after["epoch"] == before["epoch"] + 1
        assert wait_for(lambda: probes(operator), lambda it: it == (200, 200)) == (200, 200)
        assert operator.is_running
        assert operator.pid == pid


ENDS_A_WATCH = {
    "an-error": {"type": "ERROR", "object": {"code": 500, "message": "a fault of the test"}},
    "garbage": "no event at all",
}


@pytest.mark.parametrize("kind", ENDS_A_WATCH)
def test_what_ends_a_watch_ends_the_process_which_says_why_and_a_new_one_works(
    proxy: FaultyApi, namespace: Namespace, tmp_path: Path, kind: str
) -> None:
    """The kubelet restarts the operator. Without watches, it would notice no change."""
    broken = Answer(200, ENDS_A_WATCH[kind])
    with RunningOperator(proxy.kubeconfig(tmp_path), namespace.name) as operator:
        operator.wait_until_ready()
        proxy.fault = lambda call: broken if call.is_watch and "/pods" in call.path else None
        proxy.drop_watches()
        assert wait_for(lambda: operator.exit_code, lambda it: it is not None, 60) == 1
        assert "kopf's multidimensional multitasker has ended: " in operator.log
        assert "exits by force" not in operator.log
        proxy.fault = lambda call: None
        operator.start()
        operator.wait_until_ready()
        with_one_pod(namespace)


def refusing(namespace: Namespace) -> Fault:
    """Return a fault that removes all rights in one namespace."""
    inside = f"/namespaces/{namespace.name}/"
    message = {"message": f"the operator has no rights in namespace {namespace.name}"}
    return lambda call: Answer(403, message) if inside in call.path else None


def refused(operator: RunningOperator, namespace: Namespace) -> float | None:
    return operator.metric("namespace_refused", namespace=namespace.name)


@pytest.mark.parametrize("begins", ["at-the-start", "while-running"])
def test_a_namespace_whose_rights_are_taken_stops_no_other_one(
    proxy: FaultyApi,
    namespace: Namespace,
    make_namespace: Callable[[str], Namespace],
    tmp_path: Path,
    begins: str,
    outage_seconds: float,
) -> None:
    other = make_namespace("refused")
    with contextlib.ExitStack() as stack:
        kubeconfig = proxy.kubeconfig(tmp_path)
        operator = RunningOperator(kubeconfig, namespace.name, "--namespace", other.name)
        if begins == "at-the-start":
            proxy.fault = refusing(other)
        stack.enter_context(operator)
        operator.wait_until_ready()
        if begins == "while-running":
            with_one_pod(other)
            proxy.fault = refusing(other)
            proxy.drop_watches()
        wait_for(lambda: refused(operator, other), lambda it: it == 1, 40)
        assert refused(operator, other) == 1
        assert refused(operator, namespace) == 0
        with_one_pod(namespace)  # the operator still reconciles this namespace
        assert f"in namespace {other.name}" in operator.log
        lasts(outage_seconds, lambda: probes(operator) == (200, 200))
        if begins == "at-the-start":
            other.make("Topic", "orders", {"route": ROUTE})
        proxy.fault = lambda call: None
        wait_for(lambda: refused(operator, other), lambda it: it == 0, RECOVERY_SECONDS)
        assert refused(operator, other) == 0
        if begins == "while-running":
            other.pod("billing-y", {"app": "billing"})
            other.until(
                GROUPS, "billing", lambda it: count_loads(it) == {"billing-x": 4, "billing-y": 4}
            )
        else:
            other.until("topics", "orders", lambda it: it.get("readQueues") == 8)
        sys.stdout.write(operator.log)


def test_objects_of_a_namespace_that_cannot_be_seen_whole_say_so_and_stay_as_they_are(
    proxy: FaultyApi, namespace: Namespace, tmp_path: Path
) -> None:
    with RunningOperator(proxy.kubeconfig(tmp_path), namespace.name) as operator:
        operator.wait_until_ready()
        before = with_one_pod(namespace)

        def refuse_pods(call: Call) -> Answer | None:
            message = {"message": "pods is forbidden"}
            return Answer(403, message) if call.path.endswith("/pods") else None

        proxy.fault = refuse_pods
        proxy.drop_watches()
        namespace.delete(namespace.core("pods", "billing-x"))
        status = namespace.until(
            GROUPS, "billing", lambda it: "NamespaceForbidden" in str(it["conditions"]), 40
        )
        assert status["assignments"] == before["assignments"]
        proxy.fault = lambda call: None
        namespace.until(GROUPS, "billing", lambda it: count_loads(it) == {})
