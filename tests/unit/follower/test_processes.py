"""Handlers in separate processes, which die, hang, fork and raise any error."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from follower.handling import HaltError, Handling
from follower.importing import import_handler
from follower.metrics import Metrics
from follower.options import FollowerOptions
from follower.pieces import DeadLetter, Piece, cut
from follower.positions import MovedOnError
from follower.processes import HandlerProcess, HandlerProcessError
from follower.work import Work
from mq_client.messages import StoredMessage
from mq_client.pulling import Batch
from mq_client.values import MessageQueue
from sandbox.waiting import wait_for
from tests import stored

ROOT = Path(__file__).parents[3]
QUEUE = MessageQueue("orders", "broker-a", 3)
BLANK = StoredMessage("orders", "broker-a", 3, 0, b"", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)
HANDLERS = """
import asyncio, ctypes, os, signal, time
from follower.positions import MovedOnError

def note(text):
    out = os.open("out", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(out, f"{text}\\n".encode())
    os.close(out)

def handle(messages):
    for each in messages:
        note(f"{os.getpid()} {each.queue_id} {each.queue_offset}")
        what = each.body.decode()
        if what and not os.path.exists("once"):
            open("once", "w").close()
            eval(what)

def handle_columns(columns):
    note(f"{type(columns).__name__} {columns.column('body').to_pylist()} {columns.schema.names}")

async def handle_later(messages):
    await asyncio.sleep(0)
    handle(messages)

def handle_for_ever(messages):
    note(os.getpid())
    time.sleep(600)

def fork_and_return():
    child = os.fork()
    if child:
        note(f"{child} - 0")

def leave_behind_and_end():
    if os.fork() == 0:
        time.sleep(60)
    os._exit(3)

class Ledger:
    def read_position(self, group, queue):
        return 5

    def __call__(self, messages, step):
        raise MovedOnError(f"{step.queue.id} is not at {step.begin}")

ledger = Ledger()

def raise_it(error):
    raise error
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "handlers_of_test.py").write_text(HANDLERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "handlers_of_test", raising=False)
    return tmp_path


def piece(*bodies: str, queue: int = 3, first: int = 0) -> Piece:
    messages = tuple(
        BLANK._replace(queue_id=queue, queue_offset=first + place, body=body.encode())
        for place, body in enumerate(bodies)
    )
    return Piece(first, first + len(bodies), messages)


def work(number: int = 3) -> Work:
    return Work(MessageQueue("orders", "broker-a", number), 1, "billing", lambda: True)


async def bury(_: Work, letter: DeadLetter) -> None:
    raise AssertionError(f"nothing is buried here: {letter}")


def play(
    story: Callable[[Handling], Awaitable[None]], handler: str = "handle", **options: Any
) -> None:
    async def run() -> None:
        place = f"handlers_of_test:{handler}"
        how = FollowerOptions(**{"processes": 1, "attempts": 2, **options})
        handling = Handling(import_handler(place), how, Metrics(), place)
        try:
            async with asyncio.timeout(60):
                await story(handling)
        finally:
            await handling.close()

    asyncio.run(run())


def handled(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "out").read_text().splitlines()]


def test_calls_come_in_order_and_run_in_another_process(folder: Path) -> None:
    async def story(handling: Handling) -> None:
        for first in range(0, 6, 2):
            await handling.handle(work(), piece("", "", first=first), bury)

    play(story)
    assert [int(offset) for _, _, offset in handled(folder)] == [*range(6)]
    (process,) = {int(process) for process, _, _ in handled(folder)}
    assert process != os.getpid()


@pytest.mark.parametrize(
    "end",
    [
        "os._exit(3)",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "ctypes.string_at(0)",
        "leave_behind_and_end()",
    ],
)
def test_a_worker_that_dies_is_a_failed_call_and_is_replaced(folder: Path, end: str) -> None:
    async def story(handling: Handling) -> None:
        await handling.handle(work(), piece(end, ""), bury)

    play(story)
    offsets = [int(offset) for _, _, offset in handled(folder)]
    assert offsets == [0, 0, 1]  # the call that failed, and each message alone
    assert len({process for process, _, _ in handled(folder)}) == 2


ERRORS = ("SystemExit(3)", "KeyboardInterrupt()", "BaseException('no')", "asyncio.CancelledError()",
          "StopIteration()")  # fmt: skip


@pytest.mark.parametrize("handler", ["handle", "handle_later"])
def test_whatever_is_raised_is_a_failure_and_its_worker_goes_on(folder: Path, handler: str) -> None:
    async def story(handling: Handling) -> None:
        for each in ERRORS:
            (folder / "once").unlink(missing_ok=True)
            await handling.handle(work(), piece(f"raise_it({each})"), bury)

    play(story, handler)
    assert len({process for process, _, _ in handled(folder)}) == 1
    assert len(handled(folder)) == 2 * len(ERRORS)


def test_a_fork_that_comes_back_from_the_handler_ends(folder: Path) -> None:
    """Otherwise the forked process would also take calls, and answer them."""

    async def story(handling: Handling) -> None:
        await handling.handle(work(), piece("fork_and_return()"), bury)
        (child,) = [process for process, queue, _ in handled(folder) if queue == "-"]
        assert not wait_for(lambda: is_running(child), lambda it_runs: not it_runs)
        await handling.handle(work(), piece("", first=1), bury)

    play(story)
    assert [int(offset) for _, queue, offset in handled(folder) if queue != "-"] == [0, 1]


