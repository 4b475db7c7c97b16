"""Members that are pods of a real API server, and a leader to which they send requests over TLS."""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mq_client import filters
from mq_client.blocking import Client
from mq_client.choosers import To
from mq_client.messages import Message
from mq_client.values import MessageQueue
from sandbox import ports
from sandbox.kubernetes import Cluster
from sandbox.rocketmq import RocketMq
from sandbox.statuses import read_condition
from sandbox.waiting import wait_for
from tests.real.cluster import member_pods
from tests.real.cluster.member_pods import ADDRESS, SERVICE, Pod, issue_token, join, until_granted
from tests.real.cluster.running import Namespace, RunningOperator

ROOT = Path(__file__).parents[3]
HANDLER = """
def handle(messages):
    for message in messages:
        print(message.body.decode(), flush=True)
"""
ENDPOINTS = f"/apis/discovery.k8s.io/v1/namespaces/{{}}/endpointslices/{SERVICE}-leader"


class Leader:
    """An operator that serves members."""

    def __init__(self, cluster: Cluster, namespace: Namespace, address: str = ADDRESS) -> None:
        self._claim = ports.claim()
        self.port = self._claim.port
        options = ("--members-service", SERVICE, "--members-address", address)
        self.operator = RunningOperator(
            cluster.admin.kubeconfig, namespace.name, *options, "--members-port", str(self.port)
        )

    @contextlib.contextmanager
    def run(self) -> Iterator["Leader"]:
        try:
            with self.operator:
                yield self
        finally:
            self._claim.release()


@pytest.fixture
def leader(kubernetes: Cluster, namespace: Namespace) -> Iterator[Leader]:
    with Leader(kubernetes, namespace).run() as found:
        found.operator.wait_until_ready()
        yield found


@pytest.fixture
def pod(namespace: Namespace, leader: Leader) -> Pod:
    member_pods.make_group(namespace)
    return join(namespace, "billing-a", leader.port)


def test_pods_share_the_queues_and_a_queue_moves_when_it_is_released(
    namespace: Namespace, leader: Leader, pod: Pod
) -> None:
    (answer,) = until_granted((pod, "0-3"))
    assert (answer["sessionSeconds"], answer["source"]["group"]) == (2.0, "billing")
    other = join(namespace, "billing-b", leader.port)
    until_granted((pod, "0-1"), (other, "2-3"))
    namespace.until(
        "consumergroups", "billing", lambda it: read_condition(it, "Ready")[0] == "True"
    )
    assert pod.leave() == 204
    until_granted((other, "0-3"))


def test_the_service_leads_to_the_leader(namespace: Namespace, leader: Leader, pod: Pod) -> None:
    until_granted((pod, "0-3"))
    found = wait_for(lambda: namespace.found(ENDPOINTS.format(namespace.name)), bool)
    assert found is not None
    assert found["endpoints"][0]["addresses"] == [ADDRESS]
    assert [each["port"] for each in found["ports"]] == [leader.port]
    told = member_pods.read_trust(namespace)
    assert told["coordinator"] == f"https://{SERVICE}.{namespace.name}.svc:{leader.port}"


def test_every_token_but_that_of_the_pod_itself_is_refused_with_a_reason(
    namespace: Namespace, leader: Leader, pod: Pod, make_namespace: Callable[[str], Namespace]
) -> None:
    elsewhere = make_namespace("other")
    elsewhere.pod("billing-a", member_pods.LABELS)
    namespace.pod("billing-b", member_pods.LABELS)
    namespace.pod("stranger", {"app": "other"})
    refused = {
        "Forbidden": [
            {"token": "garbage"},
            {"token": issue_token(namespace, "billing-a", "https://kubernetes.default.svc")},
        ],
        "NotAPod": [{"token": issue_token(namespace, None)}],
        "AnotherNamespace": [
            {"token": issue_token(elsewhere, "billing-a")},
            {"namespace": elsewhere.name},
        ],
        "AnotherPod": [{"member": "billing-b"}, {"token": issue_token(namespace, "billing-b")}],
        "NoSuchGroup": [{"group": "other"}],
    }
    for reason, requests in refused.items():
        for changed in requests:
            status, answer = pod.ask(**changed)
            assert answer["reason"] == reason, (changed, answer)
            assert status == (404 if reason == "NoSuchGroup" else 403)
    stranger = Pod(
        namespace, "stranger", leader.port, issue_token(namespace, "stranger"), pod.authorities
    )
    seen = wait_for(stranger.ask, lambda it: it[1]["reason"] != "PodUnseen")
    assert (seen[0], seen[1]["reason"]) == (403, "NotSelected")
    pod.begin()
    until_granted((pod, "0-3"))


