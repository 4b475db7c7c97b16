"""Operations refuse what cannot be, and tell what happened."""

from typing import Any

import pytest

from mq_client import errors
from mq_client.operations import offsets, routing
from mq_client.values import BrokerRoute, Queue, Route, TopicConfig
from tests.scripted import Stage

QUEUE = Queue("orders", "broker-a", 0)
HERE = Route("orders", (BrokerRoute("broker-a", "c", {0: "a:1"}, 1, 1, 6),))


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"topic": None}, "its name is a text"),
        ({"topic": ""}, "its name is a text"),
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
    with pytest.raises(errors.UsageError, match=r"orders@broker-a 1: .* is no offset to commit"):
        here.play(flow, [])


def test_a_broker_that_failed_twice_is_told_with_both_failures() -> None:
    here = Stage()
    silent = errors.DeadlineError("no answer within 5 s")
    refused = errors.ConnectionLostError("refused")
    with pytest.raises(
        errors.ConnectionLostError,
        match=r"^tried twice, first: no answer within 5 s; then: refused$",
    ):
        here.play(offsets.max_offset(here.directory, QUEUE), [HERE, silent, HERE, refused])
