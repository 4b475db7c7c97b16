"""Topics that the operator creates and resizes, on real brokers."""

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from evenkeel.control.provisioning.topic_settings import GetSettings, Settings
from mq_client.blocking import Client
from mq_client.choosers import To
from mq_client.messages import Message
from mq_client.values import WRITE, MessageQueue, TopicConfig
from sandbox import asking
from sandbox.rocketmq import Broker, RocketMq
from sandbox.statuses import Document, count_loads, read_condition
from tests.real.cluster.running import Namespace, RunningOperator

TOPICS, GROUPS = "topics", "consumergroups"


@pytest.fixture
def asked(rocketmq: RocketMq, unique_name: str) -> Document:
    """Make a spec for this test's topic, which does not exist yet."""
    servers = [rocketmq.name_server.address]
    return {"topic": unique_name, "nameServers": servers, "provision": provision(4)}


def provision(queues: int) -> Document:
    return {"readQueues": queues, "writeQueues": queues}


def resize(namespace: Namespace, name: str, queues: int) -> None:
    namespace.change(TOPICS, name, {"spec": {"provision": provision(queues)}})


def is_as_asked(status: Document) -> bool:
    return read_condition(status, "Provisioned") == ("True", "AsAsked")


def message(status: Document, kind: str) -> str:
    found = [each for each in status.get("conditions") or () if each["type"] == kind]
    return str(found[0].get("message", "")) if found else ""


def routed(client: Client, topic: str) -> dict[str, tuple[int, int]]:
    """Return readable and writable queues by broker, as the name server reports them."""
    route = client.find_route(topic, max_age=0)
    return {each.broker: (each.read_queues, each.write_queues) for each in route.brokers}


def settings(rocketmq: RocketMq, broker: str, topic: str) -> Settings | None:
    return asking.ask(rocketmq.brokers[broker].address, GetSettings(topic))