def test_a_new_leader_grants_what_members_hold_and_nothing_else_for_one_session(
    kubernetes: Cluster, namespace: Namespace, leader: Leader, pod: Pod
) -> None:
    until_granted((pod, "0-3"))
    leader.operator.kill()
    with Leader(kubernetes, namespace, "10.1.2.4").run() as successor:
        successor.operator.wait_until_ready()
        pod.port = successor.port
        found = wait_for(
            lambda: namespace.found(ENDPOINTS.format(namespace.name)) or {},
            lambda it: it["endpoints"][0]["addresses"] == ["10.1.2.4"],
        )
        assert [each["port"] for each in found["ports"]] == [successor.port]
        held, (status, answer) = pod.holds, pod.ask()
        assert (status, answer.get("grants")) in ((200, held), (410, None)), answer
        if status == 410:  # the new leader has already led for longer than a session
            pod.begin()
        until_granted((pod, "0-3"))


def read_slots(namespace: Namespace) -> dict[str, str]:
    found = namespace.status("consumergroups", "billing").get("assignments", [])
    return {each["consumer"]: each.get("pod", "") for each in found}


def test_a_rolling_update_moves_nothing(namespace: Namespace, leader: Leader) -> None:
    """The pods of the new ReplicaSet are created before the pods of the old one are deleted."""
    old, new = (
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"uid-of-{name}"}
        for name in ("old", "new")
    )
    member_pods.make_group(namespace)
    a, b = (join(namespace, f"old-{name}", leader.port, old) for name in "ab")
    until_granted((a, "0-1"), (b, "2-3"))
    slots = wait_for(lambda: read_slots(namespace), lambda it: len(it) == 2)
    assert slots == {"billing-0": "old-a", "billing-1": "old-b"}
    before = namespace.status("consumergroups", "billing")
    x = join(namespace, "new-x", leader.port, new)
    until_granted((a, "0-1"), (b, "2-3"), (x, ""))
    a.leave()
    until_granted((x, "0-1"), (b, "2-3"))
    y = join(namespace, "new-y", leader.port, new)
    until_granted((x, "0-1"), (b, "2-3"), (y, ""))
    b.leave()
    until_granted((x, "0-1"), (y, "2-3"))

    def ask() -> dict[str, str]:
        x.ask()
        y.ask()
        return read_slots(namespace)

    expected = {"billing-0": "new-x", "billing-1": "new-y"}
    assert wait_for(ask, lambda it: it == expected) == expected
    after = namespace.status("consumergroups", "billing")
    assert (after["epoch"], after.get("moved")) == (before["epoch"], before.get("moved"))


@pytest.mark.parametrize("status", [{}, {"phase": "Failed"}], ids=["restarted", "failed"])
def test_an_end_that_the_kubelet_sees_frees_the_queues_at_once(
    namespace: Namespace, leader: Leader, status: dict[str, str]
) -> None:
    member_pods.make_group(namespace, session=20)
    a, b = (join(namespace, f"billing-{name}", leader.port) for name in "ab")
    until_granted((a, "0-1"), (b, "2-3"))
    a.say_ended(**status)
    begun = time.monotonic()
    until_granted((b, "0-3"))
    assert time.monotonic() - begun < 15


