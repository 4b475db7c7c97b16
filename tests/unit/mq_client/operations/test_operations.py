"""Operations refuse invalid arguments, and their errors say what happened."""

from typing import Any

import pytest

from mq_client import errors
from mq_client.operations import offsets, routing
from mq_client.values import BrokerRoute, MessageQueue, Route, TopicConfig
from tests.scripted import Stage

QUEUE = MessageQueue("orders", "broker-a", 0)
HERE = Route("orders", (BrokerRoute("broker-a", "c", {0: "a:1"}, 1, 1, 6),))


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"topic": None}, "the name must be a string"),
        ({"topic": ""}, "the name must be a string"),
        ({"read_queues": -1}, "'orders': read_queues is -1"),
        ({"write_queues": 1.5}, "'orders': write_queues is 1.5"),
        ({"write_queues": 1 << 31}, "'orders': write_queues is"),
        ({"perm": 99}, "'orders': perm is 99, not a whole number from 0 to 7"),
    ],
    ids=str,
)
def test_a_topic_that_cannot_be_is_refused_at_once(wrong: Any, complaint: str) -> None:
    with pytest.raises(errors.UsageError, match=complaint):
        TopicConfig(**{"topic": "orders", **wrong})


def test_the_brokers_of_a_new_topic_are_a_list() -> None:
    here = Stage()
    flow = routing.put_topics(here.directory, [TopicConfig("orders")], on="broker-a")
    with pytest.raises(errors.UsageError, match=r"as \['broker-a'\]"):
        here.play(flow, [])


@pytest.mark.parametrize("offset", [-1, 1.5, None, 1 << 63])
def test_no_offset_is_committed_when_one_cannot_be(offset: Any) -> None:
    here = Stage()
    flow = offsets.commit(here.directory, "g", {QUEUE: 5, QUEUE._replace(id=1): offset})
    with pytest.raises(errors.UsageError, match=r"orders@broker-a 1: .* is not an offset"):
        here.play(flow, [])


def test_a_broker_that_failed_twice_is_told_with_both_failures() -> None:
    here = Stage()
    silent = errors.DeadlineError("no answer within 5 s")
    refused = errors.ConnectionLostError("refused")
    with pytest.raises(
        errors.ConnectionLostError,
        match=r"^failed twice: first no answer within 5 s; then: refused$",
    ):
        here.play(offsets.find_max_offset(here.directory, QUEUE), [HERE, silent, HERE, refused])


ON_TWO = Route(
    "orders",
    (
        BrokerRoute("broker-a", "c", {0: "a:1", 1: "a:2"}, 1, 1, 6),
        BrokerRoute("broker-b", "c", {0: "b:1"}, 1, 1, 6),
    ),
)
FAILED = errors.UnexpectedError("DELETE_TOPIC_IN_BROKER orders", "a:1", 1, "a null pointer")
GONE = errors.TopicUnknownError("GET_TOPIC_STATS_INFO orders", "a:1", 17, "no topic")
REFUSED = errors.NotPermittedError("DELETE_TOPIC_IN_BROKER orders", "a:1", 16, "no")


def test_a_topic_is_deleted_on_all_masters_and_then_forgotten() -> None:
    here = Stage()
    here.directory.note(ON_TWO)
    played = here.play(routing.delete_topic(here.directory, "orders"), [ON_TWO, None, None, None])
    assert played.asked == ["ns:1", "a:1", "b:1", "ns:1"]
    assert here.directory.find_last_route("orders") is None


def test_a_broker_that_fails_after_it_has_deleted_all_has_deleted_it() -> None:
    here = Stage()
    script = [ON_TWO, FAILED, None, GONE, None]
    played = here.play(routing.delete_topic(here.directory, "orders"), script)
    assert played.asked == ["ns:1", "a:1", "b:1", "a:1", "ns:1"]


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ([ON_TWO, FAILED, None, {}], errors.UnexpectedError),
        ([ON_TWO, REFUSED, None], errors.NotPermittedError),
        ([ON_TWO, None, errors.DeadlineError("silent")], errors.DeadlineError),
        (
            [Route("orders", (BrokerRoute("broker-a", "c", {1: "a:2"}, 1, 1, 6),))],
            errors.NoBrokerError,
        ),
    ],
    ids=["still there", "refused", "silent", "no master"],
)
def test_name_servers_forget_no_topic_that_a_broker_still_has(
    script: list[Any], kind: type[errors.MqError]
) -> None:
    here = Stage()
    with pytest.raises(kind):
        here.play(routing.delete_topic(here.directory, "orders"), script)
