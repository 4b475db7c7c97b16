"""Brokers are prepared for a group that pops, and none that fails delays another one."""

from typing import Any

import pytest

from contract.kinds.groups import PopStore
from evenkeel.control.groups import pop_brokers
from evenkeel.control.groups.pop_brokers import PreparedBrokers
from mq_client import errors
from mq_client.values import BrokerRoute, GroupConfig, Route
from tests.scripted import Stage

ROUTE = Route(
    "orders",
    (
        BrokerRoute("a", "c", {0: "a:1"}, 4, 4, 6),
        BrokerRoute("b", "c", {0: "b:1"}, 4, 4, 6),
        BrokerRoute("without-read", "c", {0: "w:1"}, 4, 4, 2),
        BrokerRoute("without-master", "c", {1: "s:1"}, 4, 4, 6),
    ),
)
KNOWN = {"billing": GroupConfig("billing", most_retries=3)}
BAD_QUEUE = errors.BadParameterError("POP", "a:1", 29, "queueId is illegal")
OFF = errors.PopsOffError("POP", "b:1", 1, "timerWheelEnable is false")
ROCKSDB = {"popConsumerKVServiceEnable": "true"}
AWAY = errors.ConnectionLostError("b is away")


def prepare(*answers: Any) -> tuple[PreparedBrokers, list[str], int]:
    """Play the preparation; return what it found, who was asked, and how often writes began."""
    begun: list[None] = []
    stage = Stage()
    flow = pop_brokers.prepare(stage.directory, "billing", "orders", lambda: begun.append(None))
    played = stage.play(flow, [ROUTE, *answers])
    return played.value, [each for each in played.asked if each != "ns:1"], len(begun)


def test_the_group_is_created_only_where_it_is_missing() -> None:
    found, asked, begun = prepare(KNOWN, {}, None, None, None, BAD_QUEUE, BAD_QUEUE, {}, ROCKSDB)
    # All are asked for their groups, `b` gets the group, and all are told to pop, tried, and asked
    # for their settings.
    assert asked == ["a:1", "b:1", "b:1", "a:1", "b:1", "a:1", "b:1", "a:1", "b:1"]
    assert found.wrong == ["topic 'orders': 'without-master' has no master now"]
    assert found.stores == {"a": PopStore.FILES, "b": PopStore.ROCKSDB}
    assert begun == 2


def test_a_broker_that_is_away_or_cannot_pop_is_named_and_the_others_are_prepared() -> None:
    found, asked, _ = prepare({}, AWAY, None, None, BAD_QUEUE, {})
    assert asked == ["a:1", "b:1", "a:1", "a:1", "a:1", "a:1"]
    assert any(each.startswith("b: ") and "away" in each for each in found.wrong)
    assert found.stores == {"a": PopStore.FILES}
    found, _, _ = prepare(KNOWN, KNOWN, None, None, BAD_QUEUE, OFF, {}, {})
    assert any("timerWheelEnable=true" in each for each in found.wrong)
    assert not any(each.startswith("a: ") for each in found.wrong)


def test_nothing_is_written_after_the_lead_is_lost() -> None:
    def refuse() -> None:
        raise RuntimeError("lost")

    stage = Stage()
    flow = pop_brokers.prepare(stage.directory, "billing", "orders", refuse)
    with pytest.raises(RuntimeError, match="lost"):
        stage.play(flow, [ROUTE, {}, {}])
