"""A handler that keeps keys handles each message once, whatever comes again."""

import contextlib
import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from follower.options import FollowerError
from follower.transactions import RolledBackError
from follower.unique_keys import KeyedHandler, NoKeyError, keep_keys
from mq_client.messages import StoredMessage

PAGE = (Path(__file__).parents[3] / "docs" / "follower.md").read_text("utf-8")
CREATE = next(
    each for each in re.findall(r"^```sql\n(.*?)^```", PAGE, re.S | re.M) if "evenkeel_keys" in each
)
BLANK = StoredMessage("orders", "broker-a", 0, 0, b"", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)


def messages(*keys: str) -> list[StoredMessage]:
    return [BLANK._replace(properties={"UNIQ_KEY": key}) for key in keys]


class Database:
    """A database of orders, with the keys of those that were handled."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.opened: list[sqlite3.Connection] = []
        self.fails = False
        own = self.connect()
        own.execute("CREATE TABLE orders (number TEXT)")
        own.execute(CREATE)
        own.commit()

    def connect(self) -> sqlite3.Connection:
        found = sqlite3.connect(self.path, check_same_thread=False)
        self.opened.append(found)
        return found

    def handler(self, group: str = "billing") -> KeyedHandler:
        @keep_keys(self.connect, group)
        def write(found: Sequence[StoredMessage], cursor: sqlite3.Cursor) -> None:
            keys = [(each.properties["UNIQ_KEY"],) for each in found]
            cursor.executemany("INSERT INTO orders VALUES (?)", keys)
            if self.fails:
                raise ValueError("bad order")

        return write

    def orders(self) -> list[str]:
        return [key for (key,) in self.opened[0].execute("SELECT number FROM orders")]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(tmp_path / "shop.db")
    yield found
    for each in found.opened:
        each.close()


def test_what_comes_again_is_left_out_and_what_is_new_is_not(database: Database) -> None:
    handler = database.handler()
    handler(messages("a", "b", "a"))
    handler(messages("b", "c"))
    handler(messages("c"))
    assert database.orders() == ["a", "b", "c"]


def test_each_group_has_its_own_keys(database: Database) -> None:
    database.handler()(messages("a"))
    database.handler("shipping")(messages("a"))
    assert database.orders() == ["a", "a"]


def test_a_handler_that_fails_stores_no_key(database: Database) -> None:
    handler = database.handler()
    database.fails = True
    with pytest.raises(ValueError, match="bad order"):
        handler(messages("a"))
    database.fails = False
    handler(messages("a"))
    assert database.orders() == ["a"]


def test_of_calls_at_the_same_time_one_stores_the_message(database: Database) -> None:
    handler = database.handler()
    outcomes: list[str] = []

    def call() -> None:
        try:
            handler(messages("a"))
        except sqlite3.Error:
            outcomes.append("refused")
        else:
            outcomes.append("done")

    threads = [threading.Thread(target=call) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert "done" in outcomes
    assert database.orders() == ["a"]


def test_a_handler_that_has_rolled_back_has_failed(database: Database) -> None:
    @keep_keys(database.connect, "billing")
    def write(found: Sequence[StoredMessage], cursor: sqlite3.Cursor) -> None:
        cursor.execute("ROLLBACK")

    with pytest.raises(RolledBackError):
        write(messages("a"))


def test_a_connection_that_commits_by_itself_is_refused(database: Database) -> None:
    @keep_keys(lambda: sqlite3.connect(database.path, isolation_level=None), "billing")
    def write(found: Sequence[StoredMessage], cursor: sqlite3.Cursor) -> None:
        raise AssertionError("it is not called")

    with pytest.raises(FollowerError, match="open it without autocommit"):
        write(messages("a"))


def test_a_message_without_a_key_is_not_handled(database: Database) -> None:
    with pytest.raises(NoKeyError, match="broker-a 0 offset 7 has no property UNIQ_KEY"):
        database.handler()([BLANK._replace(queue_offset=7)])
    assert database.orders() == []


def test_a_coroutine_function_is_refused(database: Database) -> None:
    async def write(found: Sequence[StoredMessage], cursor: sqlite3.Cursor) -> None:
        """Do nothing."""

    with pytest.raises(FollowerError, match="keep_keys is for plain functions"):
        keep_keys(database.connect, "billing")(write)


def test_the_example_of_the_page_stores_a_parcel_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    example = next(
        each for each in re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
        if "keep_keys" in each
    )  # fmt: skip
    scope: dict[str, Any] = {}
    exec(example, scope)
    with contextlib.closing(scope["connect"]()) as own:
        own.execute(CREATE)
        own.execute("CREATE TABLE parcels (id TEXT, body BLOB)")
        own.commit()
        parcel = BLANK._replace(properties={"KEYS": "p-1", "UNIQ_KEY": "u"}, body=b"books")
        for _ in range(2):
            scope["handle"]([parcel])
        assert own.execute("SELECT * FROM parcels").fetchall() == [("p-1", b"books")]
        scope["handle"]._transactions._mine.connection.close()
