"""Invalid input of users and servers is refused or reported, and does not affect other groups."""

import base64
import contextlib
import socket

import pytest

from sandbox.statuses import Document, read_condition
from sandbox.waiting import wait_for
from tests.real.cluster.running import Namespace, RunningOperator

ROUTE = [{"broker": "broker-a", "readQueues": 8, "writeQueues": 8}]
GROUPS = "consumergroups"


def others_go_on(namespace: Namespace) -> None:
    namespace.make("Topic", "good", {"route": ROUTE})
    spec = {"topics": [{"name": "good"}], "consumers": {"static": [{"id": "a"}]}}
    namespace.make("ConsumerGroup", "good", spec)
    namespace.until(GROUPS, "good", lambda it: read_condition(it, "Ready")[0] == "True")


def secret(namespace: Namespace, name: str, **data: bytes) -> None:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    document = {"metadata": {"name": name}, "data": encoded}
    assert namespace.user.ask("POST", namespace.core("secrets"), document).status == 201


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("topics", {"nameServers": ["a:1"], "credentialsSecretRef": {"name": "../../x/secrets/y"}}),
        ("topics", {"nameServers": ["a:1"], "credentialsSecretRef": {"name": "x?y=z"}}),
        ("topics", {"nameServers": ["a\0b:1"]}),
        (GROUPS, {"topics": [{"name": ".."}], "consumers": {"static": [{"id": "a"}]}}),
        (
            GROUPS,
            {
                "topics": [{"name": "orders"}],
                "job": {
                    "sink": {"format": "noop"},
                    "checkpoint": {"persistentVolumeClaim": "../configmaps/x"},
                },
            },
        ),
    ],
    ids=["secret", "query", "null", "topic", "claim"],
)
def test_a_name_that_is_a_path_is_refused(namespace: Namespace, kind: str, spec: Document) -> None:
    """Otherwise such a name would lead the operator to objects of other namespaces."""
    name = {"topics": "Topic", GROUPS: "ConsumerGroup"}[kind]
    document = {"apiVersion": "evenkeel.dev/v1alpha1", "kind": name, "spec": spec}
    document["metadata"] = {"name": "bad"}
    answer = namespace.user.ask("POST", namespace.path(kind), document)
    assert answer.status == 422, answer.body
    assert "should match" in answer.body["message"]


def test_name_servers_that_hang_hold_up_nobody(
    own_operator: RunningOperator, namespace: Namespace
) -> None:
    with contextlib.ExitStack() as listening:
        servers = [
            listening.enter_context(socket.create_server(("127.0.0.1", 0), backlog=500))
            for _ in range(4)
        ]
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in servers]
        for number in range(40):
            spec = {"nameServers": addresses, "refreshInterval": "1s"}
            namespace.make("Topic", f"hangs-{number}", spec)
        others_go_on(namespace)
        wanted = ("False", "NameServerUnreachable")
        for number in range(40):
            namespace.until(
                "topics", f"hangs-{number}", lambda it: read_condition(it, "Ready") == wanted
            )


def test_a_status_that_the_api_server_refuses_is_told_in_its_stead(
    operator: RunningOperator, namespace: Namespace
) -> None:
    def route(queues: int) -> Document:
        counts = {"readQueues": queues, "writeQueues": queues}
        return {"route": [{"broker": broker, **counts} for broker in ("a", "b")]}

    namespace.make("Topic", "orders", route(600_000))
    refused = namespace.until(
        "topics", "orders", lambda it: read_condition(it, "Ready") == ("False", "StatusRefused")
    )
    assert "status.readQueues" in refused["conditions"][0]["message"]
    others_go_on(namespace)
    namespace.change("topics", "orders", {"spec": route(4)})
    namespace.until("topics", "orders", lambda it: read_condition(it, "Ready")[0] == "True")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"accessKey": b"a", "secretKey": b"\xff"}, "is not text"),
        ({"accessKey": b"", "secretKey": b"x"}, "has no accessKey"),
    ],
    ids=["bytes", "empty"],
)
def test_a_secret_that_cannot_be_used_is_named(
    operator: RunningOperator, namespace: Namespace, data: dict[str, bytes], words: str
) -> None:
    secret(namespace, "keys", **data)
    spec = {"nameServers": ["127.0.0.1:1"], "credentialsSecretRef": {"name": "keys"}}
    namespace.make("Topic", "orders", spec)
    status = namespace.until(
        "topics", "orders", lambda it: read_condition(it, "Ready") == ("False", "SecretIncomplete")
    )
    assert words in status["conditions"][0]["message"]
    assert "this is a defect" not in operator.log


