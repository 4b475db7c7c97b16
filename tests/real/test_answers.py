"""What a reader makes of each answer that a broker may give to a pull."""

from collections.abc import Iterator

import pytest

from mq_client.blocking import Client
from mq_client.frames import Frame
from mq_client.messages import Message
from mq_client.operations.sending import To
from mq_client.pulling import Position
from mq_client.values import Queue
from sandbox import rocketmq
from sandbox.waiting import eventually
from tests.answers import Answers, Asked, said

MESSAGES = 100


@pytest.fixture
def answers(rocketmq: rocketmq.RocketMq) -> Iterator[Answers]:
    with Answers(rocketmq.name_server.address) as relay:
        yield relay


@pytest.fixture
def reader(answers: Answers) -> Iterator[Client]:
    with Client(answers.address) as opened:
        yield opened


@pytest.fixture
def filled(client: Client, queue: Queue) -> Queue:
    """The queue, with messages in it whose bodies are their offsets."""
    client.send([Message(queue.topic, b"%d" % place) for place in range(MESSAGES)], To(queue))
    eventually(lambda: client.max_offset(queue), lambda end: end == MESSAGES)
    return queue


def test_a_relay_shows_a_reader_what_the_broker_said_or_what_a_rule_makes_of_it(
    answers: Answers, reader: Client, filled: Queue
) -> None:
    seen: list[tuple[int, int, str | None]] = []

    def nothing_at_first(asked: Asked, answer: Frame) -> Frame:
        if not asked.is_pull:
            return answer
        seen.append((asked.offset, answer.code, answer.remark))
        return said(answer, 19, "OFFSET_OVERFLOW_ONE", b"") if len(seen) == 1 else answer

    answers.after = nothing_at_first
    (batch,) = reader.read("readers", [Position(filled, 10, MESSAGES)])
    assert [int(message.body) for message in batch.messages()] == list(range(10, MESSAGES))
    assert seen[:2] == [(10, 0, "FOUND")] * 2
    assert answers.pulls[:2] == [(filled, 10)] * 2
