"""A broker that its route has lost is asked at its last address, if it is really that broker."""

from typing import Any

import pytest

from mq_client import errors
from mq_client.commands.cluster import GetRoute
from mq_client.commands.offsets import GetTopicOffsets
from mq_client.directory import UNLISTED_SECONDS
from mq_client.operations import routing
from mq_client.operations.routing import BrokerChoice
from mq_client.values import BrokerRoute, MessageQueue, Offsets, Route
from tests.scripted import Stage

A = BrokerRoute("broker-a", "c", {0: "a:1"}, 1, 1, 6)
B = BrokerRoute("broker-b", "c", {0: "b:1", 1: "b:2"}, 1, 1, 6)
BOTH, ONLY_A = Route("orders", (A, B)), Route("orders", (A,))
CHOICE = BrokerChoice("orders", "broker-b")
GONE = errors.TopicUnknownError("GET_TOPIC_STATS_INFO", "b:1", 17, "no topic")


def tell_ends(broker: str) -> dict[MessageQueue, Offsets]:
    return {MessageQueue("orders", broker, 0): Offsets(0, 9, 0)}


@pytest.fixture
def here() -> Stage:
    """Make a client whose route has just lost a broker."""
    stage = Stage()
    for route in (BOTH, ONLY_A):
        stage.play(routing.find_route(stage.directory, "orders", max_age=0), [route])
    stage.requests.clear()
    return stage


def test_a_broker_that_is_not_listed_is_found_at_its_last_address(here: Stage) -> None:
    flow = routing.find_address(here.directory, CHOICE, max_age=0)
    assert here.play(flow, [ONLY_A, tell_ends("broker-b")]).value == "b:1"
    assert [type(each) for each in here.requests] == [GetRoute, GetTopicOffsets]
    slave = routing.find_address(here.directory, BrokerChoice("orders", "broker-b", 1))
    assert here.play(slave, [tell_ends("broker-b")]).value == "b:2"


@pytest.mark.parametrize("answer", [tell_ends("broker-c"), {}, GONE])
def test_another_broker_at_that_address_is_not_taken_for_it(here: Stage, answer: Any) -> None:
    with pytest.raises(errors.NoBrokerError, match="knows no address of 'broker-b'"):
        here.play(routing.find_address(here.directory, CHOICE), [answer])


def test_a_broker_that_is_down_is_unavailable(here: Stage) -> None:
    refused = errors.ConnectionLostError("refused")
    with pytest.raises(errors.ConnectionLostError):
        here.play(routing.find_address(here.directory, CHOICE), [refused])


def test_a_broker_that_is_listed_again_is_asked_where_the_route_says(here: Stage) -> None:
    moved = Route("orders", (A, BrokerRoute("broker-b", "c", {0: "b:3"}, 1, 1, 6)))
    flow = routing.find_address(here.directory, CHOICE, max_age=0)
    assert here.play(flow, [moved]).value == "b:3"
    assert here.directory.list_unlisted("orders") == []


def test_a_last_address_is_forgotten_like_a_route(here: Stage) -> None:
    here.seconds += UNLISTED_SECONDS + 1
    with pytest.raises(errors.NoBrokerError):
        here.play(routing.find_address(here.directory, CHOICE), [ONLY_A])
    here.directory.note_unlisted("orders", B)
    assert here.directory.list_unlisted("orders") == [B]
    here.directory.forget("orders")
    assert here.directory.list_unlisted("orders") == []
