"""
A real Prometheus scrapes an operator, a driver and a follower: all panels and alerts have data.

| Step | Action | Result |
|---|---|---|
| 1 | Start an operator on a real API server, with groups of all kinds | It is scraped completely |
| 2 | Serve the metrics of a driver and of a follower of the groups | They are scraped completely |
| 3 | Run each query of the dashboard, with values for its variables | Each has a result |
| 4 | Query each series that an alert uses | Each exists; all rules are evaluated |
"""

import asyncio
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from follower import metrics as follower_metrics
from follower import serving
from mq_client import blocking
from mq_client.values import MessageQueue
from sandbox import debian, jars, ports, process, prometheus
from sandbox.kubernetes import Cluster
from sandbox.prometheus import Prometheus, Target
from sandbox.rocketmq import RocketMq
from sandbox.statuses import Document, read_condition
from sandbox.waiting import wait_for
from spark_jobs.pipeline.executors import Executor
from spark_jobs.pipeline.facts import JobFacts, LaneFacts
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.metrics import JobMetrics
from tests import rule_checks
from tests.real.cluster import member_pods, running
from tests.real.cluster.jobs import GROUPS, ROUTE, Kubelet, is_running, job
from tests.real.cluster.running import Namespace, RunningOperator

SCALING = rule_checks.ROOT / "docs" / "operating" / "scaling.md"
NAMESPACE, TOPIC = "watched", "watched-orders"
OF_JOB, OF_MEMBERS, BY_MESSAGE = "billing", "shipping", "parcels"
DASHBOARD = json.loads((rule_checks.ROOT / rule_checks.DASHBOARD).read_text("utf-8"))
FILLED_IN = {"$namespace": NAMESPACE, "$__rate_interval": "5s", "$__range": "10s"}
ALERTS = rule_checks.alerts(rule_checks.ROOT)
ABOUT_MEMBERS = re.compile(r"evenkeel_(members|follower)_")
ABOUT_MESSAGES = re.compile(
    r"evenkeel_group_(ready_messages|retry_messages|oldest_waiting_seconds|parked_pops|dead_letters)"
)
SERIES = re.compile(r'evenkeel_\w+(?:\{(?:[^"}]|"[^"]*")*\})?')


def fill_in(query: str) -> str:
    """Fill in variables, and choose a group for which the query has data."""
    group = OF_MEMBERS if ABOUT_MEMBERS.search(query) else OF_JOB
    if ABOUT_MESSAGES.search(query):
        group = BY_MESSAGE
    return rule_checks.filled_in(query, {**FILLED_IN, "$group": group})


QUERIES = [fill_in(each) for each in rule_checks.queries(DASHBOARD)]


class Watched(RunningOperator):
    """An operator that serves members, and describes itself as a target of Prometheus."""

    def __init__(self, kubeconfig: Path, members_port: int) -> None:
        where = ("--members-service", member_pods.SERVICE, "--members-address", member_pods.ADDRESS)
        super().__init__(kubeconfig, NAMESPACE, *where, "--members-port", str(members_port))

    @property
    def target(self) -> Target:
        """The target, with the labels of the chart's ServiceMonitor."""
        return Target("evenkeel", self.port, {"namespace": "evenkeel", "pod": "evenkeel-0"})


@pytest.fixture(scope="module")
def watching(kubernetes: Cluster, rocketmq: RocketMq) -> Iterator[Prometheus]:
    """Run Prometheus, some groups with their operator, a driver and a follower."""
    try:
        debian.find_program("prometheus", "usr/bin/prometheus")
    except (process.SandboxError, jars.JarsError) as error:
        pytest.skip(f"NO REAL PROMETHEUS: {error}")
    namespace = running.make_namespace(kubernetes.admin, NAMESPACE)
    with ExitStack() as stack:
        claim = ports.claim()
        stack.callback(claim.release)
        operator = stack.enter_context(Watched(kubernetes.admin.kubeconfig, claim.port))
        operator.wait_until_ready()
        make_groups(namespace, rocketmq)
        make_members(namespace, claim.port)
        targets = [operator.target, serve_as_driver(stack), serve_as_follower(stack)]
        rules = rule_checks.ROOT / rule_checks.ALERTS
        yield stack.enter_context(prometheus.run(targets, rules))
        sys.stdout.write(operator.log)