@contextlib.contextmanager
def frozen(broker: Broker) -> Iterator[None]:
    """Freeze a broker: its connections stay open, but it answers nothing."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def test_a_missing_topic_is_made_on_all_brokers_and_then_gets_more_queues(
    operator: RunningOperator, namespace: Namespace, client: Client, asked: Document
) -> None:
    namespace.make("Topic", "orders", asked)
    made = namespace.until(TOPICS, "orders", is_as_asked)
    assert read_condition(made, "Ready") == ("True", "RouteRead")
    assert made["readQueues"] == 8
    assert routed(client, asked["topic"]) == {"broker-a": (4, 4), "broker-b": (4, 4)}
    resize(namespace, "orders", 6)
    more = namespace.until(TOPICS, "orders", lambda it: it["readQueues"] == 12 and is_as_asked(it))
    assert more["observedGeneration"] == 2
    assert routed(client, asked["topic"]) == {"broker-a": (6, 6), "broker-b": (6, 6)}


def test_a_topic_that_is_there_keeps_what_is_not_asked_for(
    operator: RunningOperator,
    namespace: Namespace,
    rocketmq: RocketMq,
    client: Client,
    asked: Document,
) -> None:
    attributes = {"message.type": "NORMAL"}
    old = TopicConfig(asked["topic"], 1, 1, order=True, attributes=attributes)
    client.put_topics([old], on=["broker-a"])
    namespace.make("Topic", "orders", asked)
    namespace.until(TOPICS, "orders", is_as_asked)
    found = settings(rocketmq, "broker-a", asked["topic"])
    assert found is not None
    assert found.counts.read_queues == 4
    assert found.told["order"] is True
    assert found.told["attributes"] == attributes


def test_fewer_queues_wait_for_a_group_that_has_not_read_them(
    operator: RunningOperator, namespace: Namespace, client: Client, asked: Document, group: str
) -> None:
    namespace.make("Topic", "orders", asked)
    reader = {"group": group, "topics": [{"name": "orders"}]}
    namespace.make("ConsumerGroup", "billing", {**reader, "consumers": {"static": [{"id": "a"}]}})
    namespace.until(TOPICS, "orders", is_as_asked)
    closing = MessageQueue(asked["topic"], "broker-b", 3)
    client.send([Message(closing.topic, b"1"), Message(closing.topic, b"2")], To(closing))
    of_others = f"{group}-of-others"  # a group without a ConsumerGroup here
    for reader_name in (group, of_others):
        client.commit(reader_name, {closing: 1})
    resize(namespace, "orders", 2)
    behind = [f"{name} has not read all of {closing}" for name in (group, of_others)]
    waits = namespace.until(
        TOPICS, "orders", lambda it: all(each in message(it, "Provisioned") for each in behind)
    )
    assert read_condition(waits, "Provisioned") == ("False", "Draining")
    assert read_condition(waits, "Ready") == ("True", "RouteRead")
    assert routed(client, closing.topic) == {"broker-a": (4, 2), "broker-b": (4, 2)}
    for reader_name in (group, of_others):
        client.commit(reader_name, {closing: 2})
    namespace.until(TOPICS, "orders", is_as_asked)
    assert routed(client, closing.topic) == {"broker-a": (2, 2), "broker-b": (2, 2)}


def test_a_group_names_brokers_that_may_not_be_read_until_they_may_be_again(
    operator: RunningOperator, namespace: Namespace, client: Client, asked: Document, group: str
) -> None:
    written = TopicConfig(asked["topic"], 4, 4)
    client.put_topics([written])
    spec = {"topic": asked["topic"], "nameServers": asked["nameServers"], "refreshInterval": "1s"}
    namespace.make("Topic", "orders", spec)
    reader = {"group": group, "topics": [{"name": "orders"}]}
    namespace.make("ConsumerGroup", "billing", {**reader, "consumers": {"static": [{"id": "a"}]}})
    namespace.until(GROUPS, "billing", lambda it: count_loads(it) == {"a": 8})
    client.put_topics([replace(written, perm=WRITE)], on=["broker-b"])
    lost = namespace.until(
        GROUPS, "billing", lambda it: read_condition(it, "Ready") == ("False", "NotReadable")
    )
    assert count_loads(lost) == {"a": 4}
    assert message(lost, "Assigned") == (
        "the perm lacks READ, so no messages are read on: "
        f"Topic {namespace.name}/orders on broker-b"
    )
    client.put_topics([written], on=["broker-b"])
    back = namespace.until(GROUPS, "billing", lambda it: count_loads(it) == {"a": 8})
    assert read_condition(back, "Ready") == ("True", "Assigned")


def test_of_two_topics_the_older_wins_until_it_is_deleted(
    operator: RunningOperator, namespace: Namespace, client: Client, asked: Document
) -> None:
    namespace.make("Topic", "a-old", asked)
    namespace.until(TOPICS, "a-old", is_as_asked)
    namespace.make("Topic", "b-new", {**asked, "provision": provision(6)})
    loses = ("True", "OlderTopic")
    newer = namespace.until(TOPICS, "b-new", lambda it: read_condition(it, "Conflicted") == loses)
    assert read_condition(newer, "Ready") == ("False", "OlderTopic")
    assert f"Topic {namespace.name}/a-old already provisions" in message(newer, "Ready")
    assert routed(client, asked["topic"]) == {"broker-a": (4, 4), "broker-b": (4, 4)}
    assert is_as_asked(namespace.status(TOPICS, "a-old"))
    namespace.delete(namespace.path(TOPICS, "a-old"))
    alone = namespace.until(TOPICS, "b-new", is_as_asked)
    assert read_condition(alone, "Conflicted") == ("", "")
    assert routed(client, asked["topic"]) == {"broker-a": (6, 6), "broker-b": (6, 6)}


def test_a_broker_out_of_reach_is_named_and_gets_the_topic_when_it_is_back(
    own_operator: RunningOperator,
    namespace: Namespace,
    rocketmq: RocketMq,
    client: Client,
    asked: Document,
) -> None:
    away = ("False", "BrokerUnavailable")
    with frozen(rocketmq.brokers["broker-b"]):
        namespace.make("Topic", "orders", {**asked, "refreshInterval": "1s"})
        alone = namespace.until(
            TOPICS, "orders", lambda it: read_condition(it, "Provisioned") == away
        )
        assert "broker-b is unreachable" in message(alone, "Provisioned")
        assert routed(client, asked["topic"]) == {"broker-a": (4, 4)}
    namespace.until(TOPICS, "orders", is_as_asked)
    assert routed(client, asked["topic"]) == {"broker-a": (4, 4), "broker-b": (4, 4)}


def test_a_broker_that_refuses_is_quoted(
    operator: RunningOperator, namespace: Namespace, asked: Document
) -> None:
    namespace.make("Topic", "orders", {**asked, "topic": "SELF_TEST_TOPIC"})
    refused = namespace.until(
        TOPICS, "orders", lambda it: read_condition(it, "Provisioned") == ("False", "Refused")
    )
    assert "SELF_TEST_TOPIC] is conflict with system topic" in message(refused, "Provisioned")
