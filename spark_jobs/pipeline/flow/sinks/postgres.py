"""
A sink of PostgreSQL: rows, dead letters and positions are written in one transaction.

The positions are in the table `evenkeel_positions` of the same database, as followers keep them
(`follower.positions`). COPY sends values as text, and the server parses them. So a column may have
any type that the server can parse from such text.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from follower.positions import TABLE, PositionTable
from follower.transactions import Transaction
from mq_client.values import MessageQueue
from spark_jobs.pipeline.checkpoint.journal import Pending
from spark_jobs.pipeline.flow.rows import join_neighbours
from spark_jobs.pipeline.flow.sinks import csv_rows
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.kinds import (
    Delivery,
    ReadPosition,
    RowsRefusedError,
    SinkWriters,
    Written,
    refuse_rows,
)

FORMAT = "postgresql"
LOGIN = {"user", "password"}
OPTIONS = {"url", "table", *LOGIN}
_SETTINGS: Mapping[str, Any] = {
    "connect_timeout": 10, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
    "tcp_user_timeout": 30_000, "application_name": "evenkeel", "client_encoding": "utf8",
}  # fmt: skip
"""With these settings, a task notices within half a minute that the server is cut off."""
_REFUSED = ("22", "23", "44", "P0001", "54000", "42703", "428C9")
"""
The beginnings of SQLSTATE codes which mean that the rows are at fault: values that do not fit,
constraints, triggers of the user, limits of an index, and columns that the table does not have.
"""
_LIMITS = """
SET lock_timeout = '10s'; SET statement_timeout = '60s';
SET idle_in_transaction_session_timeout = '10s'
"""
"""A task that is frozen within a transaction must not block other tasks that need its positions."""
_FIND = f"SELECT to_regclass('{TABLE}')"
_CREATE = f"""
CREATE TABLE {TABLE} (
    consumer_group text, topic text, broker text, queue_id integer, next_offset bigint NOT NULL,
    PRIMARY KEY (consumer_group, topic, broker, queue_id)
)
"""


@dataclass(frozen=True, slots=True)
class PostgresSinks:
    """The driver's side. It has nothing to do."""

    url: str
    table: str
    dead_table: str | None = None
    login: Mapping[str, str] = field(default_factory=dict, repr=False)
    """User and password, if they are not in the URL."""

    @property
    def takes_dead_letters(self) -> bool:
        """Whether there is a table for dead letters."""
        return self.dead_table is not None

    def open(self) -> SinkWriters:
        """Make the writer. It connects when it is first used."""
        return PostgresWriter(self)

    def plan_moves(self, _: Written, __: int) -> list[Pending]:
        """Return no moves: there are no folders."""
        return []

    @property
    def folders(self) -> list[SinkFolders]:
        """Empty: there are no folders."""
        return []


class PostgresWriter:
    """A task's side."""

    def __init__(self, sinks: PostgresSinks) -> None:
        """Connect to nothing yet."""
        self._sinks = sinks
        self._connection: Any = None

    @property
    def positions(self) -> ReadPosition | None:
        """The function that reads a position from the same database."""
        return self._read_position

    def write(
        self, delivery: Delivery, rows: Sequence[pa.RecordBatch], dead: Sequence[pa.RecordBatch]
    ) -> Written:
        """Write all rows and move the positions, or do neither."""
        import psycopg

        sinks = self._sinks
        try:
            with refuse_rows(f"table {sinks.table}: "), self._begin() as positions:
                # All tasks move positions in the same order, so no two tasks wait for each other.
                for step in sorted(delivery.steps, key=lambda each: each.queue):
                    positions.move(step)
                _copy(positions.cursor, sinks.table, rows)
                if sinks.dead_table is not None:
                    _copy(positions.cursor, sinks.dead_table, dead)
        except psycopg.Error as error:
            if not (error.sqlstate or "").startswith(_REFUSED):
                raise
            raise RowsRefusedError(f"table {sinks.table}: {str(error).strip()}") from error
        return Written()

    def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            self._connection.close()

    def _read_position(self, group: str, queue: MessageQueue) -> int | None:
        with self._begin() as positions:
            return positions.read(group, queue)

    @contextlib.contextmanager
    def _begin(self) -> Iterator[PositionTable]:
        """Run the block in a transaction. After a failure, the connection is not used again."""
        if self._connection is None:
            self._connection = self._connect()
        connection = self._connection
        try:
            positions = PositionTable(Transaction(connection), TABLE)
            yield positions
            positions.cursor.close()
            connection.commit()
        except BaseException:
            self._connection = None
            with contextlib.suppress(Exception):
                connection.close()
            raise

    def _connect(self) -> Any:
        import psycopg

        sinks = self._sinks
        connection = psycopg.connect(sinks.url, **{**_SETTINGS, **sinks.login})
        connection.execute(_LIMITS)
        if connection.execute(_FIND).fetchone() == (None,):
            connection.execute(_CREATE)  # fails if another task creates it now; the task retries
        connection.commit()
        return connection


def _copy(cursor: Any, table: str, rows: Sequence[pa.RecordBatch]) -> None:
    from psycopg import sql

    for batch in join_neighbours(rows):
        names = sql.SQL(", ").join(map(sql.Identifier, batch.schema.names))
        target = sql.Identifier(*table.split("."))
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(target, names)
        with cursor.copy(statement) as copy:
            copy.write(csv_rows.encode(batch))
