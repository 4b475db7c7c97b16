"""Checks the promises of docs/moving.md and docs/operating/scaling.md with RocketMQ's consumer."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mq_client import blocking
from mq_client.choosers import RoundRobin
from mq_client.messages import Message
from sandbox import go, jars, process, programs
from sandbox.kubernetes import Cluster
from sandbox.process import ChildProcess
from sandbox.rocketmq import RocketMq
from sandbox.statuses import Document, read_condition
from sandbox.waiting import wait_for
from tests.real import java_client
from tests.real.cluster.running import Namespace, RunningOperator

HERE = Path(__file__).parent
SCALING = HERE.parents[2] / "docs" / "operating" / "scaling.md"
STOP_SECONDS = 120.0


@pytest.fixture
def consumer(rocketmq: RocketMq, topic: str, group: str) -> Iterator[ChildProcess]:
    """RocketMQ's own consumer, which prints each message and fails at bad ones."""
    libraries = jars.fetch_classpath(java_client.TOOLS)
    classes = jars.compile_sources([HERE / "Leaving.java"], libraries)
    command = [
        str(jars.find_java()), *java_client.JAVA_OPTIONS, "-cp", f"{classes}:{libraries}",
        "Leaving", rocketmq.name_server.address, topic, group,
    ]  # fmt: skip
    with process.make_folder("evenkeel-leaving-") as folder:
        yield ChildProcess("consumer", command, folder, {})


def spec(group: str) -> Document:
    return {
        "group": group,
        "topics": [{"name": "orders"}, {"name": "retries"}],
        "job": {
            "image": "nothing",
            "sink": {"format": "noop"},
            "checkpoint": {"persistentVolumeClaim": "state"},
        },
    }


def test_a_job_takes_over_from_rocketmqs_own_consumers_with_what_they_failed_at(
    operator: RunningOperator,
    namespace: Namespace,
    rocketmq: RocketMq,
    client: blocking.Client,
    consumer: ChildProcess,
    topic: str,
    group: str,
) -> None:
    bodies = ["good 1", "bad 2", "good 3", "good 4", "good 5"]
    chooser = RoundRobin()
    for body in bodies:
        client.send([Message(topic, body.encode())], chooser)
    consumer.wait_until(lambda: all(map(consumer.has_said, bodies)), 300.0)

    servers = [rocketmq.name_server.address]
    retries = f"%RETRY%{group}"
    namespace.claim("state")
    namespace.make("Topic", "orders", {"topic": topic, "nameServers": servers})
    namespace.make("Topic", "retries", {"topic": retries, "nameServers": servers})
    namespace.make("ConsumerGroup", "billing", spec(group))

    def reason(status: Document) -> str:
        return read_condition(status, "Ready")[1]

    waiting = namespace.until(
        "consumergroups", "billing", lambda it: reason(it) == "ForeignConsumers"
    )
    assert waiting["queues"] == sum(
        len(client.find_route(each).readable) for each in (topic, retries)
    )
    assert namespace.found(namespace.core("pods", "billing-driver")) is None

    def behind(name: str) -> int:
        return sum(each.messages for each in client.measure_lag(group, name))

    # The consumer's last commit gets no answer and can be lost: wait for an earlier commit.
    assert wait_for(lambda: behind(topic), lambda count: count == 0) == 0
    consumer.stop(STOP_SECONDS)
    namespace.until("consumergroups", "billing", lambda it: reason(it) == "Starting")
    pod = namespace.core("pods", "billing-driver")
    assert wait_for(lambda: namespace.found(pod), lambda found: found is not None) is not None
    assert behind(topic) == 0
    assert wait_for(lambda: behind(retries), lambda count: count == 1) == 1


def test_going_back_starts_with_a_job_that_has_ended(
    operator: RunningOperator, namespace: Namespace, kubernetes: Cluster
) -> None:
    """A group that is suspended from the start behaves like one whose job has ended."""
    namespace.make(
        "Topic", "orders", {"route": [{"broker": "b", "readQueues": 1, "writeQueues": 1}]}
    )
    job = {**spec("billing"), "topics": [{"name": "orders"}], "suspend": True}
    namespace.make("ConsumerGroup", "billing", job)
    page = (HERE.parents[2] / "docs" / "moving.md").read_text("utf-8")
    (waits,) = re.findall(r"^kubectl (wait mqcg/billing .*)$", page, re.M)
    command = f"{go.build(programs.KUBECTL)} -n {namespace.name} {waits} --timeout 30s"
    environment = {**os.environ, "KUBECONFIG": str(kubernetes.admin.kubeconfig)}
    done = subprocess.run(
        ["sh", "-c", command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_an_autoscaler_is_taken_and_the_scale_is_the_number_of_executors(
    operator: RunningOperator, namespace: Namespace, kubernetes: Cluster
) -> None:
    namespace.make(
        "Topic", "orders", {"route": [{"broker": "b", "readQueues": 8, "writeQueues": 8}]}
    )
    namespace.make("ConsumerGroup", "billing", {**spec("billing"), "topics": [{"name": "orders"}]})
    page = SCALING.read_text("utf-8")
    (manifest,) = (
        each for each in re.findall(r"```yaml\n(.*?)```", page, re.S) if "autoscaling/" in each
    )
    kubectl = [str(go.build(programs.KUBECTL)), "--kubeconfig", str(kubernetes.admin.kubeconfig)]
    kubectl += ["-n", namespace.name]

    def run(*words: str, given: str = "") -> str:
        done = subprocess.run(
            [*kubectl, *words], input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("apply", "-f", "-", given=manifest)
    (command,) = re.findall(r"^kubectl (scale .*)$", page, re.M)
    run(*command.split())
    assert namespace.get("consumergroups", "billing")["spec"]["job"]["executors"] == 5
    scaled = namespace.until("consumergroups", "billing", lambda it: it.get("executors") == 5)
    assert scaled["selector"] == "evenkeel.dev/group=billing,spark-role=executor"
