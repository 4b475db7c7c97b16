"""Transactions of a handler in the user's database, with any library that follows DB-API 2.0."""

import contextlib
import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from follower.options import FollowerError

Value = TypeVar("Value")
_MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s"}


Write = Callable[[Any, Any], object]
"""A function that gets messages and a cursor, and writes with this cursor."""


class UndoneError(Exception):
    """Nothing was stored, although the database works."""


class RolledBackError(Exception):
    """The handler has returned, but its transaction was rolled back."""

    def __init__(self) -> None:
        """Say what happened."""
        super().__init__("the handler has rolled back: nothing is stored")


class DatabaseConnection(Protocol):
    """A connection of any database library that follows Python's DB-API 2.0."""

    def cursor(self) -> Any:
        """Return a cursor."""

    def commit(self) -> object:
        """Commit the transaction."""

    def rollback(self) -> object:
        """Roll back the transaction."""

    def close(self) -> object:
        """Close the connection."""


class Transaction:
    """A transaction on one connection."""

    def __init__(self, connection: DatabaseConnection) -> None:
        """Run no statement yet."""
        self._connection = connection
        self._mark = _find_mark(connection)
        self.cursor = connection.cursor()

    def execute(self, statement: str, *values: object) -> None:
        """Run a statement in which each `?` stands for a value."""
        self.cursor.execute(statement.replace("?", self._mark), values)

    def refuse_autocommit(self) -> None:
        """After a write: refuse a connection on which each statement is a transaction."""
        connection = self._connection
        is_autocommit = getattr(connection, "autocommit", False) is True
        if is_autocommit or getattr(connection, "in_transaction", True) is False:
            raise FollowerError(
                "the connection commits each statement by itself: open it without autocommit"
            )


class Transactions:
    """Runs transactions, and keeps a connection for each thread."""

    def __init__(self, connect: Callable[[], DatabaseConnection]) -> None:
        """Connect to nothing yet."""
        self._connect = connect
        self._mine = threading.local()
        """Each thread has its own connection: some libraries do not let threads share one."""
        self._failures = 0

    def run(self, work: Callable[[Transaction], Value]) -> Value:
        """Do the work in a transaction. If it fails, do not use the same connection again."""
        connection = self._open()
        try:
            transaction = Transaction(connection)
            found = work(transaction)
            transaction.cursor.close()
            connection.commit()
        except BaseException as error:
            if not isinstance(error, UndoneError):
                # The database may have restarted: then no older connection works any more.
                self._failures += 1
            self._mine.connection = None
            with contextlib.suppress(Exception):  # the connection may be broken
                # In SQLite, `close` does not end the transaction while a cursor exists.
                connection.rollback()
            with contextlib.suppress(Exception):
                connection.close()
            raise
        return found

    def _open(self) -> DatabaseConnection:
        """Return this thread's connection. Open a new one if any has failed since it was opened."""
        kept: DatabaseConnection | None = getattr(self._mine, "connection", None)
        if kept is not None and self._mine.failures == self._failures:
            return kept
        if kept is not None:
            with contextlib.suppress(Exception):
                kept.close()
        self._mine.failures = self._failures
        self._mine.connection = opened = self._connect()
        return opened


def refuse_unless_plain(write: Write, decorator: str) -> None:
    """Refuse a function whose writes are not done when its call returns."""
    if inspect.iscoroutinefunction(write) or inspect.isgeneratorfunction(write):
        raise FollowerError(
            f"{decorator} is for plain functions: after a call all writes must be done"
        )


def _find_mark(connection: DatabaseConnection) -> str:
    """Find the placeholder for values in statements that the connection's library uses."""
    library = sys.modules[type(connection).__module__.partition(".")[0]]
    style = getattr(library, "paramstyle", None)
    if style not in _MARKS:
        raise FollowerError(
            f"{library.__name__} marks values in statements by {style!r}: this is not supported; "
            "write your own handler"
        )
    return _MARKS[style]
