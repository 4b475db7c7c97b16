"""A send that fails is tried elsewhere, and says how it ended."""

from collections.abc import Sequence
from typing import Any

import pytest

from mq_client import errors
from mq_client.directory import Directory, Times
from mq_client.flows import Ask, Flow, Pause
from mq_client.machine import Machine
from mq_client.messages import Message
from mq_client.operations import sending
from mq_client.operations.sending import RoundRobin
from mq_client.values import BrokerRoute, Queue, Route, Sent, Stored

HERE = Route(
    "orders",
    (
        BrokerRoute("broker-a", "c", {0: "a:1"}, 1, 1, 6),
        BrokerRoute("broker-b", "c", {0: "b:1"}, 1, 1, 6),
    ),
)
STORED = Stored(Queue("orders", "broker-b", 0), 7)
LOST = errors.ConnectionLostError("reset")
BUSY = errors.BusyError("SEND_MESSAGE_V2 orders", "a:1", 2, "system busy")
REFUSED = errors.BadParameterError("SEND_MESSAGE_V2 orders", "a:1", 13, "too big")


class Told(RoundRobin):
    """Remembers how sends ended."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, errors.MqError | None]] = []

    def ended(self, broker: str, seconds: float, error: errors.MqError | None) -> None:
        self.told.append((broker, error))


def directory() -> Directory:
    machine = Machine(lambda: 0.0, lambda: 0, lambda: "KEY")
    return Directory("ns:1", machine, Times(first_pause=1, longest_pause=2))


def play(flow: Flow[Sent], script: Sequence[Any]) -> tuple[Sent, list[str], list[float]]:
    """Answer from a script; what was returned, who was asked, and the pauses."""
    answers = iter(script)
    asked: list[str] = []
    pauses: list[float] = []
    outcome: Any = None
    while True:
        try:
            step = flow.throw(outcome) if isinstance(outcome, Exception) else flow.send(outcome)
        except StopIteration as stop:
            return stop.value, asked, pauses
        if isinstance(step, Pause):
            pauses.append(step.seconds)
            outcome = None
        else:
            assert isinstance(step, Ask)
            asked.append(step.address)
            outcome = next(answers)


def orders(count: int) -> list[Message]:
    return [Message("orders", b"%d" % number) for number in range(count)]


@pytest.mark.parametrize("failure", [LOST, BUSY], ids=["lost", "busy"])
def test_a_send_that_failed_goes_to_another_broker_after_a_pause(failure: Exception) -> None:
    chooser = Told()
    flow = sending.send(directory(), orders(1), chooser)
    sent, asked, pauses = play(flow, [HERE, failure, HERE, STORED])
    assert asked == ["ns:1", "a:1", "ns:1", "b:1"]
    assert (sent, pauses) == (Sent(*STORED, ("KEY",)), [1])
    assert chooser.told == [("broker-a", failure), ("broker-b", None)]


def test_the_last_try_raises() -> None:
    flow = sending.send(directory(), orders(1), RoundRobin(), tries=2)
    with pytest.raises(errors.ConnectionLostError):
        play(flow, [HERE, LOST, HERE, LOST])


def test_one_try_is_one_send() -> None:
    flow = sending.send(directory(), orders(1), RoundRobin(), tries=1)
    with pytest.raises(errors.ConnectionLostError):
        play(flow, [HERE, LOST])


def test_a_message_that_is_refused_is_not_sent_again() -> None:
    chooser = Told()
    flow = sending.send(directory(), orders(1), chooser)
    with pytest.raises(errors.BadParameterError):
        play(flow, [HERE, REFUSED])
    assert chooser.told == [("broker-a", REFUSED)]


def test_every_message_of_a_batch_has_an_id() -> None:
    flow = sending.send(directory(), orders(3), RoundRobin())
    sent, _, _ = play(flow, [HERE, STORED])
    assert sent.message_ids == ("KEY",) * 3
