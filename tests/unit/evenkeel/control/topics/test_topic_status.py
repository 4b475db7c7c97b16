"""Topics that are created and resized: their statuses, and which object is allowed to do it."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from contract.conditions import ConditionReason, ConditionType
from contract.kinds.topics import AwayBroker, BrokerQueues
from evenkeel import manifests
from evenkeel.control import conditions, rivals
from evenkeel.control.provisioning.steps import QueueCounts, StepOutcome, TopicStep
from evenkeel.control.rivals import Rivals
from evenkeel.control.topics import topic_keys, topic_status
from evenkeel.control.topics.topic_status import SOON_SECONDS, ReadFailure, Sight, TopicDecision
from evenkeel.objects import ConsumerGroup, Topic
from mq_client import errors
from mq_client.commands.cluster import GetRoute
from mq_client.frames import Frame

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B = "broker-a", "broker-b"
COUNTS = QueueCounts(4, 4, 6)
SHOWN = [BrokerQueues(A, 4, 4)]
MISSING = ReadFailure(ConditionReason.TOPIC_UNKNOWN, "no such topic")
AWAY = errors.ConnectionLostError("refused")
REFUSED = errors.NotPermittedError("PUT", "a:1", 16, "no right to change topics")


def topic(name: str = "orders", created: str = "", **spec: Any) -> Topic:
    metadata = {"name": name, "generation": 1, "creationTimestamp": created}
    spec = {"topic": "orders", "nameServers": ["mq:9876"], **spec}
    return manifests.read_topic({"kind": "Topic", "metadata": metadata, "spec": spec})


def asking(read: int = 4, write: int = 4, **spec: Any) -> Topic:
    return topic(provision={"readQueues": read, "writeQueues": write}, **spec)


def condition(decision: TopicDecision, kind: str) -> tuple[str, str, str] | None:
    found = conditions.find(decision.status.conditions, ConditionType(kind))
    return (found.status.value, found.reason, found.message) if found else None


def said(
    outcome: StepOutcome | ReadFailure, route: list[BrokerQueues] | ReadFailure
) -> TopicDecision:
    return topic_status.decide(asking(), Sight(route, outcome), NOW)


def test_a_route_carries_the_zone_that_a_broker_tells_the_name_server() -> None:
    """In RocketMQ 5, a broker has ROCKETMQ_ZONE or -Drocketmq.zone; 4.9 has no zones."""
    counts = {"readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
    zones: dict[str, dict[str, str | None]] = {
        A: {"zoneName": "eu-1a"},
        B: {"zoneName": None},
        "broker-c": {},
        "broker-d": {},
    }
    answer = {
        "queueDatas": [{"brokerName": name, **counts} for name in zones],
        "brokerDatas": [
            {"brokerName": name, "cluster": "c", "brokerAddrs": {"0": "h:1"}, **zone}
            for name, zone in zones.items()
            if name != "broker-d"
        ],
    }
    route = GetRoute("orders").read(Frame(0, 1, body=json.dumps(answer).encode()))
    assert {each.broker: each.zone for each in topic_status.list_brokers(route)} == {
        A: "eu-1a",
        B: None,
        "broker-c": None,
        "broker-d": None,
    }


def test_a_topic_that_is_as_asked_is_looked_at_when_its_route_is() -> None:
    decision = said(StepOutcome(TopicStep(), (A,)), SHOWN)
    assert condition(decision, "Provisioned") == ("True", "AsAsked", "")
    assert condition(decision, "Ready") == ("True", "RouteRead", "")
    assert decision.look_again_seconds == 30


def test_a_topic_that_was_made_now_is_looked_at_again_soon() -> None:
    decision = said(StepOutcome(TopicStep({A: COUNTS}, (A,)), (A,)), MISSING)
    made = ("False", "Creating", "Topic orders: the topic is created on broker-a")
    assert condition(decision, "Provisioned") == made
    assert condition(decision, "Ready") == made
    assert decision.look_again_seconds == SOON_SECONDS


def test_a_topic_that_the_name_server_does_not_show_yet_is_still_being_made() -> None:
    decision = said(StepOutcome(TopicStep(), (A, B)), SHOWN)
    assert condition(decision, "Provisioned") == (
        "False", "Creating", "Topic orders: the name server does not show the change yet",
    )  # fmt: skip
    assert decision.look_again_seconds == SOON_SECONDS


def test_draining_names_queues_and_groups() -> None:
    step = TopicStep(closing={A: range(4, 8)})
    waits = ("billing has not read all of orders@broker-a 5",)
    decision = said(StepOutcome(step, (A,), waits), [BrokerQueues(A, 8, 4)])
    assert condition(decision, "Provisioned") == (
        "False", "Draining",
        "Topic orders: orders@broker-a 4-7 close; billing has not read all of orders@broker-a 5",
    )  # fmt: skip
    assert condition(decision, "Ready") == ("True", "RouteRead", "")
    assert decision.look_again_seconds == SOON_SECONDS


def test_a_broker_out_of_reach_is_named_and_not_asked_every_moment() -> None:
    decision = said(StepOutcome(TopicStep(), (A,), failed={B: AWAY}), SHOWN)
    assert condition(decision, "Provisioned") == (
        "False", "BrokerUnavailable",
        "Topic orders: broker-b is unreachable and keeps its queues: refused",
    )  # fmt: skip
    assert decision.look_again_seconds == 30


def test_a_broker_that_refuses_is_quoted() -> None:
    decision = said(StepOutcome(TopicStep({A: COUNTS}, (A,)), (A,), failed={A: REFUSED}), MISSING)
    found = condition(decision, "Provisioned")
    assert found is not None
    assert found[:2] == ("False", "Refused")
    assert "broker-a refuses" in found[2]
    assert "no right to change topics" in found[2]
    assert condition(decision, "Ready") == found


def test_what_cannot_be_seen_is_unknown() -> None:
    gone = ReadFailure(ConditionReason.NAME_SERVER_UNREACHABLE, "mq:9876 does not answer")
    decision = said(gone, gone)
    assert condition(decision, "Provisioned") == ("Unknown", gone.reason, gone.message)
    assert condition(decision, "Ready") == ("False", gone.reason, gone.message)


def test_a_topic_that_nobody_could_read_whole_is_not_made() -> None:
    odd = asking(read=2, write=4)
    assert topic_status.choose_provision(odd, None) is None
    decision = topic_status.decide(odd, Sight(SHOWN), NOW)
    found = condition(decision, "Provisioned")
    assert found is not None
    assert found[:2] == ("False", "InvalidSpec")


def test_a_topic_that_is_only_read_says_nothing_of_provisioning() -> None:
    decision = topic_status.decide(topic(), Sight(SHOWN), NOW)
    assert [each.type for each in decision.status.conditions] == ["Ready"]
    assert condition(decision, "Ready") == ("True", "RouteRead", "")
    missing = topic_status.decide(topic(), Sight(MISSING), NOW)
    assert condition(missing, "Ready") == ("False", "TopicUnknown", "no such topic")


def test_the_same_sight_makes_the_same_status() -> None:
    sight = Sight(
        SHOWN, StepOutcome(TopicStep(closing={A: range(4, 8)}), (A,), ("somebody waits",))
    )
    first = topic_status.decide(asking(), sight, NOW).status
    later = replace(asking(), status=first)
    assert topic_status.decide(later, sight, NOW.replace(year=2027)).status == first


# Brokers that leave the route.

BOTH = [BrokerQueues(A, 4, 4), BrokerQueues(B, 4, 4)]


def without_b(seconds: float, generation: int = 1) -> TopicDecision:
    """Observe only the first broker, this long after the second broker was first missing."""
    known = replace(topic(), status=topic_status.decide(topic(), Sight(BOTH), NOW).status)
    missed = topic_status.decide(known, Sight(SHOWN), NOW).status
    head = replace(known.head, generation=generation)
    later = replace(known, head=head, status=missed)
    return topic_status.decide(later, Sight(SHOWN), NOW + timedelta(seconds=seconds))


def test_a_broker_that_is_away_keeps_its_queues() -> None:
    decision = without_b(topic_status.AWAY_SECONDS - 1)
    assert decision.status.brokers == BOTH
    assert decision.status.read_queues == 8
    assert decision.status.away == [AwayBroker(B, "2026-01-01T00:00:00Z")]
    assert condition(decision, "Ready") == (
        "True", "BrokerAway",
        "Topic orders: the route has not contained broker-b since 2026-01-01T00:00:00Z; "
        "queues keep their owners for ten minutes after their broker leaves the route",
    )  # fmt: skip


def test_a_broker_that_is_back_is_as_it_was() -> None:
    before = topic_status.decide(topic(), Sight(BOTH), NOW).status
    back = topic_status.decide(
        replace(topic(), status=without_b(60).status), Sight(BOTH), NOW
    ).status
    assert back == before


def test_a_broker_that_is_away_for_too_long_is_given_up() -> None:
    decision = without_b(topic_status.AWAY_SECONDS)
    assert (decision.status.brokers, decision.status.away) == (SHOWN, [])
    assert condition(decision, "Ready") == ("True", "RouteRead", "")


def test_a_topic_that_is_read_elsewhere_expects_no_broker_back() -> None:
    decision = without_b(1, generation=2)
    assert (decision.status.brokers, decision.status.away) == (SHOWN, [])


# Which of several topic objects acts, and which groups read a topic.


def test_the_older_of_two_topics_wins_and_the_newer_says_so() -> None:
    old, new = asking(name="z", created="2026-01-01"), asking(name="a", created="2026-01-02")
    known: Rivals[Topic] = Rivals(rivals.build_topic_claim)
    known.note_change(old.head.key, old)
    known.note_change(new.head.key, new)
    assert rivals.find_topic_conflict(old, known.list_others(old)) is None
    conflict = rivals.find_topic_conflict(new, known.list_others(new))
    assert conflict is not None
    assert topic_status.choose_provision(new, conflict) is None
    decision = topic_status.decide(new, Sight(SHOWN, None, conflict), NOW)
    text = (
        "Topic z already provisions 'orders' on these name servers, and was first: "
        "delete one of the two, or remove spec.provision from one"
    )
    assert condition(decision, "Conflicted") == ("True", "OlderTopic", text)
    assert condition(decision, "Ready") == ("False", "OlderTopic", text)
    assert condition(decision, "Provisioned") is None


@pytest.mark.parametrize(
    "other",
    [
        topic("z"),
        asking(name="z", topic="bills"),
        asking(name="z", nameServers=["elsewhere:9876"]),
    ],
    ids=["is only read", "is another topic", "is on other name servers"],
)
def test_topics_that_do_not_meet_are_no_rivals(other: Topic) -> None:
    known: Rivals[Topic] = Rivals(rivals.build_topic_claim)
    known.note_change(other.head.key, other)
    new = asking(name="a", created="2026-01-02")
    assert rivals.find_topic_conflict(new, known.list_others(new)) is None


def test_one_shared_name_server_makes_rivals() -> None:
    old = asking(name="z", nameServers=["mq-1:9876", "mq-2:9876"])
    new = asking(name="a", nameServers=["mq-2:9876"], created="2026-01-02")
    assert rivals.find_topic_conflict(new, [old]) is not None


@pytest.mark.parametrize("left", [None, topic("z")], ids=["deleted", "provisions no more"])
def test_when_the_older_lets_go_the_newer_is_looked_at(left: Topic | None) -> None:
    old, new = asking(name="z"), asking(name="a", created="2026-01-02")
    known: Rivals[Topic] = Rivals(rivals.build_topic_claim)
    known.note_change(new.head.key, new)
    assert known.note_change(old.head.key, old) == {new.head.key}
    assert known.note_change(old.head.key, old) == set()
    assert known.note_change(old.head.key, left) == {new.head.key}
    assert known.list_others(new) == []


def group(name: str, *named: str, namespace: str = "default") -> ConsumerGroup:
    return manifests.read_group(
        {
            "kind": "ConsumerGroup",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"topics": [{"name": each} for each in named]},
        }
    )


def test_all_groups_that_read_the_topic_by_any_object_are_asked() -> None:
    here, also, elsewhere = topic("a"), topic("b"), topic("c", nameServers=["other:9876"])
    known = {each.head.key: each for each in (here, also, elsewhere)}
    groups = [group("x", "a"), group("y", "c", "b"), group("z", "c"), group("w", "missing")]
    assert topic_keys.list_readers(topic_keys.build_key(here), groups, known.get) == ["x", "y"]


def test_a_topic_that_only_its_object_tells_of_is_of_those_who_name_the_object() -> None:
    route: dict[str, Any] = {"route": [{"broker": A, "readQueues": 1, "writeQueues": 1}]}
    here, there = topic("a", nameServers=None, **route), topic("b", nameServers=None, **route)
    known = {each.head.key: each for each in (here, there)}
    both, other = [group("x", "a"), group("y", "a")], group("z", "b")
    assert topic_keys.list_readers(topic_keys.build_key(here), [*both, other], known.get) == [
        "x",
        "y",
    ]
