"""The queues to which Spark's sink may send, and how it chooses one."""

import pytest

from lb_core.model import QueueRange
from mq_client import errors
from mq_client.values import BrokerRoute, MessageQueue, Route
from spark_jobs import choosing


def broker(name: str, perm: int = 6, write: int = 2, zone: str | None = None) -> BrokerRoute:
    return BrokerRoute(name, "c", {0: f"{name}:1"}, 4, write, perm, zone)


def test_the_writable_queues_are_ranges_in_the_zones_of_their_brokers() -> None:
    route = Route("orders", (broker("a", zone="z1"), broker("b", perm=4), broker("c", write=0)))
    assert choosing.list_writable(route) == (QueueRange("orders", "a", 0, 2, "z1"),)


def test_a_static_topic_is_refused_by_name() -> None:
    with pytest.raises(errors.UsageError, match=r"orders.* is a static"):
        choosing.list_writable(Route("orders", (broker("a"),), is_static=True))


def test_it_goes_round_and_leaves_out_a_broker_that_failed() -> None:
    route, now = Route("orders", (broker("a", write=1), broker("b", write=1))), [0.0]
    balanced = choosing.Balanced(lambda: now[0])
    assert [balanced.choose(route, None).broker for _ in range(3)] == ["a", "b", "a"]
    balanced.note_end("b", 0.01, errors.DeadlineError("silent"))
    assert {balanced.choose(route, None).broker for _ in range(3)} == {"a"}
    now[0] = 10_000.0
    assert {balanced.choose(route, None) for _ in range(2)} == {
        MessageQueue("orders", "a", 0), MessageQueue("orders", "b", 0),
    }  # fmt: skip
