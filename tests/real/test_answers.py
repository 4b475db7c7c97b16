"""
How readers treat each answer that a broker may give to a pull: as messages, or as a named error.

A relay in front of a real broker inserts the answers. The last tests use real causes whose
moment a test can choose: a deleted file of the commit log, and a reset of a group's offset.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from mq_client import aio, answers, errors
from mq_client.blocking import Client
from mq_client.choosers import To
from mq_client.commands.base import Done, send_as
from mq_client.directory import Times
from mq_client.frames import Frame
from mq_client.messages import Message
from mq_client.pulling import MOST_MESSAGES, BeyondEndError, OffsetGoneError, Position
from mq_client.values import MessageQueue, TopicConfig
from sandbox import asking, rocketmq
from sandbox.waiting import wait_for
from tests.answers import Answers, Asked, said

MESSAGES, AT, NEXT = 100, 10, 40
A_BATCH = 2000
GROUP = "readers-of-answers"
TIMES = Times(first_pause=0.02, longest_pause=0.1, patience=0.3)
MOST_PULLS = 60
"""More pulls than a case with pauses needs; without pauses there would be thousands."""


@pytest.fixture
def relay(rocketmq: rocketmq.RocketMq) -> Iterator[Answers]:
    with Answers(rocketmq.name_server.address) as opened:
        yield opened


@pytest.fixture
def filled(client: Client, queue: MessageQueue) -> MessageQueue:
    """A queue with messages whose bodies are their offsets."""
    fill(client, queue, MESSAGES)
    return queue


def fill(client: Client, queue: MessageQueue, count: int) -> None:
    for first in range(0, count, A_BATCH):
        places = range(first, min(first + A_BATCH, count))
        client.send([Message(queue.topic, b"%d" % place) for place in places], To(queue))
    wait_for(lambda: client.find_max_offset(queue), lambda end: end == count)


Read = Callable[[str, Position], list[int]]


def read_blocking(name_server: str, position: Position) -> list[int]:
    with Client(name_server, times=TIMES) as client:
        batches = client.read(GROUP, [position])
        return [int(message.body) for batch in batches for message in batch.to_messages()]


def read_by_asyncio(name_server: str, position: Position) -> list[int]:
    async def read() -> list[int]:
        found: list[int] = []
        async with aio.Client(name_server, times=TIMES) as client:
            while (batch := await client.pull_batch(GROUP, position)) is not None:
                found += [int(message.body) for message in batch.to_messages()]
        return found

    return asyncio.run(read())


@dataclass(frozen=True)
class Case:
    """An answer that never changes, and its result: a gap, vain retries, or an error."""

    code: int
    remark: str | None
    next_offset: int
    error: type[errors.MqError]
    is_gap: bool = False
    min_offset: int = 0

    def put_into(self, answer: Frame) -> Frame:
        return said(
            answer, self.code, self.remark or "", b"", next_offset=self.next_offset,
            min_offset=self.min_offset,
        )  # fmt: skip

    def __str__(self) -> str:
        return f"{self.code} {self.remark} {self.next_offset}"


LATER, GONE = errors.UnavailableError, OffsetGoneError
CASES = [
    Case(0, "FOUND", NEXT, GONE, is_gap=True),
    Case(0, "FOUND", AT, LATER),
    Case(19, "OFFSET_FOUND_NULL", NEXT, GONE, is_gap=True),
    Case(19, "OFFSET_FOUND_NULL", AT, LATER),
    Case(20, "MESSAGE_WAS_REMOVING", NEXT, GONE, is_gap=True),
    Case(20, "MESSAGE_WAS_REMOVING", AT, LATER),
    Case(20, "NO_MATCHED_MESSAGE", NEXT, GONE, is_gap=True),
    Case(20, "NO_MATCHED_MESSAGE", AT, LATER),
    Case(20, "OFFSET_TOO_SMALL", AT, LATER, min_offset=NEXT),
    Case(20, "OFFSET_OVERFLOW_BADLY", AT, LATER),
    Case(20, "NO_MESSAGE_IN_QUEUE", AT, LATER),
    Case(20, "NO_MATCHED_LOGIC_QUEUE", AT, LATER),
    Case(20, "OFFSET_FOUND_NULL", AT, LATER),
    Case(20, "OFFSET_RESET", NEXT, LATER),
    Case(20, None, AT, LATER),
    Case(21, "OFFSET_TOO_SMALL", NEXT, GONE, is_gap=True, min_offset=NEXT),
    Case(21, "OFFSET_OVERFLOW_BADLY", 3, LATER),
    Case(21, "NO_MESSAGE_IN_QUEUE", 0, LATER),
    Case(21, "NO_MATCHED_LOGIC_QUEUE", 0, LATER),
    Case(21, "OFFSET_RESET", NEXT, LATER),
    Case(21, "OFFSET_RESET", 0, LATER),
    Case(20, "SOMETHING_NEW", NEXT, answers.UnknownAnswerError),
    Case(1, "store getMessage return null", 0, errors.BusyError),
    Case(16, "the topic pulling message is forbidden", 0, errors.NotPermittedError),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("read", [read_blocking, read_by_asyncio], ids=["blocking", "asyncio"])
def test_no_answer_loses_messages_in_silence_or_keeps_the_broker_busy(
    relay: Answers, filled: MessageQueue, case: Case, read: Read
) -> None:
    times = 0

    def once(asked: Asked, answer: Frame) -> Frame:
        nonlocal times
        if not asked.is_pull or asked.offset != AT:
            return answer
        times += 1
        return case.put_into(answer) if times == 1 else answer

    def always(asked: Asked, answer: Frame) -> Frame:
        return case.put_into(answer) if asked.is_pull and asked.offset == AT else answer

    everything = list(range(AT, MESSAGES))
    heals = issubclass(case.error, (LATER, GONE, errors.BusyError))
    if heals:
        relay.after = once
        position = Position(filled, AT, MESSAGES)
        assert read(relay.address, position) == everything
        assert position.gaps == []
    relay.after = always
    position = Position(filled, AT, MESSAGES)
    with pytest.raises(case.error):
        read(relay.address, position)
    assert (position.next, position.gaps) == (AT, [])
    if case.is_gap:
        position = Position(filled, AT, MESSAGES, allow_gaps=True)
        assert read(relay.address, position) == everything[NEXT - AT :]
        assert position.gaps == [(AT, NEXT)]
    assert len(relay.pulls) <= MOST_PULLS


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (19, "OFFSET_OVERFLOW_ONE"), (19, "NO_MESSAGE_IN_QUEUE"), (19, "NO_MATCHED_LOGIC_QUEUE"),
        (19, None), (20, "OFFSET_OVERFLOW_ONE"),
    ],
)  # fmt: skip
def test_a_broker_that_says_at_once_that_it_ends_here_is_not_kept_busy(
    relay: Answers, filled: MessageQueue, code: int, remark: str | None
) -> None:
    relay.after = lambda asked, answer: (
        said(answer, code, remark or "", b"", next_offset=AT) if asked.is_pull else answer
    )
    with Client(relay.address, times=TIMES) as reader:
        reading = reader.read(GROUP, [Position(filled, AT, MESSAGES)])
        assert list(reading.poll(0.5)) == []
        assert len(relay.pulls) <= MOST_PULLS
        relay.after = lambda _, answer: answer
        found = [int(message.body) for batch in reading for message in batch.to_messages()]
    assert found == list(range(AT, MESSAGES))


@pytest.mark.parametrize("read", [read_blocking, read_by_asyncio], ids=["blocking", "asyncio"])
def test_a_range_beyond_the_end_is_an_error_when_the_master_has_said_so_twice(
    relay: Answers, filled: MessageQueue, read: Read
) -> None:
    position = Position(filled, MESSAGES + 20, MESSAGES + 30)
    with pytest.raises(BeyondEndError, match=r"offsets 120 to 130, exclusive, .* ends at 100: "):
        read(relay.address, position)
    assert (position.next, position.gaps, len(relay.pulls)) == (MESSAGES + 20, [], 2)


def test_a_reader_without_an_end_waits_until_the_queue_reaches_it(
    client: Client, filled: MessageQueue
) -> None:
    reading = client.read(GROUP, [Position(filled, MESSAGES + 2)])
    assert list(reading.poll(0.5)) == []
    client.send([Message(filled.topic, b"%d" % (MESSAGES + n)) for n in range(5)], To(filled))
    found: list[int] = []
    while len(found) < 3:
        found += [int(each.body) for batch in reading.poll(5) for each in batch.to_messages()]
    assert found == [MESSAGES + 2, MESSAGES + 3, MESSAGES + 4]


@dataclass(frozen=True, slots=True)
class _Reset(Done):
    code: ClassVar[int] = 222
    name: ClassVar[str] = "INVOKE_BROKER_TO_RESET_OFFSET"
    group: str = send_as("group")
    topic: str = send_as("topic")
    queue_id: int = send_as("queueId")
    offset: int = send_as("offset")
    timestamp: int = send_as("timestamp", default=0)
    is_force: bool = send_as("isForce", default=True)


@pytest.mark.parametrize("offset", [0, 90], ids=["back", "ahead"])
def test_a_reset_of_the_groups_offset_leaves_a_reader_where_it_is(
    rocketmq: rocketmq.RocketMq, relay: Answers, client: Client, filled: MessageQueue, offset: int
) -> None:
    client.commit(GROUP, {filled: AT})
    seen: list[str | None] = []

    def note(asked: Asked, answer: Frame) -> Frame:
        if asked.is_pull:
            seen.append(answer.remark)
        return answer

    relay.after = note
    broker = rocketmq.brokers[filled.broker]
    asking.ask(broker.address, _Reset(GROUP, filled.topic, filled.id, offset))
    position = Position(filled, AT, MESSAGES)
    assert read_blocking(relay.address, position) == list(range(AT, MESSAGES))
    assert (seen[0], position.gaps) == ("OFFSET_RESET", [])


def test_a_topic_that_may_not_be_read_is_no_loss(client: Client, filled: MessageQueue) -> None:
    position = Position(filled, AT, MESSAGES)
    client.put_topics([TopicConfig(filled.topic, 2, 2, perm=2)])
    with pytest.raises(errors.NotPermittedError, match=filled.topic):
        client.pull_batch(GROUP, position)
    client.put_topics([TopicConfig(filled.topic, 2, 2)])
    batch = client.pull_batch(GROUP, position)
    assert batch is not None
    assert [int(message.body) for message in batch.to_messages()] == list(range(AT, MESSAGES))
    assert position.gaps == []


A_FILE = 1024 * 1024
STORED = 30_000


def test_what_a_broker_has_deleted_before_it_corrected_the_queue_is_an_error_or_a_gap() -> None:
    """While a file of the commit log is gone, the index still points into it."""
    with rocketmq.run(brokers=1, properties={"mappedFileSizeCommitLog": str(A_FILE)}) as mq:
        mq.create_topics({"orders": 1})
        broker, queue = mq.brokers["broker-a"], MessageQueue("orders", "broker-a", 0)
        with Client(mq.name_server.address) as client:
            fill(client, queue, STORED)
            broker.kill()
            files = sorted(Path(broker.make_properties()["storePathRootDir"]).glob("commitlog/*"))
            assert len(files) > 3
            files[1].unlink()
            broker.restart()
            with Answers(mq.name_server.address) as relay:
                seen: set[tuple[int, str | None]] = set()

                def note(asked: Asked, answer: Frame) -> Frame:
                    if asked.is_pull:
                        seen.add((answer.code, answer.remark))
                    return answer

                relay.after = note
                position = Position(queue, 0, STORED, allow_gaps=True)
                found = read_blocking(relay.address, position)
                assert (20, "MESSAGE_WAS_REMOVING") in seen
                gone = {n for first, stop in position.gaps for n in range(first, stop)}
                assert len(gone) > MOST_MESSAGES
                assert sorted([*found, *gone]) == list(range(STORED))
                strict = Position(queue, 0, STORED)
                with pytest.raises(OffsetGoneError, match=f"offsets {min(gone)} to "):
                    read_blocking(relay.address, strict)
                assert strict.next == min(gone)
                inside = Position(queue, max(gone) - 5, STORED)  # the broker finds a later message
                with pytest.raises(OffsetGoneError, match=f"to {max(gone)} are deleted"):
                    read_blocking(relay.address, inside)
