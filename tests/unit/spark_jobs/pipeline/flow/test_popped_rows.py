"""A call of the function ends when its rows are committed: then its messages are acknowledged."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from follower.popping.running import GiveBackError
from mq_client.errors import UnavailableError
from mq_client.messages import StoredMessage
from spark_jobs import options
from spark_jobs.pipeline.flow import popped_rows
from spark_jobs.pipeline.flow.calls import UsersCalls
from spark_jobs.pipeline.flow.popped_rows import PoppedRows, WaitingCall
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, RowsRefusedError, Written
from spark_jobs.pipeline.flow.task_sinks import NoDeadLetterError
from spark_jobs.pipeline.flow.wire import TaskCommit
from spark_jobs.schema import ERROR_COLUMN

READING = options.parse_reading(
    {"nameServers": "n:1", "topics": "orders", "group": "billing"}, is_stream=True
)


def make_message(body: bytes) -> StoredMessage:
    return StoredMessage("orders", "broker-a", 0, 7, body, {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)


class Brokerless:
    """The sinks and the driver of a task. Both do what the test says."""

    takes_dead_letters = False
    folders = ()
    plan_moves = None  # only the driver uses this
    positions = None

    def __init__(self) -> None:
        self.written: list[list[bytes]] = []
        """The bodies of each write."""
        self.bad = b"bad"
        self.letters: list[str] = []
        """The errors of all dead letters."""
        self.bad_letters = False
        self.failures: list[Exception] = []
        self.commits: list[TaskCommit] = []
        self.gate = asyncio.Event()
        """The driver answers when this is set."""
        self.asked = asyncio.Event()
        self.refuses = False

    def open(self) -> "Brokerless":
        return self

    def write(
        self, _: Delivery, rows: Sequence[pa.RecordBatch], dead: Sequence[pa.RecordBatch]
    ) -> Written:
        if self.failures:
            raise self.failures.pop()
        if self.bad_letters and dead:
            raise RowsRefusedError("it is bad")
        self.letters += [text for batch in dead for text in batch[ERROR_COLUMN].to_pylist()]
        bodies = [body for batch in rows for body in batch["body"].to_pylist()]
        if self.bad in bodies:
            raise RowsRefusedError("it is bad")
        self.written.append(bodies)
        return Written()

    def close(self) -> None:
        pass

    async def commit(self, make: Callable[[int], TaskCommit]) -> bool:
        self.asked.set()
        await self.gate.wait()
        self.commits.append(make(1))
        return not self.refuses

    def report(self, *_: object) -> None:
        pass


class CountedRows(PoppedRows):
    """Lets a test wait until calls have made their rows."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.made = asyncio.Semaphore(0)

    def _add(self, call: WaitingCall) -> None:
        super()._add(call)
        self.made.release()


class Calls:
    """Calls the handler in threads, as a task does."""

    def __init__(self, there: Brokerless, function: Any = None, seconds: float = 0.0) -> None:
        link: Any = there
        sinks: Any = there
        self.session = "s"
        self.rows = CountedRows(
            link, UsersCalls(function), READING, sinks, lambda: self.session, seconds
        )
        self._threads = ThreadPoolExecutor(8)
        self.committing = asyncio.create_task(self.rows.keep_committing())

    def begin(self, *bodies: bytes) -> "asyncio.Future[None]":
        messages = [make_message(body) for body in bodies]
        return asyncio.get_running_loop().run_in_executor(self._threads, self.rows, messages)

    async def wait_until_made(self, count: int = 1) -> None:
        """Wait until so many more calls have made their rows."""
        for _ in range(count):
            await self.rows.made.acquire()

    async def close(self) -> None:
        if self.committing.done():  # the test has closed it
            return
        self.committing.cancel()
        await asyncio.gather(self.committing, return_exceptions=True)
        self.rows.close()
        self._threads.shutdown()


def play(
    story: Callable[[Brokerless, Calls], Coroutine[Any, Any, None]],
    function: Any = None,
    seconds: float = 0.0,
) -> Brokerless:
    async def run() -> Brokerless:
        there = Brokerless()
        calls = Calls(there, function, seconds)
        try:
            await story(there, calls)
        finally:
            await calls.close()
        return there

    return asyncio.run(run())