def test_a_worker_that_dies_between_two_calls_fails_neither(folder: Path) -> None:
    async def story() -> None:
        process = HandlerProcess("handlers_of_test:handle")
        assert await process.call([(BLANK,)]) is None
        ((number, _, _),) = handled(folder)
        os.kill(int(number), signal.SIGKILL)
        await asyncio.wait(process._endings)
        assert await process.call([(BLANK,)]) is None
        await process.close()

    asyncio.run(story())
    assert len({process for process, _, _ in handled(folder)}) == 2


def test_a_worker_that_dies_holds_up_no_other_queue(folder: Path) -> None:
    async def story(handling: Handling) -> None:
        bad = asyncio.create_task(handling.handle(work(0), piece("os._exit(3)", queue=0), bury))
        for first in range(20):
            await handling.handle(work(1), piece("", queue=1, first=first), bury)
        await bad

    play(story, processes=2)
    assert [int(offset) for _, queue, offset in handled(folder) if queue == "1"] == [*range(20)]


def test_a_handler_that_never_returns_is_killed_when_its_holding_is_over(folder: Path) -> None:
    async def story(handling: Handling) -> None:
        holding = work()
        holding.start(handling.handle(holding, piece("time.sleep(600)"), bury))
        while not (folder / "once").exists():  # noqa: ASYNC110  # the other process makes it
            await asyncio.sleep(0.01)
        holding.end()
        await handling.handle(work(), piece("", first=1), bury)
        assert handling.stuck == []

    play(story)
    assert len({process for process, _, _ in handled(folder)}) == 2


def test_a_call_that_waited_for_a_worker_looks_at_the_clock_again(folder: Path) -> None:
    late = work(1)

    async def story(handling: Handling) -> None:
        first = asyncio.create_task(handling.handle(work(0), piece("time.sleep(0.2)"), bury))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(handling.handle(late, piece("", queue=1), bury))
        await asyncio.sleep(0.01)
        late.is_over = True
        await asyncio.gather(first, second, return_exceptions=True)

    play(story)
    assert [queue for _, queue, _ in handled(folder)] == ["3"]


def test_a_handler_in_a_process_may_get_arrow_columns(folder: Path) -> None:
    body = b"".join(stored.message(b"order %d" % each, offset=each) for each in range(4))
    batch = Batch(QUEUE, 0, 4, body)
    _, second = cut(0, 4, batch.to_columns(), [], 2, batch)

    async def story(handling: Handling) -> None:
        await handling.handle(work(), second, bury)

    play(story, "handle_columns", arrow=True)
    said = (folder / "out").read_text()
    assert said.startswith("RecordBatch [b'order 2', b'order 3'] ['topic', 'broker_name'")


def test_a_position_that_was_moved_is_told_by_the_process() -> None:
    async def story(handling: Handling) -> None:
        holding = work()
        await handling.read_position(holding)
        with pytest.raises(MovedOnError, match="3 is not at 5"):
            await handling.handle(holding, piece("", first=5), bury)

    play(story, "ledger")


def test_a_failure_shows_where_it_comes_from(caplog: pytest.LogCaptureFixture) -> None:
    async def story(handling: Handling) -> None:
        with pytest.raises(HaltError):
            await handling.handle(work(), piece("raise_it(ValueError('bad order'))"), bury)

    play(story, attempts=1)
    assert "ValueError: bad order" in caplog.text
    assert "in raise_it" in caplog.text


def test_a_worker_that_cannot_begin_is_a_failed_call() -> None:
    async def story() -> None:
        process = HandlerProcess("no_such_module:handle")
        error = await process.call([(), None])
        assert isinstance(error, HandlerProcessError)
        assert "the handler's process ended with code 1" in str(error)
        await process.close()

    asyncio.run(story())


PARENT = """
import asyncio
from follower.processes import HandlerProcess

asyncio.run(HandlerProcess("handlers_of_test:handle_for_ever").call([()]))
"""


def test_a_worker_in_a_call_ends_with_a_follower_that_is_killed(folder: Path) -> None:
    path = os.pathsep.join(map(str, (folder, ROOT)))
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], env={**os.environ, "PYTHONPATH": path}
    )
    out = folder / "out"
    said = wait_for(lambda: out.read_text() if out.exists() else "", lambda said: "\n" in said)
    parent.kill()
    parent.wait()
    assert said
    assert not wait_for(lambda: is_running(said.strip()), lambda it_runs: not it_runs)


def is_running(process: str) -> bool:
    try:
        stat = Path("/proc", process, "stat").read_text()
    except OSError:
        return False
    return "Z" not in stat.rpartition(")")[2].split()[0]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forks_of_a_handler_in_a_thread_end_too() -> None:
    """Otherwise the forked process would follow as well, with the same sockets."""
    read, write = os.pipe()

    def handle(_: object) -> None:
        if os.fork() == 0:
            os.write(write, b"child")

    async def story() -> None:
        handling = Handling(handle, FollowerOptions(), Metrics())
        await handling.handle(work(), piece(""), bury)
        await handling.close()

    asyncio.run(story())
    os.close(write)
    assert os.read(read, 100) == b"child"
    assert os.read(read, 100) == b""  # no process has the other end any more
    os.close(read)
