"""Positions in a database, in the transaction of the handler."""

import asyncio
import contextlib
import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from follower.handling import Handling
from follower.metrics import Metrics
from follower.options import FollowerError, FollowerOptions, OnFailure
from follower.pieces import DeadLetter, Piece
from follower.positions import (
    MovedOnError,
    Step,
    TransactionalHandler,
    keep_positions,
)
from follower.transactions import RolledBackError
from follower.work import Work
from mq_client.messages import StoredMessage
from mq_client.values import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 0)
BLANK = StoredMessage("orders", "broker-a", 0, 0, b"", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)
PAGE = (Path(__file__).parents[3] / "docs" / "follower.md").read_text("utf-8")
CREATE, _ = re.findall(r"^```sql\n(.*?)^```", PAGE, re.S | re.M)


def step(begin: int | None, end: int) -> Step:
    return Step("billing", QUEUE, begin, end)


class Database:
    """A database of orders, with the position up to which they have been read."""

    def __init__(self, path: Path, **how: Any) -> None:
        self.path, self.how = path, how
        self.opened: list[sqlite3.Connection] = []
        self.fails = False
        own = self.connect()
        own.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY)")
        own.execute(CREATE)
        own.commit()

    def connect(self) -> sqlite3.Connection:
        found: sqlite3.Connection = sqlite3.connect(self.path, check_same_thread=False, **self.how)
        self.opened.append(found)
        return found

    def handler(self) -> TransactionalHandler:
        @keep_positions(self.connect)
        def write(messages: Sequence[StoredMessage], cursor: sqlite3.Cursor) -> None:
            cursor.executemany(
                "INSERT INTO orders VALUES (?)", [(each.queue_offset,) for each in messages]
            )
            if self.fails:
                raise ValueError("bad order")

        return write

    def orders(self) -> list[int]:
        return [number for (number,) in self.opened[0].execute("SELECT number FROM orders")]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(tmp_path / "shop.db")
    yield found
    for each in found.opened:
        each.close()


def messages(first: int, stop: int) -> tuple[StoredMessage, ...]:
    return tuple(BLANK._replace(queue_offset=each) for each in range(first, stop))


def test_results_and_position_are_stored_together(database: Database) -> None:
    handler = database.handler()
    assert handler.read_position("billing", QUEUE) is None
    handler(messages(3, 5), step(None, 5))
    handler(messages(5, 6), step(5, 7))
    assert handler.read_position("billing", QUEUE) == 7
    assert handler.read_position("shipping", QUEUE) is None
    assert database.orders() == [3, 4, 5]


def test_a_failure_stores_neither_results_nor_position(database: Database) -> None:
    handler = database.handler()
    handler(messages(0, 2), step(None, 2))
    database.fails = True
    with pytest.raises(ValueError, match="bad order"):
        handler(messages(2, 4), step(2, 4))
    assert database.orders() == [0, 1]
    assert handler.read_position("billing", QUEUE) == 2


@pytest.mark.parametrize("late", [step(None, 2), step(0, 2), step(2, 4), step(8, 9)])
def test_a_follower_that_comes_late_stores_nothing(database: Database, late: Step) -> None:
    handler = database.handler()
    handler(messages(0, 2), step(None, 2))
    handler(messages(2, 6), step(2, 6))
    with pytest.raises(MovedOnError):
        database.handler()(messages(10, 12), late)
    assert database.orders() == [*range(6)]
    assert handler.read_position("billing", QUEUE) == 6


