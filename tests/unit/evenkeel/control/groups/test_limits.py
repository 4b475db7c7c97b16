"""Groups that are too large are refused; the message has the limit and says what to do."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from contract.conditions import ConditionType
from contract.kinds.groups import GroupStatus
from contract.kinds.parts import MOST_IDS
from evenkeel import manifests, planning
from evenkeel.control import conditions
from evenkeel.control.groups import group_status
from evenkeel.control.groups.group_status import GroupDecision
from evenkeel.control.groups.surroundings import GroupSurroundings
from evenkeel.objects import ConsumerGroup, Key
from tests.deciding import (
    ORDERS,
    START,
    at,
    condition,
    group,
    owners,
    seen,
    topic,
)

ONE: dict[str, Any] = {"static": [{"id": "a"}]}
LISTED = {"a": [{"topic": "orders", "broker": "broker-a", "ids": "0"}]}


def test_a_list_of_too_many_queues_is_refused_before_it_is_written_out() -> None:
    listed = {"a": [{"topic": "orders", "broker": "broker-a", "ids": "0-2147483646"}]}
    asked = group(consumers={"static": [{"id": "a"}]},
                  strategy={"name": "Config", "config": {"queues": listed}})  # fmt: skip
    decision = group_status.decide(asked, seen(), START)
    assert condition(decision, "Ready") == ("False", "InvalidSpec")


@pytest.mark.parametrize(
    ("strategy", "most"),
    [
        ({"name": "Sticky"}, 100_000),
        ({"name": "Averagely"}, 100_000),
        ({"name": "MachineRoom", "machineRoom": {"rooms": ["z"]}}, 100_000),
        ({"name": "AveragelyByCircle"}, 25_000),
        ({"name": "ConsistentHash"}, 25_000),
        ({"name": "MachineRoomNearby"}, 25_000),
        ({"name": "Config", "config": {"queues": LISTED}}, 25_000),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)
def test_more_queues_than_can_be_planned_in_time_are_refused_before_any_plan(
    strategy: dict[str, Any], most: int
) -> None:
    asked = group(consumers=ONE, strategy=strategy)
    known = {ORDERS: topic(most // 2)}
    assert sum(map(len, planning.list_queues(asked, known))) == most
    decision = group_status.decide(asked, seen(route=topic(1_000_000)), START)
    assert condition(decision, "Ready") == ("False", "InvalidSpec")
    ready = conditions.find(decision.status.conditions, ConditionType.READY)
    assert ready is not None
    assert "have 2,000,000 queues" in ready.message
    assert f"may have {most:,} at most" in ready.message


@pytest.mark.parametrize(("nodes", "is_taken"), [(100, True), (101, False)])
def test_more_points_on_a_ring_than_can_be_planned_in_time_are_refused(
    nodes: int, is_taken: bool
) -> None:
    strategy = {"name": "ConsistentHash", "consistentHash": {"virtualNodes": nodes}}
    static = [{"id": f"c-{number}"} for number in range(1000)]
    asked = group(consumers={"static": static}, strategy=strategy)
    decision = group_status.decide(asked, seen(), START)
    assert (condition(decision, "Ready")[1] == "InvalidSpec") != is_taken
    assert bool(decision.status.epoch) == is_taken


@pytest.mark.parametrize("ids", ["5-1", "0-999999999999", "2147483648", "9" * 4096])
def test_ids_that_the_schema_takes_and_that_are_none_are_refused_with_their_path(ids: str) -> None:
    good = {"topic": "orders", "broker": "broker-a", "ids": "0-3"}
    listed = {"a": [good, {**good, "broker": "broker-b", "ids": ids}]}
    asked = group(consumers={"static": [{"id": "a"}]},
                  strategy={"name": "Config", "config": {"queues": listed}})  # fmt: skip
    decision = group_status.decide(asked, seen(), START)
    assert condition(decision, "Ready") == ("False", "InvalidSpec")
    ready = conditions.find(decision.status.conditions, ConditionType.READY)
    assert ready is not None
    assert ready.message.startswith("spec.strategy.config.queues.a[1].ids: ")
    assert "orders on broker-b" in ready.message
    assert len(ready.message) < 300


@pytest.mark.parametrize("strategy", ["AveragelyByCircle", "ConsistentHash"])
def test_ids_that_are_too_long_for_one_entry_stand_in_several(strategy: str) -> None:
    asked: dict[str, Any] = {
        "consumers": {"static": [{"id": "a"}, {"id": "b"}]},
        "strategy": {"name": strategy},
    }
    route = topic(3000, "a")
    decision = group_status.decide(group(**asked), seen(route=route), START)
    status = msgspec.convert(msgspec.to_builtins(decision.status), GroupStatus)
    assert any(len(each.queues) > 1 for each in status.assignments)
    assert decision.plan is not None
    planned = {name: list(decision.plan.assignment[name]) for name in decision.plan.assignment}
    assert planning.read_last_plan(status) == planned
    assert sum(owners(status).values()) == 3000
    again = group_status.decide(group(status, **asked), seen(route=route), at(1))
    assert again.status == status


@pytest.mark.parametrize("first", ["1", "11", "111", "1111", "11111"])
def test_entries_of_ids_are_as_long_as_may_be(first: str) -> None:
    ids = first + ",1000" * 2000
    found = list(planning.split_entries("orders", "broker-a", ids))
    assert ",".join(each.ids for each in found) == ids
    lengths = [len(each.ids) for each in found]
    assert max(lengths) <= MOST_IDS
    assert min(lengths[:-1]) > MOST_IDS - len(",1000")


def test_more_places_than_a_status_can_name_are_refused() -> None:
    names = [f"orders-{number}" for number in range(17)]
    route = [
        {"broker": f"broker-{number}", "readQueues": 1, "writeQueues": 1} for number in range(256)
    ]
    known = {
        Key("default", name): manifests.read_topic(
            {"kind": "Topic", "metadata": {"name": name}, "spec": {"route": route}}
        )
        for name in names
    }
    for model in ("Clustering", "Broadcasting"):
        asked = group(
            topics=[{"name": name} for name in names],
            messageModel=model,
            consumers={"static": [{"id": "a"}]},
        )
        decision = group_status.decide(asked, GroupSurroundings(known, None), START)
        assert condition(decision, "Ready") == ("False", "InvalidSpec")
        assert decision.status.assignments == []


def test_in_broadcasting_more_than_can_be_published_is_refused() -> None:
    def decided(consumers: int) -> GroupDecision:
        static = [{"id": f"c-{number}"} for number in range(consumers)]
        asked = group(messageModel="Broadcasting", consumers={"static": static})
        route = [
            {"broker": f"b-{number}", "readQueues": 1, "writeQueues": 1} for number in range(200)
        ]
        document = {"kind": "Topic", "metadata": {"name": "orders"}, "spec": {"route": route}}
        return group_status.decide(asked, seen(route=manifests.read_topic(document)), START)

    assert condition(decided(500), "Ready") == ("True", "Assigned")
    assert condition(decided(501), "Ready") == ("False", "InvalidSpec")


def test_a_group_with_a_job_whose_name_is_too_long_for_labels_is_refused() -> None:
    def named(letters: int) -> ConsumerGroup:
        found = group()
        key = Key("default", "b" * letters)
        return ConsumerGroup(replace(found.head, key=key), found.spec, GroupStatus())

    assert condition(group_status.decide(named(63), seen(), START), "Assigned")[1] == "AllOwned"
    decision = group_status.decide(named(253), seen(), START)
    assert condition(decision, "Ready") == ("False", "InvalidSpec")
    assert msgspec.convert(msgspec.to_builtins(decision.status), GroupStatus) == decision.status
    assert decision.status.assignments == []
    ready = conditions.find(decision.status.conditions, ConditionType.READY)
    assert ready is not None
    assert "its name has 253 characters" in ready.message