def test_an_end_of_another_process_ends_no_session(namespace: Namespace, leader: Leader) -> None:
    """A sidecar or an earlier process ends, while the member sends nothing, as if frozen."""
    # The grace is long, so that no queue moves even on a slow machine.
    member_pods.make_group(namespace, session=20, grace="10m")
    a, b, c = (join(namespace, f"billing-{name}", leader.port) for name in "abc")
    until_granted((a, "0-1"), (b, "2"), (c, "3"))
    a.say_ended({**member_pods.RUNNING, "name": "sidecar"})
    b.say_ended()  # the operator handles this after the report above
    until_granted((c, "2-3"))
    assert a.ask()[0] == 200
    a.say_ended()
    until_granted((c, "0-3"))
    b.begin()
    until_granted((b, "2"), (c, "0-1,3"))  # lent queues stay where they are
    a.begin()
    until_granted((a, "0-1"), (b, "2"), (c, "3"))
    namespace.set_status(a.name, {"message": "something else has changed"})
    c.say_ended()
    until_granted((b, "2-3"))
    assert a.ask()[0] == 200


def test_a_leader_that_stops_says_so_at_once(leader: Leader, pod: Pod) -> None:
    until_granted((pod, "0-3"))
    leader.operator.stop()
    with pytest.raises(OSError, match="refused"):
        pod.ask()


def test_a_consumer_that_does_not_follow_is_named_and_members_read_on(
    rocketmq: RocketMq,
    client: Client,
    topic: str,
    group: str,
    namespace: Namespace,
    leader: Leader,
) -> None:
    namespace.make(
        "Topic", "orders", {"nameServers": [rocketmq.name_server.address], "topic": topic}
    )
    everything = {topic: filters.EVERYTHING}
    with (
        client.join(group, "10.0.0.9@member", everything),
        Client(rocketmq.name_server.address) as second,
    ):
        stranger = second.join(group, "10.0.0.8@stranger", everything)
        member_pods.make_group(namespace, group=group)
        pod = join(namespace, "billing-a", leader.port)
        pod.client_id = "10.0.0.9@member"

        def ask_and_see() -> tuple[str, str]:
            pod.ask()
            return read_condition(namespace.status("consumergroups", "billing"), "Ready")

        assert wait_for(ask_and_see, lambda ready: ready[1] == "ForeignConsumers")[0] == "False"
        status = namespace.status("consumergroups", "billing")
        (conflicted,) = [each for each in status["conditions"] if each["type"] == "Conflicted"]
        assert "10.0.0.8@stranger" in conflicted["message"]
        assert "10.0.0.9@member" not in conflicted["message"]
        wait_for(pod.ask, lambda answer: len(answer[1].get("grants", ())) == 2)
        assert {each["broker"] for each in pod.holds} == {"broker-a", "broker-b"}
        stranger.leave()
        assert wait_for(ask_and_see, lambda ready: ready[0] == "True")[0] == "True"


def test_a_follower_in_a_pod_reads_what_it_is_granted(
    kubernetes: Cluster,
    rocketmq: RocketMq,
    client: Client,
    topic: str,
    namespace: Namespace,
    leader: Leader,
    tmp_path: Path,
) -> None:
    """It sends requests over TLS, with the token and the authorities that the example mounts."""
    namespace.make(
        "Topic", "orders", {"nameServers": [rocketmq.name_server.address], "topic": topic}
    )
    member_pods.make_group(namespace)
    pod = join(namespace, "billing-a", leader.port)
    (tmp_path / "token").write_text(pod.token)
    (tmp_path / "ca.crt").write_text(pod.authorities)
    (tmp_path / "shop.py").write_text(HANDLER)
    sent = [Message(topic, b"order %d" % number) for number in range(10)]
    command = [
        sys.executable, "-m", "follower", "shop:handle",
        "--coordinator", f"https://localhost:{leader.port}", "--group", f"{namespace.name}/billing",
        "--token-file", "token", "--ca-file", "ca.crt",
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "POD_NAME": "billing-a"}
    with (tmp_path / "log").open("wb") as log:
        follower = subprocess.Popen(
            command, cwd=tmp_path, env=env, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        client.send(sent, To(MessageQueue(topic, "broker-a", 0)))
        lines = wait_for(
            lambda: re.findall(r"^order \d$", (tmp_path / "log").read_text(), re.M),
            lambda found: len(found) >= len(sent),
        )
        assert sorted(lines) == sorted(each.body.decode() for each in sent), (
            tmp_path / "log"
        ).read_text()
        follower.terminate()
        assert follower.wait(30) == 0
    finally:
        follower.kill()
        follower.wait()
