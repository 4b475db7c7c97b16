"""
Keys of messages that a handler stores with its results, in one transaction: exactly-once handling.

A message that is popped has no position, and may come again. But its unique key stays the same:
the producer has made it. `keep_keys` makes a handler that stores the keys of the messages that it
has handled, and leaves out those that it finds.

Why a message counts once: the key is the primary key of a row, and it is stored in the transaction
that stores the results. So of all transactions that contain a message, only one is committed, no
matter which process wrote them, or when.
"""

import functools
from collections.abc import Callable, Sequence

from follower.transactions import (
    DatabaseConnection,
    RolledBackError,
    Transaction,
    Transactions,
    Write,
    refuse_unless_plain,
)
from mq_client import properties
from mq_client.messages import StoredMessage

TABLE = "evenkeel_keys"
_FIND = "SELECT 1 FROM KEYS WHERE consumer_group = ? AND message_key = ?"
_INSERT = "INSERT INTO KEYS (consumer_group, message_key) VALUES (?, ?)"


class NoKeyError(Exception):
    """A message has no unique key, so it could not be recognized if it came again."""


def keep_keys(
    connect: Callable[[], DatabaseConnection], group: str, table: str = TABLE
) -> Callable[[Write], "KeyedHandler"]:
    """
    Make a handler from a function that gets messages and a cursor.

    `connect` opens a connection to the database. Each call is one transaction, on a connection
    that no other call uses at the same time. `group` is a name under which the keys are stored:
    another group that handles the same messages needs another name.
    """

    def decorate(write: Write) -> KeyedHandler:
        refuse_unless_plain(write, "keep_keys")
        return KeyedHandler(write, connect, group, table)

    return decorate


class KeyedHandler:
    """A handler whose results and keys are in one database."""

    def __init__(
        self, write: Write, connect: Callable[[], DatabaseConnection], group: str, table: str
    ) -> None:
        """Connect to nothing yet."""
        functools.update_wrapper(self, write)
        self._write = write
        self._transactions = Transactions(connect)
        self._group = group
        self._find, self._insert = (each.replace("KEYS", table) for each in (_FIND, _INSERT))

    def __call__(self, messages: Sequence[StoredMessage]) -> None:
        """Store the keys and write, in one transaction, without what was handled before."""

        def write(transaction: Transaction) -> None:
            new = [each for each in messages if self._store_key(transaction, each)]
            if new:
                transaction.refuse_autocommit()
                self._write(new, transaction.cursor)
                # If a statement has failed, PostgreSQL rolls back at the commit without an error.
                if not self._has_key(transaction, find_key(new[0])):
                    raise RolledBackError

        self._transactions.run(write)

    def _store_key(self, transaction: Transaction, message: StoredMessage) -> bool:
        """Store the key of a message. Return False if it is stored already."""
        key = find_key(message)
        if self._has_key(transaction, key):
            return False
        # If two processes store a key at the same time, the primary key refuses one.
        transaction.execute(self._insert, self._group, key)
        return True

    def _has_key(self, transaction: Transaction, key: str) -> bool:
        transaction.execute(self._find, self._group, key)
        return transaction.cursor.fetchone() is not None


def find_key(message: StoredMessage) -> str:
    """Find the key that the producer has given to a message."""
    key = message.properties.get(properties.UNIQUE_KEY)
    if not key:
        raise NoKeyError(
            f"the message at {message.broker} {message.queue_id} offset {message.queue_offset} has "
            f"no property {properties.UNIQUE_KEY}"
        )
    return key
