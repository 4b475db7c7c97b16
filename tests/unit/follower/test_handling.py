"""What the handler gets, and the effects of its failures."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import pytest

from follower import handling
from follower.handling import HaltError, Handling
from follower.metrics import Metrics
from follower.options import FollowerOptions, OnFailure
from follower.pieces import DeadLetter, Piece
from follower.work import OverError, Work
from mq_client import errors
from mq_client.messages import StoredMessage, Unreadable
from mq_client.values import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 0)
BLANK = StoredMessage("orders", "broker-a", 0, 0, b"", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)
Messages = Sequence[StoredMessage]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handling, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(handling, "LONGEST_PAUSE", 0.0)


def piece(*offsets: int) -> Piece:
    messages = tuple(BLANK._replace(queue_offset=each) for each in offsets)
    return Piece(offsets[0], offsets[-1] + 1, messages)


def work() -> Work:
    return Work(QUEUE, 1, "billing", lambda: True)


class Scene:
    """A handler that fails at some offsets, and the dead letters."""

    def __init__(self, **options: Any) -> None:
        self.bad: set[int] = set()
        self.calls: list[list[int]] = []
        self.buried: list[int] = []
        self.metrics = Metrics()
        self.handling = Handling(self.handle, FollowerOptions(**options), self.metrics)

    def handle(self, messages: Messages) -> None:
        offsets = [each.queue_offset for each in messages]
        self.calls.append(offsets)
        if self.bad.intersection(offsets):
            raise ValueError("bad order")

    async def bury(self, _: Work, letter: DeadLetter) -> None:
        self.buried.append(letter.message.queue_offset)

    async def give(self, to_handle: Piece, holding: Work | None = None) -> None:
        await self.handling.handle(holding or work(), to_handle, self.bury)

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"evenkeel_follower_{name}", labels)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_a_piece_is_one_call() -> None:
    scene = Scene()
    run(scene.give(piece(5, 6, 7)))
    assert scene.calls == [[5, 6, 7]]
    assert scene.value("handled_messages_total") == 3


def test_only_the_message_that_fails_is_held_up() -> None:
    scene = Scene(attempts=3, on_failure=OnFailure.SKIP)
    scene.bad = {6}
    run(scene.give(piece(5, 6, 7)))
    assert scene.calls == [[5, 6, 7], [5], [6], [6], [6], [7]]
    assert scene.value("given_up_messages_total", to="skipped") == 1


def test_a_single_message_is_tried_as_often_as_asked_for() -> None:
    scene = Scene(attempts=3, on_failure=OnFailure.SKIP)
    scene.bad = {6}
    run(scene.give(piece(6)))
    assert scene.calls == [[6]] * 3
    assert scene.value("handler_failures_total") == 3


def test_a_queue_stops_before_the_message_that_fails() -> None:
    scene = Scene(attempts=2)
    scene.bad = {6}
    with pytest.raises(HaltError) as halted:
        run(scene.give(piece(5, 6, 7)))
    assert halted.value.stop == 6
    assert scene.calls[-1] == [6]


def test_a_message_that_fails_becomes_a_dead_letter() -> None:
    scene = Scene(attempts=2, on_failure=OnFailure.DEAD_LETTER)
    scene.bad = {6}
    run(scene.give(piece(5, 6, 7)))
    assert scene.buried == [6]
    assert scene.calls[-1] == [7]


def test_a_dead_letter_is_sent_until_it_is_stored() -> None:
    scene = Scene(attempts=1, on_failure=OnFailure.DEAD_LETTER)
    scene.bad = {6}
    failures = [errors.DeadlineError("no answer"), errors.NoBrokerError("no broker")]

    async def bury(_: Work, letter: DeadLetter) -> None:
        if failures:
            raise failures.pop()
        scene.buried.append(letter.message.queue_offset)

    run(scene.handling.handle(work(), piece(6), bury))
    assert scene.buried == [6]


def test_a_queue_that_must_be_released_is_not_tried_again() -> None:
    scene = Scene()
    scene.bad = {6}
    holding = work()

    async def story() -> None:
        holding.leaving.set()
        await scene.give(piece(5, 6), holding)

    with pytest.raises(HaltError) as halted:
        run(story())
    assert halted.value.stop == 5


@pytest.mark.parametrize("choice", OnFailure)
def test_a_message_that_cannot_be_read_counts_as_failed(choice: OnFailure) -> None:
    scene = Scene(on_failure=choice)
    unreadable = Piece(6, 7, unreadable=Unreadable(BLANK._replace(queue_offset=6), "torn", 7))
    if choice is OnFailure.STOP:
        with pytest.raises(HaltError):
            run(scene.give(unreadable))
    else:
        run(scene.give(unreadable))
    assert scene.calls == []
    assert scene.buried == ([6] if choice is OnFailure.DEAD_LETTER else [])


def test_a_piece_without_messages_needs_no_call() -> None:
    scene = Scene()
    run(scene.give(Piece(0, 9)))
    assert scene.calls == []


def test_the_result_of_a_thread_counts_for_nothing_once_the_holding_is_over() -> None:
    holding = work()

    def handle(_: Messages) -> None:
        holding.is_over = True

    metrics = Metrics()
    handler = Handling(handle, FollowerOptions(), metrics)
    with pytest.raises(OverError):
        run(handler.handle(holding, piece(5), Scene().bury))
    assert metrics.registry.get_sample_value("evenkeel_follower_handled_messages_total") == 0


def test_a_queue_that_comes_back_waits_for_the_thread_of_its_earlier_holding() -> None:
    begun, release, calls = threading.Event(), threading.Event(), list[tuple[int, str]]()

    def handle(messages: Messages) -> None:
        calls.append((messages[0].queue_offset, "begun"))
        begun.set()
        if messages[0].queue_offset == 5:
            release.wait(10)
        calls.append((messages[0].queue_offset, "ended"))

    async def story() -> None:
        handler = Handling(handle, FollowerOptions(), Metrics())
        bury = Scene().bury
        first, second = work(), work()
        early = asyncio.create_task(handler.handle(first, piece(5), bury))
        await asyncio.to_thread(begun.wait, 10)
        first.end()
        early.cancel()
        late = asyncio.create_task(handler.handle(second, piece(6), bury))
        await asyncio.sleep(0.02)
        assert handler.stuck == [QUEUE]
        release.set()
        await late

    run(story())
    assert calls == [(5, "begun"), (5, "ended"), (6, "begun"), (6, "ended")]


def test_queues_do_not_wait_for_each_other() -> None:
    together = threading.Barrier(3, timeout=10)

    async def story() -> None:
        handler = Handling(lambda _: together.wait(), FollowerOptions(attempts=1), Metrics())
        queues = [MessageQueue("orders", "broker-a", each) for each in range(3)]
        works = [Work(each, 1, "billing", lambda: True) for each in queues]
        await asyncio.gather(*(handler.handle(each, piece(1), Scene().bury) for each in works))

    run(story())


def test_a_handler_may_be_a_coroutine() -> None:
    seen: list[int] = []

    async def handle(messages: Messages) -> None:
        await asyncio.sleep(0)
        seen.extend(each.queue_offset for each in messages)

    run(Handling(handle, FollowerOptions(), Metrics()).handle(work(), piece(5, 6), Scene().bury))
    assert seen == [5, 6]


def test_a_coroutine_is_cancelled_when_the_holding_is_over() -> None:
    ended: list[str] = []

    async def handle(_: Messages) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def story() -> None:
        holding = work()
        handler = Handling(handle, FollowerOptions(), Metrics())
        holding.start(handler.handle(holding, piece(5), Scene().bury))
        await asyncio.sleep(0.01)
        holding.end()
        await asyncio.sleep(0.01)

    run(story())
    assert ended == ["cancelled"]


def stops_python(_: Messages) -> None:
    raise SystemExit(3)


async def stops_python_later(_: Messages) -> None:
    raise SystemExit(3)


async def cancels_itself(_: Messages) -> None:
    raise asyncio.CancelledError


def stops_iterating(_: Messages) -> None:
    raise StopIteration


@pytest.mark.parametrize(
    "handler", [stops_python, stops_python_later, cancels_itself, stops_iterating]
)
def test_whatever_a_handler_raises_is_a_failure(
    handler: Callable[[Messages], Awaitable[None] | None],
) -> None:
    found = Handling(handler, FollowerOptions(attempts=1), Metrics())
    with pytest.raises(HaltError):
        run(found.handle(work(), piece(5), Scene().bury))


def test_a_call_that_waited_for_a_thread_looks_at_the_clock_again() -> None:
    calls: list[int] = []
    is_live = True

    def handle(messages: Messages) -> None:
        nonlocal is_live
        calls.append(messages[0].queue_offset)
        time.sleep(0.02)
        is_live = False

    async def story() -> None:
        handler = Handling(handle, FollowerOptions(threads=1), Metrics())
        queues = [MessageQueue("orders", "broker-a", each) for each in range(2)]
        works = [Work(each, 1, "billing", lambda: is_live) for each in queues]
        found = await asyncio.gather(
            *(handler.handle(each, piece(each.queue.id), Scene().bury) for each in works),
            return_exceptions=True,
        )
        assert [type(each) for each in found] == [OverError, OverError]

    run(story())
    assert calls == [0]