def test_authorities_that_are_none_are_named(
    operator: RunningOperator, namespace: Namespace
) -> None:
    secret(namespace, "ca", **{"ca.crt": b"junk"})
    spec = {"nameServers": ["127.0.0.1:1"], "tls": {"caSecretRef": {"name": "ca"}}}
    namespace.make("Topic", "orders", spec)
    status = namespace.until(
        "topics", "orders", lambda it: read_condition(it, "Ready") == ("False", "SecretIncomplete")
    )
    assert "contains no certificates" in status["conditions"][0]["message"]


def test_a_status_that_somebody_broke_takes_no_metrics_of_others_away(
    own_operator: RunningOperator, namespace: Namespace
) -> None:
    others_go_on(namespace)
    spec = {"topics": [{"name": "missing"}], "consumers": {"static": [{"id": "a"}]}}
    namespace.make("ConsumerGroup", "broken", spec)
    namespace.until(GROUPS, "broken", lambda it: read_condition(it, "Ready")[1] == "TopicNotFound")
    namespace.patch(namespace.path(GROUPS, "broken", "status"), {"status": {"imbalance": "abc"}})
    series = 'evenkeel_group_queues{name="good"'

    def shown() -> str:
        return str(own_operator.get("/metrics")[1])

    assert series in wait_for(shown, lambda text: '"broken"' not in text and series in text)


def test_what_cannot_be_planned_is_told_in_the_status(
    operator: RunningOperator, namespace: Namespace
) -> None:
    counts = {"readQueues": 1000, "writeQueues": 1000}
    route = [{"broker": f"broker-{number}", **counts} for number in range(256)]
    namespace.make("Topic", "huge", {"route": route})
    namespace.make("Topic", "small", {"route": ROUTE})
    huge: Document = {"topics": [{"name": "huge"}], "strategy": {"name": "AveragelyByCircle"}}
    small: Document = {"topics": [{"name": "small"}]}
    static = {"consumers": {"static": [{"id": "a"}]}}
    ids = {"topic": "small", "broker": "broker-a", "ids": "5-1"}
    job = {"sink": {"format": "noop"}, "checkpoint": {"persistentVolumeClaim": "state"}}
    config = {"name": "Config", "config": {"queues": {"a": [ids]}}}
    asked: dict[str, tuple[Document, str]] = {
        "huge": ({**huge, **static}, "have 256,000 queues"),
        "bad-ids": ({**small, **static, "strategy": config}, "config.queues.a[0].ids: "),
        "b" * 253: ({**small, "job": job}, "its name has 253 characters"),
    }
    for name, (spec, _) in asked.items():
        namespace.make("ConsumerGroup", name, spec)
    for name, (_, told) in asked.items():
        status = namespace.until(
            GROUPS, name, lambda it: read_condition(it, "Ready") == ("False", "InvalidSpec")
        )
        assert told in status["conditions"][0]["message"]
    others_go_on(namespace)


def test_ids_that_are_long_are_published_and_read_back(
    operator: RunningOperator, namespace: Namespace
) -> None:
    counts = {"readQueues": 3000, "writeQueues": 3000}
    namespace.make("Topic", "orders", {"route": [{"broker": "broker-a", **counts}]})
    spec: Document = {
        "topics": [{"name": "orders"}],
        "strategy": {"name": "AveragelyByCircle"},
        "consumers": {"static": [{"id": "a"}, {"id": "b"}]},
    }
    namespace.make("ConsumerGroup", "orders", spec)
    status = namespace.until(GROUPS, "orders", lambda it: read_condition(it, "Ready")[0] == "True")
    parts = {each["consumer"]: each["queues"] for each in status["assignments"]}
    assert all(len(each) > 1 for each in parts.values())
    ids = {name: ",".join(part["ids"] for part in each) for name, each in parts.items()}
    assert ids["a"] == ",".join(map(str, range(0, 3000, 2)))
    assert ids["b"] == ",".join(map(str, range(1, 3000, 2)))
    namespace.change(GROUPS, "orders", {"spec": {"strategy": {"name": "Averagely"}}})
    status = namespace.until(GROUPS, "orders", lambda it: it["epoch"] == 2)
    assert status["moved"] == 1500
