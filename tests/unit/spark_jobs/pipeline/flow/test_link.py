"""The task's side of its connection, with a driver that says what the test wants."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from contract.following import (
    Asked,
    GroupSource,
    MemberAnswer,
    MemberRefusal,
    MemberRequest,
    Refusal,
    Terms,
)
from follower.asks import NoAnswerError, RefusedError
from mq_client.values import MessageQueue
from spark_jobs.pipeline.flow import wire
from spark_jobs.pipeline.flow.link import DriverLink, DriverPlace
from spark_jobs.pipeline.flow.wire import CommitFigures, TaskCommit

A, B = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
FIRST: Asked[MessageQueue] = Asked("session", 1, 0, frozenset())
ANSWER = MemberAnswer(1, 1, [], 2.0, 30.0, Terms().on_outage, GroupSource("billing", []))


class FakeDriver:
    """Accepts connections, and lets the test read and write on the newest one."""

    def __init__(self) -> None:
        self.connections: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = (
            asyncio.Queue()
        )
        self.writers: list[asyncio.StreamWriter] = []
        self.stops = 0

    async def accept(self) -> None:
        """Take the next connection, whose first message is `TaskHello`."""
        self.reader, self.writer = await self.connections.get()
        self.writers.append(self.writer)
        assert await self.hear() == wire.TaskHello("secret", "billing-0", "7")

    async def hear(self) -> Any:
        return wire.read_from_task(await self.reader.readline())

    def say(self, message: wire.FromDriver) -> None:
        self.writer.write(wire.write(message))


@contextlib.asynccontextmanager
async def linked() -> AsyncIterator[tuple[FakeDriver, DriverLink]]:
    driver = FakeDriver()

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        driver.connections.put_nowait((reader, writer))

    def stop() -> None:
        driver.stops += 1

    server = await asyncio.start_server(note, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    link = DriverLink(DriverPlace("127.0.0.1", port, "secret"), "billing-0", "7", stop)
    talking = asyncio.create_task(link.run())
    try:
        yield driver, link
    finally:
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)
        for writer in driver.writers:
            writer.close()
        server.close()


def play(story: Callable[[FakeDriver, DriverLink], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with linked() as (driver, link), asyncio.timeout(60):
            await story(driver, link)

    asyncio.run(run())


def test_a_question_waits_for_the_connection_and_gets_its_own_answer() -> None:
    async def story(driver: FakeDriver, link: DriverLink) -> None:
        asking = asyncio.create_task(link.ask(FIRST, 0.0, 60.0))
        await driver.accept()
        assert await driver.hear() == wire.TaskAsk(MemberRequest("session", 1, 0, [], 0.0))
        driver.say(wire.AskGranted(99, ANSWER))
        driver.say(wire.AskGranted(1, ANSWER))
        assert await asking == ANSWER

    play(story)


def test_a_refusal_is_an_error_with_its_reason() -> None:
    async def story(driver: FakeDriver, link: DriverLink) -> None:
        asking = asyncio.create_task(link.ask(FIRST, 0.0, 60.0))
        await driver.accept()
        over = Refusal.SESSION_OVER.value
        driver.say(wire.AskRefused(1, MemberRefusal(over, over)))
        with pytest.raises(RefusedError) as caught:
            await asking
        assert caught.value.reason == over

    play(story)


def test_a_driver_that_does_not_answer_is_no_answer() -> None:
    async def story(driver: FakeDriver, link: DriverLink) -> None:
        await driver.accept()
        with pytest.raises(NoAnswerError):
            await link.ask(FIRST, 0.0, 0.01)

    play(story)


def test_what_waits_for_an_answer_is_sent_again_on_the_next_connection() -> None:
    async def story(driver: FakeDriver, link: DriverLink) -> None:
        await driver.accept()
        committing = asyncio.create_task(
            link.commit(lambda call: TaskCommit(call, "session", 5, [], "", "", CommitFigures()))
        )
        locating = asyncio.create_task(link.locate(A))
        first = [await driver.hear(), await driver.hear()]
        driver.writer.close()
        await driver.accept()
        assert [await driver.hear(), await driver.hear()] == first
        commit, locate = first
        driver.say(wire.Located(locate.call, 40, 7))
        driver.say(wire.Settled(commit.call, is_accepted=True))
        assert await locating == wire.Located(locate.call, 40, 7)
        assert await committing is True

    play(story)


def test_trouble_without_a_connection_is_told_on_the_next_one() -> None:
    """Some troubles are reported only one time, for example that a call does not return."""

    async def story(driver: FakeDriver, link: DriverLink) -> None:
        link.report(A, 4, "an old trouble")
        link.report(A, 5, "it does not return")
        link.report(B, 7, "rows wait")
        await driver.accept()
        assert [await driver.hear(), await driver.hear()] == [
            wire.TaskTrouble(A, 5, "it does not return", wire.Consequence.QUEUE_WAITS),
            wire.TaskTrouble(B, 7, "rows wait", wire.Consequence.QUEUE_WAITS),
        ]

    play(story)


def test_an_answer_for_another_task_of_the_slot_answers_nothing() -> None:
    """When a driver has written a commit, it answers the task that is in the slot at that time."""

    async def find_call(driver: FakeDriver, link: DriverLink) -> int:
        await driver.accept()
        locating = asyncio.create_task(link.locate(A))
        call: int = (await driver.hear()).call
        driver.say(wire.Located(call, 0))
        await locating
        return call

    calls: list[int] = []

    async def story(driver: FakeDriver, link: DriverLink) -> None:
        calls.append(await find_call(driver, link))

    for _ in range(3):
        play(story)
    assert len(set(calls)) == 3


@pytest.mark.parametrize("line", [b"\xff\n", b"{}\n", b'{"type": "Settled"}\n'])
def test_nonsense_of_a_driver_ends_the_connection_and_the_next_one_works(line: bytes) -> None:
    async def story(driver: FakeDriver, link: DriverLink) -> None:
        await driver.accept()
        driver.writer.write(line)
        await driver.accept()
        asking = asyncio.create_task(link.ask(FIRST, 0.0, 60.0))
        await driver.hear()
        driver.say(wire.AskGranted(1, ANSWER))
        assert await asking == ANSWER

    play(story)


def test_a_driver_may_stop_the_task() -> None:
    async def story(driver: FakeDriver, link: DriverLink) -> None:
        await driver.accept()
        driver.say(wire.Stop())
        driver.say(wire.Located(77, 0))  # no call waits for this answer
        asking = asyncio.create_task(link.ask(FIRST, 0.0, 60.0))
        await driver.hear()
        driver.say(wire.AskGranted(1, ANSWER))
        await asking
        assert driver.stops == 1

    play(story)
