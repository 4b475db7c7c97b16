"""The sink of PostgreSQL, with a real server."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from follower.positions import MovedOnError, Step
from mq_client.values import MessageQueue
from sandbox.waiting import wait_for
from spark_jobs.pipeline.flow.sinks import postgres as sink
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, RowsRefusedError
from spark_jobs.pipeline.flow.sinks.postgres import PostgresSinks, PostgresWriter

A, B = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
Connection = psycopg.Connection[tuple[Any, ...]]
TRIGGER = """
CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a trigger refuses it';
END $$;
CREATE TRIGGER refusing BEFORE INSERT ON rows FOR EACH ROW WHEN (NEW.body = 'wrong')
EXECUTE FUNCTION refuse()
"""
OpenWriter = Callable[..., PostgresWriter]


@pytest.fixture
def database(postgres_address: str) -> Iterator[Connection]:
    with psycopg.connect(postgres_address, autocommit=True) as found:
        found.execute("DROP TABLE IF EXISTS evenkeel_positions, rows, dead")
        found.execute("CREATE TABLE rows (n bigint CHECK (n <> 13), body text)")
        found.execute("CREATE TABLE dead (n bigint, _error text)")
        found.execute(TRIGGER)
        yield found


@pytest.fixture
def open_writer(postgres_address: str, database: Connection) -> Iterator[OpenWriter]:
    with contextlib.ExitStack() as opened:

        def open_one(table: str = "rows") -> PostgresWriter:
            writer = PostgresWriter(PostgresSinks(postgres_address, table, "dead"))
            opened.callback(writer.close)
            return writer

        yield open_one


@pytest.fixture
def writer(open_writer: OpenWriter) -> PostgresWriter:
    return open_writer()


def deliver(
    *steps: tuple[MessageQueue, int | None, int], number: int = 1, session: str = "s"
) -> Delivery:
    return Delivery(session, number, [Step("billing", *each) for each in steps])


def rows(*numbers: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"n": [each], "body": [f"b{each}"]}) for each in numbers]


def letters(*numbers: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"n": numbers, "_error": ["odd"] * len(numbers)})]


def list_numbers(database: Connection, table: str = "rows") -> list[int]:
    return [n for (n,) in database.execute(f"SELECT n FROM {table} ORDER BY n").fetchall()]


def read(writer: PostgresWriter, queue: MessageQueue) -> int | None:
    assert writer.positions is not None
    return writer.positions("billing", queue)


def test_rows_dead_letters_and_positions_are_one_transaction(
    writer: PostgresWriter, database: Connection
) -> None:
    assert read(writer, A) is None
    writer.write(deliver((A, None, 2), (B, None, 7)), rows(0, 1), letters(5))
    assert (list_numbers(database), list_numbers(database, "dead")) == ([0, 1], [5])
    assert (read(writer, A), read(writer, B)) == (2, 7)
    with pytest.raises(RowsRefusedError, match="rows_n_check"):
        writer.write(deliver((A, 2, 4), (B, 7, 9)), rows(2, 13), letters(8))
    assert (list_numbers(database), list_numbers(database, "dead")) == ([0, 1], [5])
    assert (read(writer, A), read(writer, B)) == (2, 7)


def test_a_task_that_was_given_up_writes_nothing_that_is_there_already(
    open_writer: OpenWriter, writer: PostgresWriter, database: Connection
) -> None:
    writer.write(deliver((A, None, 2)), rows(0, 1), [])
    frozen = open_writer()
    for begin in (None, 0):
        with pytest.raises(MovedOnError):
            frozen.write(deliver((A, begin, 2), session="old"), rows(0, 1), [])
    assert (list_numbers(database), read(writer, A)) == ([0, 1], 2)


def test_of_two_tasks_at_one_position_one_writes(
    open_writer: OpenWriter, writer: PostgresWriter, database: Connection
) -> None:
    """The second waits for the transaction of the first, and then finds that the position moved."""
    writer.write(deliver((A, None, 2)), rows(0, 1), [])
    other = open_writer()

    async def write_both() -> list[Any]:
        begun = (
            asyncio.to_thread(each.write, deliver((A, 2, 4)), rows(2, 3), [])
            for each in (writer, other)
        )
        return await asyncio.gather(*begun, return_exceptions=True)

    found = asyncio.run(write_both())
    assert sorted(type(each).__name__ for each in found) == ["MovedOnError", "Written"]
    assert list_numbers(database) == [0, 1, 2, 3]


def test_a_task_that_is_frozen_in_its_transaction_holds_up_others_for_a_while_only(
    open_writer: OpenWriter, database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "_LIMITS", sink._LIMITS.replace("10s", "1s"))
    frozen, other = open_writer(), open_writer()
    other.write(deliver((A, None, 2)), rows(0, 1), [])

    def write() -> bool:
        try:
            other.write(deliver((A, 2, 3)), rows(2), [])
        except psycopg.OperationalError:
            return False
        return True

    def stay_in_transaction() -> None:
        with frozen._begin() as positions:
            positions.move(Step("billing", A, 2, 3))
            assert wait_for(write, bool)
            positions.read("billing", A)

    with pytest.raises(psycopg.Error, match="idle-in-transaction"):
        stay_in_transaction()
    assert (list_numbers(database), read(other, A)) == ([0, 1, 2], 3)


def end_connections(database: Connection) -> None:
    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        " AND application_name = 'evenkeel'"
    )


def test_a_server_that_ends_connections_is_connected_again(
    writer: PostgresWriter, database: Connection
) -> None:
    writer.write(deliver((A, None, 2)), rows(0, 1), [])
    end_connections(database)
    with pytest.raises(psycopg.OperationalError):
        writer.write(deliver((A, 2, 3)), rows(2), [])
    writer.write(deliver((A, 2, 3)), rows(2), [])
    assert (list_numbers(database), read(writer, A)) == ([0, 1, 2], 3)


def test_a_table_that_is_not_there_yet_is_no_fault_of_the_rows(
    open_writer: OpenWriter, database: Connection
) -> None:
    writer = open_writer("later")
    with pytest.raises(psycopg.errors.UndefinedTable, match="later"):
        writer.write(deliver((A, None, 1)), rows(0), [])
    database.execute("CREATE TABLE later (n int, body text)")
    writer.write(deliver((A, None, 1)), rows(0), [])
    assert list_numbers(database, "later") == [0]
    database.execute("DROP TABLE later")


def test_values_arrive_as_they_are(open_writer: OpenWriter, database: Connection) -> None:
    when = datetime(2026, 2, 3, 4, 5, 6, 789000, UTC)
    columns: dict[str, tuple[str, pa.Array, Any]] = {
        "a_text": ("text", pa.array(['a "b"\n,\\c', "", None]), ['a "b"\n,\\c', "", None]),
        "bytes": ("bytea", pa.array([b"\x00\xff", b"", None]), [b"\x00\xff", b"", None]),
        "number": ("int", pa.array([1, -2, None]), [1, -2, None]),
        "share": ("float8", pa.array([0.1, 1e300, None]), [0.1, 1e300, None]),
        "price": ("numeric", pa.array([Decimal("1.1"), None, None]), [Decimal("1.1"), None, None]),
        "is_paid": ("boolean", pa.array([True, False, None]), [True, False, None]),
        "at": ("timestamptz", pa.array([when, None, None], pa.timestamp("ms", "UTC")),
               [when, None, None]),
        "day": ("date", pa.array([date(2026, 2, 3), None, None]), [date(2026, 2, 3), None, None]),
        "map": ("jsonb", pa.array([[("k", "v")], [], None], pa.map_(pa.string(), pa.string())),
                [{"k": "v"}, {}, None]),
        "list": ("json", pa.array([[1, None], [], None]), [[1, None], [], None]),
        "parsed": ("jsonb", pa.array([json.dumps({"a": 1}), None, None]), [{"a": 1}, None, None]),
        "id": ("uuid", pa.array(["0" * 32, None, None]), None),
    }  # fmt: skip
    kinds = ", ".join(f'"{name}" {kind}' for name, (kind, _, _) in columns.items())
    database.execute("DROP TABLE IF EXISTS kinds")
    database.execute(f"CREATE TABLE kinds ({kinds})")
    batch = pa.RecordBatch.from_pydict({name: each[1] for name, each in columns.items()})
    open_writer("public.kinds").write(deliver((A, None, 3)), [batch], [])
    for name, (_, _, expected) in columns.items():
        found = [value for (value,) in database.execute(f'SELECT "{name}" FROM kinds').fetchall()]
        assert expected in (None, found), name


@pytest.mark.parametrize(
    ("batch", "named"),
    [
        ({"n": ["x"]}, 'invalid input syntax for type bigint: "x"'),
        ({"body": ["a\x00b"]}, "0x00"),
        ({"more": ["x"]}, 'column "more" of relation "rows" does not exist'),
        ({"body": ["wrong"]}, "a trigger refuses it"),
    ],
)
def test_values_that_the_table_cannot_have_are_refused(
    writer: PostgresWriter, batch: dict[str, Any], named: str
) -> None:
    with pytest.raises(RowsRefusedError, match=named):
        writer.write(deliver((A, None, 1)), [pa.RecordBatch.from_pydict(batch)], [])
    assert read(writer, A) is None
