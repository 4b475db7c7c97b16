"""The sinks of Delta Lake and Iceberg, with real tables."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType
from pyiceberg.catalog.sql import SqlCatalog

from follower.positions import MovedOnError, Step
from mq_client.messages import StoredMessage
from mq_client.values import MessageQueue
from spark_jobs.pipeline.flow.sinks import iceberg, tables
from spark_jobs.pipeline.flow.sinks.iceberg import IcebergPlace
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, RowsRefusedError
from spark_jobs.pipeline.flow.sinks.tables import (
    TableConflictError,
    TableSink,
    TableStore,
    TableWriter,
)
from spark_jobs.schema import make_error_rows
from tests.tables import LAKE_TABLES, LakeTable, make_delta, make_iceberg

A, B = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


@pytest.fixture(params=LAKE_TABLES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    return LAKE_TABLES[request.param](tmp_path)


def open_writer(lake: LakeTable, *, has_positions: bool = True) -> TableWriter:
    return TableSink(lake.place, has_positions).open()


class StoreOfFrozen:
    """The store of a task that is frozen after it has found the table, while other tasks go on."""

    def __init__(self, store: TableStore, meanwhile: Callable[[], object], times: int) -> None:
        self.store = store
        self.meanwhile = meanwhile
        self.times = times
        self.create = store.create

    def find(self) -> Any:
        found = self.store.find()
        if self.times:
            self.times -= 1
            self.meanwhile()
        return found


def open_frozen(lake: LakeTable, meanwhile: Callable[[], object], times: int = 1) -> TableWriter:
    writer = open_writer(lake)
    store: Any = StoreOfFrozen(writer._store, meanwhile, times)
    writer._store = store
    return writer


def deliver(*steps: tuple[MessageQueue, int | None, int]) -> Delivery:
    return Delivery("session", 1, [Step("billing", *each) for each in steps])


def rows(*numbers: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"n": [each]}) for each in numbers]


def list_numbers(lake: LakeTable) -> list[int]:
    found: list[int] = lake.read()["n"].to_pylist()
    return sorted(found)


def read(writer: TableWriter, queue: MessageQueue) -> int | None:
    assert writer.positions is not None
    return writer.positions("billing", queue)


def test_rows_and_positions_are_one_commit_of_the_table(lake: LakeTable) -> None:
    writer = open_writer(lake)
    assert read(writer, A) is None
    writer.write(deliver((A, None, 2), (B, None, 7)), rows(0, 1))
    writer.write(deliver((A, 2, 3)), rows(2))
    assert (list_numbers(lake), read(writer, A), read(writer, B)) == ([0, 1, 2], 3, 7)


def test_a_range_without_rows_moves_the_position_of_a_table_that_is_there(lake: LakeTable) -> None:
    writer = open_writer(lake)
    writer.write(deliver((A, None, 2)), [])
    assert read(writer, A) is None
    writer.write(deliver((A, None, 3)), rows(2))
    writer.write(deliver((A, 3, 9)), [])
    assert (list_numbers(lake), read(writer, A)) == ([2], 9)


@pytest.mark.parametrize("begin", [None, 0, 5])
def test_a_task_that_was_given_up_writes_nothing(lake: LakeTable, begin: int | None) -> None:
    open_writer(lake).write(deliver((A, None, 2)), rows(0, 1))
    with pytest.raises(MovedOnError):
        open_writer(lake).write(deliver((A, begin, 6)), rows(5))
    assert list_numbers(lake) == [0, 1]


def test_a_task_that_was_frozen_before_the_table_was_there_writes_nothing(
    lake: LakeTable,
) -> None:
    def write_ten() -> None:
        open_writer(lake).write(deliver((A, None, 10)), rows(*range(10)))

    frozen = open_frozen(lake, write_ten)
    with pytest.raises(MovedOnError):
        frozen.write(deliver((A, None, 5)), rows(*range(5)))
    assert (list_numbers(lake), read(frozen, A)) == (list(range(10)), 10)


@pytest.mark.parametrize("theirs", [rows(1), []], ids=["rows", "no rows"])
@pytest.mark.parametrize("ours", [rows(2), []], ids=["rows", "no rows"])
def test_a_task_that_was_frozen_after_its_look_at_the_table_writes_nothing(
    lake: LakeTable, theirs: list[pa.RecordBatch], ours: list[pa.RecordBatch]
) -> None:
    open_writer(lake).write(deliver((A, None, 1)), rows(0))
    frozen = open_frozen(lake, lambda: open_writer(lake).write(deliver((A, 1, 3)), theirs))
    with pytest.raises(MovedOnError):
        frozen.write(deliver((A, 1, 2)), ours)
    assert (list_numbers(lake), read(frozen, A)) == ([0, *(n for n in (1,) if theirs)], 3)


def test_calls_whose_columns_have_different_types_are_refused_together(lake: LakeTable) -> None:
    mixed = [pa.RecordBatch.from_pydict({"n": [1]}), pa.RecordBatch.from_pydict({"n": ["x"]})]
    with pytest.raises(RowsRefusedError):
        open_writer(lake).write(deliver((A, None, 5)), mixed)


def test_of_many_tasks_at_one_position_one_writes(lake: LakeTable) -> None:
    open_writer(lake).write(deliver((A, None, 2)), rows(0, 1))

    def write(number: int) -> bool:
        try:
            open_writer(lake).write(deliver((A, 2, 3)), rows(number))
        except MovedOnError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(write, range(100, 108))) == 1
    assert len(list_numbers(lake)) == 3


def test_tasks_with_different_queues_do_not_disturb_each_other(lake: LakeTable) -> None:
    open_writer(lake).write(deliver((A, None, 1)), rows(0))
    queues = [MessageQueue("orders", "broker-b", number) for number in range(6)]
    with ThreadPoolExecutor(6) as threads:
        list(
            threads.map(
                lambda each: open_writer(lake).write(deliver((each, None, 1)), rows(each.id + 1)),
                queues,
            )
        )
    assert list_numbers(lake) == list(range(7))


@pytest.mark.parametrize("row", [{"n": ["x"]}, {"m": [1]}])
def test_rows_that_the_table_cannot_have_are_refused(
    lake: LakeTable, row: dict[str, list[str]]
) -> None:
    writer = open_writer(lake)
    writer.write(deliver((A, None, 1)), rows(0))
    with pytest.raises(RowsRefusedError, match="orders"):
        writer.write(deliver((A, 1, 2)), [pa.RecordBatch.from_pydict(row)])
    assert (list_numbers(lake), read(writer, A)) == ([0], 1)


def test_a_commit_that_comes_first_is_no_fault_of_the_rows(lake: LakeTable) -> None:
    open_writer(lake).write(deliver((A, None, 1)), rows(0))
    others = pa.table({"n": [9], "more": ["x"]})
    writer = open_frozen(lake, lambda: lake.add(others))
    writer.write(deliver((A, 1, 2)), rows(1))
    assert list_numbers(lake) == [0, 1, 9]


def test_a_table_to_which_others_commit_all_the_time_is_tried_later(
    lake: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ATTEMPTS", 2)
    writer = open_writer(lake)
    writer.write(deliver((A, None, 1)), rows(0))

    def add() -> None:
        lake.add(pa.table({"n": [9], f"more{len(list_numbers(lake))}": ["x"]}))

    writer = open_frozen(lake, add, times=2)
    with pytest.raises(TableConflictError, match="orders: others commit all the time"):
        writer.write(deliver((A, 1, 2)), rows(1))
    writer.write(deliver((A, 1, 2)), rows(1))
    assert list_numbers(lake) == [0, 1, 9, 9]


def test_rows_that_violate_a_constraint_of_delta_are_refused(tmp_path: Path) -> None:
    lake = make_delta(tmp_path)
    writer = open_writer(lake)
    writer.write(deliver((A, None, 1)), rows(1))
    DeltaTable(lake.place.name).alter.add_constraint({"positive": "n > 0"})
    with pytest.raises(RowsRefusedError, match="orders"):
        writer.write(deliver((A, 1, 2)), rows(-1))
    assert (list_numbers(lake), read(writer, A)) == ([1], 1)


def test_a_column_of_iceberg_that_must_not_be_null_refuses_rows_without_it(tmp_path: Path) -> None:
    lake = make_iceberg(tmp_path)
    needed = pa.schema([pa.field("n", pa.int64(), nullable=False), ("m", pa.int64())])
    lake.place.open().create(needed)
    writer = open_writer(lake)
    writer.write(deliver((A, None, 1)), rows(1))
    with pytest.raises(RowsRefusedError, match=r"orders: .*n"):
        writer.write(deliver((A, 1, 2)), [pa.RecordBatch.from_pydict({"m": [1]})])
    assert (list_numbers(lake), read(writer, A)) == ([1], 1)


def test_a_column_that_delta_computes_is_left_to_it(tmp_path: Path) -> None:
    lake = make_delta(tmp_path)
    computed = Field(
        "twice", PrimitiveType("long"), metadata={"delta.generationExpression": "n * 2"}
    )
    columns = [
        Field("n", PrimitiveType("long")), computed, Field("note", PrimitiveType("string")),
    ]  # fmt: skip
    DeltaTable.create(lake.place.name, Schema(columns))
    open_writer(lake).write(deliver((A, None, 2)), rows(1, 2))
    found = lake.read().sort_by("n").to_pylist()
    assert found == [{"n": n, "twice": 2 * n, "note": None} for n in (1, 2)]


def test_a_table_of_iceberg_may_have_partitions(tmp_path: Path) -> None:
    lake = make_iceberg(tmp_path)
    store: Any = lake.place.open()
    store.create(pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))]))
    with store.find().table.update_spec() as change:
        change.add_field("at", "day")
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2)]
    batch = pa.RecordBatch.from_pydict({"n": [1, 2], "at": days})
    open_writer(lake).write(deliver((A, None, 2)), [batch])
    assert list_numbers(lake) == [1, 2]


def test_a_commit_of_iceberg_that_landed_though_it_was_refused_is_not_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer is lost, and a program between task and catalog repeats the request."""
    lake = make_iceberg(tmp_path)
    open_writer(lake).write(deliver((A, None, 1)), rows(0))
    commit = SqlCatalog.commit_table

    def commit_twice(*arguments: Any) -> Any:
        commit(*arguments)
        monkeypatch.setattr(SqlCatalog, "commit_table", commit)
        return commit(*arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_twice)
    with pytest.raises(MovedOnError):
        open_writer(lake).write(deliver((A, 1, 2)), rows(1))
    assert (list_numbers(lake), read(open_writer(lake), A)) == ([0, 1], 2)
    open_writer(lake).write(deliver((A, 2, 3)), rows(2))
    assert list_numbers(lake) == [0, 1, 2]


