"""A failed send is retried at another broker, and the chooser learns each result."""

from collections.abc import Callable
from typing import Any

import pytest

from mq_client import errors
from mq_client.choosers import RoundRobin, To
from mq_client.messages import Message
from mq_client.operations import sending
from mq_client.values import BrokerRoute, MessageQueue, Route, Sent, Stored
from tests.scripted import Stage

HERE = Route(
    "orders",
    (
        BrokerRoute("broker-a", "c", {0: "a:1"}, 1, 1, 6),
        BrokerRoute("broker-b", "c", {0: "b:1"}, 1, 1, 6),
    ),
)
STORED = Stored(MessageQueue("orders", "broker-b", 0), 7)
LOST = errors.ConnectionLostError("reset")
BUSY = errors.BusyError("SEND_MESSAGE_V2 orders", "a:1", 2, "system busy")
REFUSED = errors.BadParameterError("SEND_MESSAGE_V2 orders", "a:1", 13, "too big")


class Told(RoundRobin):
    """Remembers the results of sends."""

    def __init__(self) -> None:
        super().__init__(start=0)
        self.told: list[tuple[str, errors.MqError | None]] = []

    def note_end(self, broker: str, seconds: float, error: errors.MqError | None) -> None:
        self.told.append((broker, error))


def stage() -> Stage:
    return Stage(first_pause=1, longest_pause=2)


def orders(count: int) -> list[Message]:
    return [Message("orders", b"%d" % number) for number in range(count)]


@pytest.mark.parametrize("failure", [LOST, BUSY], ids=["lost", "busy"])
def test_a_send_that_failed_goes_to_another_broker_after_a_pause(failure: Exception) -> None:
    chooser = Told()
    here = stage()
    flow = sending.send(here.directory, orders(1), chooser)
    sent, asked, pauses = here.play(flow, [HERE, failure, HERE, STORED])
    assert asked == ["ns:1", "a:1", "ns:1", "b:1"]
    assert (sent, pauses) == (Sent(*STORED, ("KEY",)), [1])
    assert chooser.told == [("broker-a", failure), ("broker-b", None)]


def test_the_last_try_raises() -> None:
    here = stage()
    flow = sending.send(here.directory, orders(1), RoundRobin(), tries=2)
    with pytest.raises(errors.ConnectionLostError):
        here.play(flow, [HERE, LOST, HERE, LOST])


def test_one_try_is_one_send() -> None:
    here = stage()
    flow = sending.send(here.directory, orders(1), RoundRobin(), tries=1)
    with pytest.raises(errors.ConnectionLostError):
        here.play(flow, [HERE, LOST])


def test_a_message_that_is_refused_is_not_sent_again() -> None:
    chooser = Told()
    here = stage()
    flow = sending.send(here.directory, orders(1), chooser)
    with pytest.raises(errors.BadParameterError):
        here.play(flow, [HERE, REFUSED])
    assert chooser.told == [("broker-a", REFUSED)]


def test_every_message_of_a_batch_has_an_id() -> None:
    here = stage()
    flow = sending.send(here.directory, orders(3), RoundRobin())
    sent, _, _ = here.play(flow, [HERE, STORED])
    assert sent.message_ids == ("KEY",) * 3


def test_a_single_message_without_a_body_is_refused_before_anything_is_asked() -> None:
    here = stage()
    flow = sending.send(here.directory, [Message("orders", b"")], RoundRobin())
    with pytest.raises(errors.UsageError, match="'orders': brokers accept an empty body only in"):
        here.play(flow, [])


@pytest.mark.parametrize(
    "send",
    [
        lambda directory, chooser: sending.send(directory, orders(1), chooser),
        lambda directory, chooser: sending.send_one_way(directory, orders(1)[0], chooser),
    ],
    ids=["send", "one way"],
)
def test_a_queue_of_another_topic_is_no_choice(send: Callable[..., Any]) -> None:
    here = stage()
    with pytest.raises(errors.UsageError, match=r"picked bills@broker-a 0 for .* 'orders'"):
        here.play(send(here.directory, To(MessageQueue("bills", "broker-a", 0))), [HERE])


@pytest.mark.parametrize("number", [-1, "0", 1 << 31])
def test_a_queue_that_cannot_be_is_no_place_to_send_to(number: Any) -> None:
    with pytest.raises(errors.UsageError, match="is not a queue"):
        To(MessageQueue("orders", "broker-a", number))


def test_one_message_need_not_stand_in_a_list() -> None:
    here = stage()
    flow = sending.send(here.directory, Message("orders", b"x"), RoundRobin(start=0))
    assert here.play(flow, [HERE, STORED]).value.queue == STORED.queue
