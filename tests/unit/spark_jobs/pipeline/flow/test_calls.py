"""Calls of the user's function, which may be async, slow, or never return."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from mq_client.values import MessageQueue
from spark_jobs.pipeline.flow import calls
from spark_jobs.pipeline.flow.calls import MOST_CALLS, UsersCalls

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(MOST_CALLS + 1)]
ROWS = pa.RecordBatch.from_pydict({"n": [1]})


class Doubling:
    made = 0

    def __init__(self) -> None:
        type(self).made += 1

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        return double(batches)


def double(batches: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    for batch in batches:
        yield batch
        yield batch


async def double_later(batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
    await asyncio.sleep(0)
    return list(double(batches))


async def generate_later(batches: Iterator[pa.RecordBatch]) -> AsyncIterator[pa.RecordBatch]:
    for batch in double(batches):
        await asyncio.sleep(0)
        yield batch


@pytest.mark.parametrize("function", [double, double_later, generate_later, Doubling])
def test_a_function_of_any_kind_gets_rows_and_returns_rows(function: Any) -> None:
    made = UsersCalls(function)
    assert [made.call(queue, 5, ROWS) for queue in QUEUES] == [[ROWS, ROWS]] * len(QUEUES)
    made.close()
    assert Doubling.made <= 1


async def fail_later(_: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
    raise ValueError("odd")


def fail(_: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
    raise ValueError("odd")


@pytest.mark.parametrize("function", [fail, fail_later])
def test_an_error_of_the_function_is_raised_and_frees_its_place(function: Any) -> None:
    made = UsersCalls(function)
    for _ in range(2 * MOST_CALLS):
        with pytest.raises(ValueError, match="odd"):
            made.call(QUEUES[0], 5, ROWS)
    made.close()


def test_calls_that_do_not_return_hold_up_no_others_and_are_found_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done, begun = threading.Event(), threading.Semaphore(0)

    def wait(batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
        begun.release()
        done.wait()
        return list(batches)

    made = UsersCalls(wait)
    with ThreadPoolExecutor(len(QUEUES)) as threads:
        waiting = [threads.submit(made.call, queue, 5, ROWS) for queue in QUEUES]
        for _ in range(MOST_CALLS):
            assert begun.acquire(timeout=60)
        assert not begun.acquire(blocking=False), "few run at the same time"
        monkeypatch.setattr(calls, "LONG_SECONDS", -1.0)
        assert made.find_endless() == []
        assert begun.acquire(timeout=60), "those that last long do not count"
        monkeypatch.setattr(calls, "ENDLESS_SECONDS", -1.0)
        assert sorted(each.queue for each in made.find_endless()) == QUEUES
        assert made.find_endless() == []
        done.set()
        assert [each.result() for each in waiting] == [[ROWS]] * len(QUEUES)
    assert made.call(QUEUES[0], 6, ROWS) == [ROWS]
    assert made.find_endless() == [], "a call that has returned is none of them"


def test_many_coroutines_wait_at_the_same_time() -> None:
    gathered = asyncio.Barrier(len(QUEUES))

    async def meet(batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
        await gathered.wait()
        return list(batches)

    made = UsersCalls(meet)  # type: ignore[arg-type]  # a coroutine function is one too
    with ThreadPoolExecutor(len(QUEUES)) as threads:
        found = [threads.submit(made.call, queue, 5, ROWS) for queue in QUEUES]
        assert [each.result(timeout=60) for each in found] == [[ROWS]] * len(QUEUES)
    made.close()