def test_a_catalog_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        place = IcebergPlace("lake.shop.orders", {"type": "rest", "uri": uri})
        with pytest.raises(OSError, match="timed out"):
            place.open().find()


def test_a_table_is_not_created_before_its_types_are_known(lake: LakeTable) -> None:
    unknown = pa.RecordBatch.from_pydict({"n": [1], "x": [None]})
    with pytest.raises(ValueError, match="cannot be created: no row has a value of x"):
        open_writer(lake).write(deliver((A, None, 1)), [unknown])
    known = pa.RecordBatch.from_pydict({"n": [2], "x": ["a"]})
    open_writer(lake).write(deliver((A, None, 2)), [unknown, known])
    assert lake.read().sort_by("n")["x"].to_pylist() == [None, "a"]


def test_a_new_table_of_dead_letters_takes_messages_that_are_given_up(lake: LakeTable) -> None:
    writer = open_writer(lake, has_positions=False)
    own = pa.RecordBatch.from_pydict({"n": [1], "_error": ["odd"]})
    writer.write(deliver((A, 0, 1)), [own])
    message = StoredMessage(*A, 1, b"x", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)
    letter = make_error_rows([(message, "broken")], include_properties=True)
    writer.write(deliver((A, 1, 2)), [letter])
    assert sorted(lake.read()["_error"].to_pylist()) == ["broken", "odd"]


def test_dead_letters_have_no_positions(lake: LakeTable) -> None:
    writer = open_writer(lake, has_positions=False)
    assert writer.positions is None
    writer.write(deliver((A, 5, 6)), [])
    writer.write(deliver((A, 5, 6)), rows(5))
    writer.write(deliver((A, 5, 6)), rows(5))
    assert list_numbers(lake) == [5, 5]
