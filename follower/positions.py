"""
Positions that a handler stores with its results, in one transaction: exactly-once handling.

A handler keeps positions if it has a method `read_position`. The follower reads each newly granted
queue from the position that this method returns, and calls the handler with a second argument, the
`Step`. The handler stores its results and moves the position from `begin` to `end`. It must do both
or neither.

`keep_positions` makes such a handler from a function that writes to a database.

Why a frozen process that wakes up does no harm: a transaction is committed only if the position is
still at `begin`, and it moves the position to a higher offset. Positions never decrease, so of all
transactions that begin at the same position only one is committed. By induction, the database
contains the results of each message below the position once, and no other results. It does not
matter which process wrote them, or when.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from follower.transactions import (
    DatabaseConnection,
    RolledBackError,
    Transaction,
    Transactions,
    UndoneError,
    Write,
    refuse_unless_plain,
)
from mq_client.values import MessageQueue

TABLE = "evenkeel_positions"
_READ = """
SELECT next_offset FROM POSITIONS
WHERE consumer_group = ? AND topic = ? AND broker = ? AND queue_id = ?
"""
_INSERT = """
INSERT INTO POSITIONS (consumer_group, topic, broker, queue_id, next_offset)
VALUES (?, ?, ?, ?, ?)
"""
_MOVE = """
UPDATE POSITIONS SET next_offset = ?
WHERE consumer_group = ? AND topic = ? AND broker = ? AND queue_id = ? AND next_offset = ?
"""


class MovedOnError(UndoneError):
    """Another process has moved the position: it is not where this follower left it."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far a call of the handler moves the position of a queue."""

    group: str
    """RocketMQ's name of the group."""
    queue: MessageQueue
    begin: int | None
    """The position must still be at this offset. None: the store must not have a position yet."""
    end: int
    """The offset to read next after the messages are handled. Higher than `begin`."""


class KeepsPositions(Protocol):
    """A handler that keeps positions. Both methods may be `async def`."""

    def read_position(self, group: str, queue: MessageQueue) -> Any:
        """Return the offset that is read next; None if the store has none."""

    def __call__(self, messages: Any, step: Step) -> Any:
        """
        Store the results of the messages and the position `step.end`, both or neither.

        If the position is not `step.begin`, store nothing and raise a `MovedOnError`. `messages`
        may be empty: then a filter has rejected all messages, and only the position moves.
        """


def keep_positions(
    connect: Callable[[], DatabaseConnection], table: str = TABLE
) -> Callable[[Write], "TransactionalHandler"]:
    """
    Make a handler from a function that gets messages and a cursor.

    `connect` opens a connection to the database. Each call is one transaction, on a connection
    that no other call uses at the same time.
    """

    def decorate(write: Write) -> TransactionalHandler:
        refuse_unless_plain(write, "keep_positions")
        return TransactionalHandler(write, connect, table)

    return decorate


class TransactionalHandler:
    """A handler whose results and positions are in one database."""

    def __init__(self, write: Write, connect: Callable[[], DatabaseConnection], table: str) -> None:
        """Connect to nothing yet."""
        functools.update_wrapper(self, write)
        self._write = write
        self._transactions = Transactions(connect)
        self._table = table

    def read_position(self, group: str, queue: MessageQueue) -> int | None:
        """Return the stored position."""

        def read(transaction: Transaction) -> int | None:
            return PositionTable(transaction, self._table).read(group, queue)

        return self._transactions.run(read)

    def __call__(self, messages: Any, step: Step) -> None:
        """Move the position and write, in one transaction."""

        def write(transaction: Transaction) -> None:
            # Move the position first. This locks its row, so no other transaction can move it now.
            positions = PositionTable(transaction, self._table)
            positions.move(step)
            transaction.refuse_autocommit()
            if len(messages):
                self._write(messages, transaction.cursor)
                # If a statement has failed, PostgreSQL rolls back at the commit without an error.
                if positions.read(step.group, step.queue) != step.end:
                    raise RolledBackError

        self._transactions.run(write)


class PositionTable:
    """The table of positions, within one transaction."""

    def __init__(self, transaction: Transaction, table: str) -> None:
        """Run no statement yet."""
        self._transaction = transaction
        self._table = table
        self.cursor = transaction.cursor

    def read(self, group: str, queue: MessageQueue) -> int | None:
        """Return the position of a queue; None if there is none."""
        self._execute(_READ, group, *queue)
        row = self.cursor.fetchone()
        return None if row is None else int(row[0])

    def move(self, step: Step) -> None:
        """Move the position, or raise a `MovedOnError`."""
        if step.begin is None:
            found = self.read(step.group, step.queue)
            if found is not None:
                raise MovedOnError(f"{step.queue} already has the position {found}")
            # If two processes insert a position at the same time, the primary key refuses one.
            self._execute(_INSERT, step.group, *step.queue, step.end)
            return
        self._execute(_MOVE, step.end, step.group, *step.queue, step.begin)
        if self.cursor.rowcount != 1:
            raise MovedOnError(f"the position of {step.queue} is not {step.begin} any more")

    def _execute(self, statement: str, *values: object) -> None:
        self._transaction.execute(statement.replace("POSITIONS", self._table), *values)


def has_positions(handler: object) -> bool:
    """Whether a handler keeps positions: whether it has a method `read_position`."""
    return callable(getattr(handler, "read_position", None))
