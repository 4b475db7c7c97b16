"""The work queue: one task at a time for each key, with bursts joined and failures retried."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from evenkeel.control.work_queue import WorkPace, WorkQueue
from evenkeel.errors import EvenkeelError

SOON = WorkPace(limit_seconds=0.2, first_pause=0.01, longest_pause=0.02)


class Job:
    """Counts its calls for each key, and lets tests wait for them."""

    def __init__(self, behave: Callable[[str, int], Awaitable[float | None]] | None = None) -> None:
        self.asked: dict[str, int] = defaultdict(int)
        self._behave = behave
        self._news = asyncio.Event()
        self.running: dict[str, int] = defaultdict(int)

    async def __call__(self, key: str) -> float | None:
        self.asked[key] += 1
        self.running[key] += 1
        assert self.running[key] == 1
        self._news.set()
        try:
            return await self._behave(key, self.asked[key]) if self._behave else None
        finally:
            self.running[key] -= 1

    async def until(self, key: str, times: int) -> None:
        async with asyncio.timeout(10):
            while self.asked[key] < times:
                await self._news.wait()
                self._news.clear()


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(body())


async def settle() -> None:
    """Run all tasks that can run now."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_touches_within_the_debounce_are_gathered() -> None:
    async def body() -> None:
        job = Job()
        work = WorkQueue(job)
        work.touch("a", debounce=0.05)
        await job.until("a", 1)
        await settle()
        for _ in range(100):
            work.touch("a", debounce=0.05)
        await settle()
        assert job.asked["a"] == 1
        await job.until("a", 2)
        await asyncio.sleep(0.1)
        assert job.asked["a"] == 2
        await work.close()

    run(body)


def test_what_is_gathered_does_not_count_as_waiting() -> None:
    async def body() -> None:
        job = Job()
        work = WorkQueue(job)
        work.touch("a", debounce=100)
        await job.until("a", 1)
        await settle()
        work.touch("a", debounce=100)
        work.touch("b")
        assert len(work.list_waits()) == 1
        await work.close()

    run(body)


def test_work_with_a_delay_gathers_what_comes_meanwhile_unless_it_is_needed_at_once() -> None:
    async def body() -> None:
        job = Job()
        work = WorkQueue(job)
        for _ in range(3):
            work.touch("a", delay=0.05)
            work.touch("b", delay=600.0)
        await settle()
        assert "b" not in job.asked
        work.touch("b")
        await job.until("b", 1)
        await job.until("a", 1)
        await work.close()
        assert job.asked == {"a": 1, "b": 1}

    run(body)


def test_what_comes_while_it_works_makes_it_work_once_more() -> None:
    async def body() -> None:
        gate = asyncio.Event()

        async def wait(_: str, times: int) -> None:
            if times == 1:
                await gate.wait()

        job = Job(wait)
        work = WorkQueue(job)
        work.touch("a")
        await job.until("a", 1)
        work.touch("a")
        work.touch("a")
        gate.set()
        await job.until("a", 2)
        await settle()
        assert job.asked["a"] == 2
        await work.close()

    run(body)


def test_a_slow_key_holds_up_nobody_and_fails_at_its_limit() -> None:
    async def body() -> None:
        async def behave(key: str, times: int) -> None:
            if key == "slow" and times == 1:
                await asyncio.Event().wait()

        job = Job(behave)
        work = WorkQueue(job, SOON)
        work.touch("slow")
        work.touch("quick")
        await job.until("quick", 1)
        await job.until("slow", 2)
        assert work.counts.failed == 1
        await work.close()

    run(body)


@pytest.mark.parametrize("error", [EvenkeelError("bad"), KeyError("a defect")])
def test_what_fails_is_tried_again_and_later_each_time(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async def behave(_: str, times: int) -> None:
            if times <= 3:
                raise error

        job = Job(behave)
        work = WorkQueue(job, SOON)
        work.touch("a")
        await job.until("a", 4)
        await settle()
        assert work.counts.failed == 3
        await work.close()

    run(body)
    assert ("Traceback" in caplog.text) == isinstance(error, KeyError)


def test_work_that_asks_to_come_again_does() -> None:
    async def body() -> None:
        async def again(_: str, times: int) -> float | None:
            return 0.01 if times < 3 else None

        job = Job(again)
        work = WorkQueue(job)
        work.touch("a")
        await job.until("a", 3)
        await work.close()

    run(body)


def test_what_rests_is_only_glanced_at_until_it_does_not() -> None:
    async def body() -> None:
        glances = asyncio.Queue[str]()
        is_resting = True

        def rests(key: str) -> float | None:
            glances.put_nowait(key)
            return 0.01 if is_resting else None

        job = Job()
        work = WorkQueue(job, rests=rests)
        work.touch("a")
        for _ in range(3):  # the touch causes the first, `rests` the others
            await asyncio.wait_for(glances.get(), 10)
        assert not job.asked
        assert not work.list_waits()
        is_resting = False
        await job.until("a", 1)
        assert work.counts.done == 3 + glances.qsize()
        await work.close()

    run(body)


def test_all_that_rests_is_glanced_at_on_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        call_at, dues = loop.call_at, list[float]()

        def noted(due: float, *rest: Any) -> asyncio.TimerHandle:
            dues.append(due)
            return call_at(due, *rest)

        monkeypatch.setattr(loop, "call_at", noted)
        work = WorkQueue(Job(), rests=lambda key: 20.25 + 0.1 * int(key))
        for number in range(10):
            work.touch(str(number))
        begun = loop.time()
        await settle()
        assert len(dues) == 20
        assert all(due == int(due) and 20 < due - begun < 23 for due in dues[10:])
        await work.close()

    run(body)


def test_a_glance_that_fails_is_followed_by_the_work() -> None:
    async def body() -> None:
        def rests(_: str) -> float:
            raise KeyError("a defect")

        job = Job()
        work = WorkQueue(job, rests=rests)
        work.touch("a")
        await job.until("a", 1)
        await work.close()

    run(body)


def test_a_key_that_is_forgotten_is_left_alone() -> None:
    async def body() -> None:
        job = Job()
        work = WorkQueue(job)
        work.touch("a")
        work.forget("a")
        work.touch("b")
        await job.until("b", 1)
        await settle()
        assert job.asked["a"] == 0
        await work.close()

    run(body)


def test_closing_waits_for_what_runs() -> None:
    async def body() -> None:
        gate = asyncio.Event()
        done = []

        async def behave(key: str, _: int) -> None:
            await gate.wait()
            done.append(key)

        job = Job(behave)
        work = WorkQueue(job)
        work.touch("a")
        await job.until("a", 1)
        closing = asyncio.create_task(work.close())
        await settle()
        assert not closing.done()
        gate.set()
        await closing
        work.touch("a")
        await settle()
        assert done == ["a"]

    run(body)
