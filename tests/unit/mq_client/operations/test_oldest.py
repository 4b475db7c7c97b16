"""Since when messages wait that no consumer of a popping group has got."""

import json
import random

import pytest

from mq_client import errors
from mq_client.commands.base import read_answer
from mq_client.commands.offsets import GetLag, GetTopicOffsets
from mq_client.commands.stored import FindStored, GetStoreTime
from mq_client.flows import Ask, AskAll
from mq_client.frames import Frame
from mq_client.operations.oldest import AT_ONCE, find_oldest_waiting
from mq_client.values import BrokerRoute, Lag, MessageQueue, Offsets, Route
from tests import stored
from tests.scripted import Stage

ROUTE = Route(
    "orders",
    (
        BrokerRoute("broker-a", "c", {0: "a:1"}, 8, 8, 6),
        BrokerRoute("broker-b", "c", {0: "b:1"}, 8, 8, 6),
    ),
)
RETRIES_V1 = "%RETRY%g_orders"


class ScriptedBroker:
    """Answers for all brokers. `times` has the times of the messages of each queue of a topic."""

    def __init__(self, at_a: dict[MessageQueue, tuple[Lag, int, list[int]]]) -> None:
        self.at_a = at_a
        self.asked: list[int] = []
        """The queues whose messages were looked up."""

    def answer(self, ask: Ask) -> object:
        request = ask.request
        is_a = ask.address == "a:1"
        match request:
            case GetLag():
                return (
                    [lag for lag, _, _ in self.at_a.values() if lag.queue.topic == request.topic]
                    if is_a
                    else []
                )
            case GetTopicOffsets():
                return {
                    queue: Offsets(begin, begin + len(times), 0)
                    for queue, (_, begin, times) in self.at_a.items()
                    if queue.topic == request.topic
                }
            case FindStored():
                self.asked.append(request.queue_id)
                queue = MessageQueue(request.topic, "broker-a", request.queue_id)
                _, begin, times = self.at_a[queue]
                at = request.offset - begin
                return times[at] if 0 <= at < len(times) else None
            case GetStoreTime():
                return request.commit_log_offset
            case _:
                raise AssertionError(request)

    def play(self) -> dict[str, int]:
        flow = find_oldest_waiting(Stage().directory, "g", "orders")
        next(flow)
        step = flow.send(ROUTE)
        while True:
            if isinstance(step, AskAll):
                outcome: object = [self.answer(each) for each in step.asks]
            else:
                assert isinstance(step, Ask)
                outcome = self.answer(step)
            try:
                step = flow.send(outcome)
            except StopIteration as stop:
                found: dict[str, int] = stop.value
                return found


def make(
    topic: str, number: int, last: int, got: int, begin: int, times: list[int]
) -> tuple[MessageQueue, tuple[Lag, int, list[int]]]:
    queue = MessageQueue(topic, "broker-a", number)
    return queue, (Lag(queue, begin + len(times), got, last, pull_offset=-1), begin, times)


def test_the_oldest_message_is_the_first_that_nobody_has_got() -> None:
    broker = ScriptedBroker(dict([
        make("orders", 0, 5, 2, 0, [1, 5, 70, 80]),
        make("orders", 1, 60, 1, 0, [60]),  # nothing waits
        make("orders", 2, 4, 0, 3, [50, 90]),  # older messages are deleted
    ]))  # fmt: skip
    assert broker.play() == {"broker-a": 50}
    assert 1 not in broker.asked


def test_a_message_that_comes_again_counts_from_then_on() -> None:
    broker = ScriptedBroker(dict([
        make("orders", 0, 5, 0, 0, [40]),
        make(RETRIES_V1, 0, 0, 0, 0, [30, 35]),
    ]))  # fmt: skip
    assert broker.play() == {"broker-a": 30}


def test_where_nothing_waits_nothing_is_looked_up() -> None:
    broker = ScriptedBroker(dict([make("orders", 0, 5, 1, 0, [5])]))
    assert broker.play() == {}
    assert broker.asked == []


def test_queues_that_can_have_no_older_message_are_not_asked(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        queues = {}
        for number in range(chance.randint(1, 5 * AT_ONCE)):
            last = chance.randint(0, 1000)
            times = sorted(last + chance.randint(0, 100) for _ in range(chance.randint(0, 3)))
            queue, found = make("orders", number, last, 0, 0, times)
            queues[queue] = found
        broker = ScriptedBroker(queues)
        waiting = [times[0] for _, _, times in queues.values() if times]
        assert broker.play() == ({"broker-a": min(waiting)} if waiting else {})
        assert len(broker.asked) == len(set(broker.asked))
    many = dict([make("orders", n, 10 * n, 0, 0, [10 * n + 5]) for n in range(10 * AT_ONCE)])
    broker = ScriptedBroker(many)
    assert broker.play() == {"broker-a": 5}
    assert len(broker.asked) == AT_ONCE


def test_answers_about_stored_messages_are_read() -> None:
    request = FindStored("orders", 3, 7)
    assert request.list_fields() == {"topic": "orders", "queueId": "3", "index": "7", "count": "1"}
    body = json.dumps({"queueData": [{"physicOffset": 4096, "physicSize": 91}]}).encode()
    assert read_answer(request, Frame(0, 1, body=body), "a:1") == 4096
    assert read_answer(request, Frame(0, 1), "a:1") is None
    assert read_answer(request, Frame(0, 1, body=b'{"queueData":[]}'), "a:1") is None
    read = GetStoreTime("orders", 4096)
    assert read.list_fields() == {"topic": "orders", "offset": "4096"}
    corrupt = stored.message(stored_ms=1234, crc=1)
    assert read_answer(read, Frame(0, 1, body=corrupt), "a:1") == 1234
    for body in (b"", corrupt[:-1], b"x" * 100):
        with pytest.raises(errors.ProtocolError, match=r"VIEW_MESSAGE_BY_ID"):
            read_answer(read, Frame(0, 1, body=body), "a:1")