def make_groups(namespace: Namespace, rocketmq: RocketMq) -> None:
    """Create a job whose queues move, one that waits for its driver, and a group in conflict."""
    name_server = rocketmq.name_server.address
    rocketmq.create_topics({TOPIC: 4})
    with blocking.Client(name_server) as client:  # so that the group has a lag
        client.commit("billing", dict.fromkeys(client.find_route(TOPIC, max_age=0).readable, 0))
    namespace.make("Topic", "orders", {"topic": TOPIC, "nameServers": [name_server]})
    namespace.make("Topic", "listed", {"route": ROUTE})
    namespace.claim("billing-state")
    namespace.make("ConsumerGroup", "billing", job())
    kubelet = Kubelet(namespace)
    driver = kubelet.driver()
    kubelet.runs()
    for number in ("1", "2"):
        kubelet.executor(number, driver)
    kubelet.reports(driver, 1, "1", "2")
    namespace.until(GROUPS, "billing", is_running)
    namespace.change(GROUPS, "billing", {"spec": job(executors=3)})
    namespace.until(GROUPS, "billing", lambda it: it["epoch"] == 2)
    kubelet.executor("3", driver)
    kubelet.reports(driver, 2, "1", "2", "3")
    namespace.until(GROUPS, "billing", lambda it: it["epoch"] == 3)
    namespace.make("ConsumerGroup", "waiting", job())
    namespace.until(GROUPS, "waiting", lambda it: read_condition(it, "Ready")[1] == "Starting")
    static: Document = {"topics": [{"name": "orders"}], "consumers": {"static": [{"id": "a"}]}}
    namespace.make("ConsumerGroup", "rival", {**static, "group": "billing"})
    namespace.until(GROUPS, "rival", lambda it: read_condition(it, "Ready")[1] == "OlderGroup")


def make_members(namespace: Namespace, port: int) -> None:
    """Create a group with a member that is refused, then let in, and then falls silent."""
    terms = {"session": "2s", "selector": {"matchLabels": member_pods.LABELS}}
    spec: Document = {"topics": [{"name": "listed"}], "consumers": {"members": terms}}
    namespace.make("ConsumerGroup", OF_MEMBERS, spec)
    pod = member_pods.join(namespace, "shipping-a", port)
    assert pod.ask(group=OF_MEMBERS, token="garbage")[1]["reason"] == "Forbidden"
    assert pod.ask(group=OF_MEMBERS, member="shipping-b")[1]["reason"] == "AnotherPod"
    answer = wait_for(lambda: pod.ask(group=OF_MEMBERS)[1], lambda it: bool(it.get("grants")))
    assert answer["grants"]
    by_message = {"topics": [{"name": "orders"}], "balance": "Messages"}
    namespace.make("ConsumerGroup", BY_MESSAGE, {**by_message, "consumers": {"members": terms}})


def serve_as_follower(stack: ExitStack) -> Target:
    """Serve the metrics of a follower, with the labels of the PodMonitor among the examples."""
    metrics = follower_metrics.Metrics()
    metrics.broker_failures.labels("pull").inc()
    claim = ports.claim()
    stack.callback(claim.release)
    over = threading.Event()

    async def serve() -> None:
        async with serving.serve(claim.port, metrics.registry, lambda: ""):
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    stack.callback(thread.join)
    stack.callback(over.set)
    labels = {"namespace": NAMESPACE, "name": OF_MEMBERS, "pod": "shipping-a"}
    return Target("followers", claim.port, labels)