def test_of_two_transactions_from_one_position_only_one_ends_well(database: Database) -> None:
    database.handler()(messages(0, 2), step(None, 2))
    together = threading.Barrier(4, timeout=10)
    ends: list[str] = []

    def move(number: int) -> None:
        handler = database.handler()
        together.wait()
        try:
            handler(messages(number, number + 1), step(2, number))
        except MovedOnError:
            ends.append("late")
        else:
            ends.append("stored")

    threads = [threading.Thread(target=move, args=[10 + each]) for each in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(ends) == ["late"] * 3 + ["stored"]
    assert len(database.orders()) == 3


def test_a_position_moves_without_messages(database: Database) -> None:
    handler = database.handler()
    handler((), step(None, 9))
    assert handler.read_position("billing", QUEUE) == 9
    assert database.orders() == []


def test_a_handler_that_has_rolled_back_has_failed(database: Database) -> None:
    @keep_positions(database.connect)
    def write(messages: Sequence[StoredMessage], cursor: sqlite3.Cursor) -> None:
        cursor.execute("ROLLBACK")

    with pytest.raises(RolledBackError):
        write(messages(0, 1), step(None, 1))
    assert write.read_position("billing", QUEUE) is None


def test_a_connection_is_kept_until_something_fails(database: Database) -> None:
    handler = database.handler()
    handler(messages(0, 1), step(None, 1))
    handler(messages(1, 2), step(1, 2))
    assert len(database.opened) == 2  # the database's own, and one for this thread
    database.fails = True
    with pytest.raises(ValueError, match="bad order"):
        handler(messages(2, 3), step(2, 3))
    database.fails = False
    handler(messages(2, 3), step(2, 3))
    assert len(database.opened) == 3


def test_a_connection_that_commits_by_itself_is_refused(tmp_path: Path) -> None:
    database = Database(tmp_path / "shop.db", isolation_level=None)
    try:
        with pytest.raises(FollowerError, match="commits each statement by itself"):
            database.handler()(messages(0, 1), step(None, 1))
        assert database.orders() == []
    finally:
        for each in database.opened:
            each.close()


def test_a_coroutine_function_is_refused(database: Database) -> None:
    """A call of such a function would return before it has written anything."""

    async def write(messages: Sequence[StoredMessage], cursor: sqlite3.Cursor) -> None:
        """Never called."""

    with pytest.raises(FollowerError, match="plain functions"):
        keep_positions(database.connect)(write)


class Follower:
    """A follower's handling of one queue."""

    def __init__(self, handler: TransactionalHandler, **options: Any) -> None:
        self.handling = Handling(handler, FollowerOptions(**options), Metrics())
        self.work = Work(QUEUE, 1, "billing", lambda: True)

    async def give(self, first: int, stop: int) -> None:
        await self.handling.handle(self.work, Piece(first, stop, messages(first, stop)), bury)


async def bury(_: Work, letter: DeadLetter) -> None:
    raise AssertionError(f"nothing is buried here: {letter}")


def test_a_follower_begins_where_the_database_is_and_moves_it_on(database: Database) -> None:
    database.handler()(messages(0, 4), step(None, 4))

    async def story() -> None:
        follower = Follower(database.handler())
        await follower.handling.read_position(follower.work)
        assert follower.work.stored == 4
        await follower.give(4, 6)
        await follower.give(8, 9)  # offsets between them were deleted
        await follower.handling.close()

    asyncio.run(story())
    assert database.handler().read_position("billing", QUEUE) == 9
    assert database.orders() == [0, 1, 2, 3, 4, 5, 8]


def test_a_message_that_is_skipped_leaves_no_gap_behind(database: Database) -> None:
    async def story() -> None:
        follower = Follower(database.handler(), attempts=1, on_failure=OnFailure.SKIP)
        await follower.handling.read_position(follower.work)
        await follower.give(0, 2)
        database.fails = True
        await follower.give(2, 3)
        database.fails = False
        await follower.give(3, 5)
        await follower.handling.close()

    asyncio.run(story())
    assert database.orders() == [0, 1, 3, 4]
    assert database.handler().read_position("billing", QUEUE) == 5


def test_a_follower_whose_position_was_moved_says_so(database: Database) -> None:
    async def story() -> None:
        follower = Follower(database.handler())
        await follower.handling.read_position(follower.work)
        database.handler()(messages(0, 4), step(None, 4))
        with pytest.raises(MovedOnError):
            await follower.give(0, 2)
        await follower.handling.close()

    asyncio.run(story())
    assert database.orders() == [0, 1, 2, 3]


class ReadsNonsense:
    async def read_position(self, group: str, queue: MessageQueue) -> str:
        return "5"

    async def __call__(self, messages: Sequence[StoredMessage], step: Step) -> None:
        """Never called."""


def test_a_position_that_is_no_offset_is_refused() -> None:
    handling = Handling(ReadsNonsense(), FollowerOptions(), Metrics())
    with pytest.raises(TypeError, match="read_position has returned '5', which is not an offset"):
        asyncio.run(handling.read_position(Work(QUEUE, 1, "billing", lambda: True)))


def test_the_examples_of_the_page_keep_payments_and_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second example is for PostgreSQL; tests/real runs it on a real server."""
    monkeypatch.chdir(tmp_path)
    example = next(each for each in re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
                   if "sqlite3.connect" in each)  # fmt: skip
    scope: dict[str, Any] = {}
    exec(example, scope)
    with contextlib.closing(scope["connect"]()) as own:
        own.execute(CREATE)
        own.execute("CREATE TABLE payments (id TEXT, body BLOB)")
        own.commit()
        order = BLANK._replace(properties={"KEYS": "o-17"}, body=b"12.50")
        scope["handle"]([order], step(None, 1))
        assert own.execute("SELECT * FROM payments").fetchall() == [("o-17", b"12.50")]
        scope["handle"]._transactions._mine.connection.close()