def test_a_call_ends_after_the_driver_has_committed_its_rows() -> None:
    async def story(there: Brokerless, calls: Calls) -> None:
        call = calls.begin(b"1", b"2")
        await there.asked.wait()
        assert not call.done()
        there.gate.set()
        await call

    there = play(story)
    assert there.written == [[b"1", b"2"]]
    [commit] = there.commits
    assert (commit.session, commit.number, commit.ranges, commit.figures.rows) == ("s", 1, (), 2)


def test_calls_that_wait_are_committed_together() -> None:
    async def story(there: Brokerless, calls: Calls) -> None:
        first = calls.begin(b"1")
        await there.asked.wait()
        others = [calls.begin(b"2"), calls.begin(b"3")]
        await calls.wait_until_made(3)
        there.gate.set()
        await asyncio.gather(first, *others)

    there = play(story)
    assert (there.written[0], sorted(there.written[1])) == ([b"1"], [b"2", b"3"])


def test_rows_that_a_sink_refuses_fail_their_own_call_only() -> None:
    async def story(there: Brokerless, calls: Calls) -> None:
        first = calls.begin(b"1")
        await there.asked.wait()
        bad, good = calls.begin(b"bad"), calls.begin(b"2")
        await calls.wait_until_made(3)
        there.gate.set()
        await asyncio.gather(first, good)
        with pytest.raises(RowsRefusedError):
            await bad

    assert play(story).written == [[b"1"], [b"2"]]


def test_a_refused_commit_gives_messages_back_and_the_next_one_waits_for_a_session() -> None:
    async def story(there: Brokerless, calls: Calls) -> None:
        there.refuses = True
        there.gate.set()
        with pytest.raises(GiveBackError, match="the driver refuses"):
            await calls.begin(b"1")
        there.refuses = False
        late = calls.begin(b"2")
        await calls.wait_until_made(2)
        calls.session = "t"
        with pytest.raises(GiveBackError, match="the session is over"):
            await late
        await calls.begin(b"1")

    there = play(story)
    assert there.written == [[b"1"], [b"1"]]
    assert [each.session for each in there.commits] == ["s", "t"]


def test_a_task_that_is_told_to_end_commits_without_a_pause() -> None:
    async def story(there: Brokerless, calls: Calls) -> None:
        there.gate.set()
        await calls.begin(b"1")
        last = calls.begin(b"2")
        await calls.wait_until_made(2)
        calls.rows.hurry()
        await last

    assert play(story, seconds=3600.0).written == [[b"1"], [b"2"]]


def test_a_message_that_nobody_can_handle_is_a_dead_letter_when_it_is_committed() -> None:
    async def story(there: Brokerless, calls: Calls) -> None:
        burying = asyncio.create_task(calls.rows.bury(make_message(b"1"), "it is odd"))
        await there.asked.wait()
        assert not burying.done()
        there.gate.set()
        await burying
        there.bad_letters = True
        with pytest.raises(UnavailableError, match="it is bad"):
            await calls.rows.bury(make_message(b"2"), "it is odd")

    assert play(story).letters == ["it is odd"]


def test_a_sink_that_is_away_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(popped_rows, "FIRST_PAUSE", 0.01)

    async def story(there: Brokerless, calls: Calls) -> None:
        there.failures = [OSError("away"), OSError("away")]
        there.gate.set()
        await calls.begin(b"1")

    there = play(story)
    assert there.written == [[b"1"]]
    assert [each.number for each in there.commits] == [3], "each attempt has its own number"


def test_a_task_that_ends_ends_the_calls_that_wait() -> None:
    async def story(there: Brokerless, calls: Calls) -> None:
        begun = calls.begin(b"1")
        await there.asked.wait()
        waiting = calls.begin(b"2")
        await calls.wait_until_made(2)
        await calls.close()
        for each in (begun, waiting):
            with pytest.raises(GiveBackError, match="the task ends"):
                await each

    play(story)


def test_an_error_in_a_row_needs_a_place_for_dead_letters() -> None:
    def find_errors(batches: Any) -> Any:
        for batch in batches:
            yield batch.append_column(ERROR_COLUMN, pa.array(["odd"] * batch.num_rows))

    async def story(there: Brokerless, calls: Calls) -> None:
        there.gate.set()
        with pytest.raises(NoDeadLetterError):
            await calls.begin(b"1")

    assert play(story, find_errors).written == []