def serve_as_driver(stack: ExitStack) -> Target:
    """Serve the metrics of a working driver, with the labels of the PodMonitor."""
    tally = Tally({"billing-0": 500, "billing-1": 700}, 90_000, 1, 40)
    slots = {"billing-0": Executor("1", "10.0.0.1", 1), "billing-1": Executor("2", "10.0.0.2", 1)}
    facts = JobFacts(
        2,
        1,
        41,
        slots,
        is_pinned=True,
        tally=tally,
        error=None,
        cancelled={"broker": 1},
        started={"python": 0.5},
        lanes=[LaneFacts(0, 42, 1.5, 700, ["broker-b"])],
    )
    metrics = JobMetrics(lambda: facts, lambda: {MessageQueue("orders", "broker-a", 0): 7})
    metrics.batch.observe(0.4)
    metrics.planning.observe(0.1)
    claim = ports.claim()
    stack.callback(claim.release)
    metrics.serve(claim.port)
    return Target("jobs", claim.port, {"namespace": NAMESPACE, "name": OF_JOB})


def test_all_are_scraped_whole(watching: Prometheus) -> None:
    def states() -> list[tuple[str, str]]:
        targets = watching.get("targets")["activeTargets"]
        return sorted((each["health"], each["lastError"]) for each in targets)

    assert wait_for(states, lambda it: it == 3 * [("up", "")]) == 3 * [("up", "")]


@pytest.mark.parametrize("query", sorted(set(QUERIES)))
def test_a_query_of_the_dashboard_shows_something(watching: Prometheus, query: str) -> None:
    assert wait_for(lambda: watching.ask(query), bool)


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_looks_at_series_that_are_there(watching: Prometheus, alert: str) -> None:
    looked_at = SERIES.findall(ALERTS[alert]["expr"])
    assert looked_at
    for series in looked_at:
        assert wait_for(lambda it=series: watching.ask(it), bool), series  # type: ignore[misc]


def test_autoscalers_get_one_number(watching: Prometheus) -> None:
    manifests = [
        yaml.safe_load(each)
        for each in re.findall(r"```yaml\n(.*?)```", SCALING.read_text("utf-8"), re.S)
    ]
    (keda,) = (each for each in manifests if each.get("kind") == "ScaledObject")
    (adapter,) = (each for each in manifests if "rules" in each)
    (trigger,) = keda["spec"]["triggers"]
    (rule,) = adapter["rules"]["external"]
    of_group = f'namespace="{NAMESPACE}",name="{OF_JOB}"'
    by_adapter = rule["metricsQuery"].replace("<<.Series>>", rule["seriesQuery"])
    for query in (
        trigger["metadata"]["query"].replace('"mq"', f'"{NAMESPACE}"'),
        by_adapter.replace("<<.LabelMatchers>>", of_group),
    ):
        assert len(wait_for(lambda it=query: watching.ask(it), bool)) == 1, query  # type: ignore[misc]


def test_all_rules_are_evaluated_and_those_that_apply_say_so(watching: Prometheus) -> None:
    def rules() -> dict[str, Document]:
        groups = watching.get("rules")["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}

    def are_evaluated(found: dict[str, Document]) -> bool:
        return all(rule["health"] != "unknown" for rule in found.values())

    found = wait_for(rules, are_evaluated)
    assert {name: rule.get("lastError") for name, rule in found.items()} == dict.fromkeys(ALERTS)
    assert {rule["health"] for rule in found.values()} == {"ok"}
    active = wait_for(
        lambda: {each["labels"]["alertname"]: each for each in watching.get("alerts")["alerts"]},
        lambda it: "EvenkeelGroupConflicted" in it,
    )
    assert active["EvenkeelGroupConflicted"]["labels"]["name"] == "rival"
    assert "OlderGroup" in active["EvenkeelGroupConflicted"]["annotations"]["description"]
    assert "EvenkeelOperatorDown" not in active
    told = [text for each in active.values() for text in each["annotations"].values()]
    assert not [text for text in told if "error" in text]


def test_metrics_are_named_and_explained_as_prometheus_asks_for(watching: Prometheus) -> None:
    found = wait_for(
        lambda: watching.get("metadata"),
        lambda it: "evenkeel_group_ready" in it and "evenkeel_job_batch" in it,
    )
    ours = {name: told[0] for name, told in found.items() if name.startswith("evenkeel_")}
    assert not [name for name, told in ours.items() if not told["help"]]
    counters = {name for name, told in ours.items() if told["type"] == "counter"}
    assert counters == {name for name in ours if name.endswith("_total")}
    assert not [name for name in ours if re.search(r"_(ms|millis|minutes|kb|count)\b", name)]
