"""The sink of Delta Lake, with real tables."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from follower.positions import MovedOnError, Step
from mq_client.values import MessageQueue
from spark_jobs.pipeline.flow.sinks.delta import DeltaSink, DeltaWriter
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, RowsRefusedError

A, B = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "orders")


def open_writer(path: str, *, has_positions: bool = True) -> DeltaWriter:
    return DeltaSink(path, {}, has_positions=has_positions).open()


def deliver(*steps: tuple[MessageQueue, int | None, int]) -> Delivery:
    return Delivery("session", 1, [Step("billing", *each) for each in steps])


def rows(*numbers: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"n": [each]}) for each in numbers]


def list_numbers(path: str) -> list[int]:
    found: list[int] = DeltaTable(path).to_pyarrow_table()["n"].to_pylist()
    return sorted(found)


def read(writer: DeltaWriter, queue: MessageQueue) -> int | None:
    assert writer.positions is not None
    return writer.positions("billing", queue)


def test_rows_and_positions_are_one_commit_of_the_table(path: str) -> None:
    writer = open_writer(path)
    assert read(writer, A) is None
    writer.write(deliver((A, None, 2), (B, None, 7)), rows(0, 1))
    writer.write(deliver((A, 2, 3)), rows(2))
    assert (list_numbers(path), read(writer, A), read(writer, B)) == ([0, 1, 2], 3, 7)
    assert DeltaTable(path).version() == 2, "the table, and two commits"


def test_a_range_without_rows_moves_the_position_of_a_table_that_is_there(path: str) -> None:
    writer = open_writer(path)
    writer.write(deliver((A, None, 2)), [])
    assert read(writer, A) is None
    writer.write(deliver((A, None, 3)), rows(2))
    writer.write(deliver((A, 3, 9)), [])
    assert (list_numbers(path), read(writer, A)) == ([2], 9)


@pytest.mark.parametrize("begin", [None, 0, 5])
def test_a_task_that_was_given_up_writes_nothing(path: str, begin: int | None) -> None:
    open_writer(path).write(deliver((A, None, 2)), rows(0, 1))
    with pytest.raises(MovedOnError):
        open_writer(path).write(deliver((A, begin, 6)), rows(5))
    assert list_numbers(path) == [0, 1]


def test_a_task_that_was_frozen_before_the_table_was_there_writes_nothing(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = open_writer(path)
    create = frozen._create

    def create_later(schema: pa.Schema) -> Any:
        open_writer(path).write(deliver((A, None, 10)), rows(*range(10)))
        return create(schema)

    monkeypatch.setattr(frozen, "_create", create_later)
    with pytest.raises(MovedOnError):
        frozen.write(deliver((A, None, 5)), rows(*range(5)))
    assert (list_numbers(path), read(frozen, A)) == (list(range(10)), 10)


def test_calls_whose_columns_have_different_types_are_refused_together(path: str) -> None:
    mixed = [pa.RecordBatch.from_pydict({"n": [1]}), pa.RecordBatch.from_pydict({"n": ["x"]})]
    with pytest.raises(RowsRefusedError):
        open_writer(path).write(deliver((A, None, 5)), mixed)


def test_of_many_tasks_at_one_position_one_writes(path: str) -> None:
    open_writer(path).write(deliver((A, None, 2)), rows(0, 1))

    def write(number: int) -> bool:
        try:
            open_writer(path).write(deliver((A, 2, 3)), rows(number))
        except MovedOnError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(write, range(100, 108))) == 1
    assert len(list_numbers(path)) == 3


def test_tasks_with_different_queues_do_not_disturb_each_other(path: str) -> None:
    open_writer(path).write(deliver((A, None, 1)), rows(0))
    queues = [MessageQueue("orders", "broker-b", number) for number in range(6)]
    with ThreadPoolExecutor(6) as threads:
        list(
            threads.map(
                lambda each: open_writer(path).write(deliver((each, None, 1)), rows(each.id + 1)),
                queues,
            )
        )
    assert list_numbers(path) == list(range(7))


@pytest.mark.parametrize("row", [{"n": ["x"]}, {"m": [1]}])
def test_rows_that_the_table_cannot_have_are_refused(path: str, row: dict[str, list[str]]) -> None:
    writer = open_writer(path)
    writer.write(deliver((A, None, 1)), rows(0))
    with pytest.raises(RowsRefusedError, match="orders"):
        writer.write(deliver((A, 1, 2)), [pa.RecordBatch.from_pydict(row)])
    assert (list_numbers(path), read(writer, A)) == ([0], 1)


def test_a_change_of_the_table_is_no_fault_of_the_rows(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody replaces the table between the look at it and the commit."""
    writer = open_writer(path)
    writer.write(deliver((A, None, 1)), rows(0))
    found = writer._find_table

    def find_and_change() -> Any:
        table = found()
        monkeypatch.setattr(writer, "_find_table", found)
        more = pa.table({"n": [9], "more": ["x"]})
        write_deltalake(path, more, mode="append", schema_mode="merge")
        return table

    monkeypatch.setattr(writer, "_find_table", find_and_change)
    with pytest.raises(Exception, match=r"(?i)metadata|changed|conflict") as raised:
        writer.write(deliver((A, 1, 2)), rows(1))
    assert not isinstance(raised.value, MovedOnError | RowsRefusedError)
    writer.write(deliver((A, 1, 2)), rows(1))
    assert list_numbers(path) == [0, 1, 9]


def test_dead_letters_have_no_positions(path: str) -> None:
    writer = open_writer(path, has_positions=False)
    assert writer.positions is None
    writer.write(deliver((A, 5, 6)), [])
    writer.write(deliver((A, 5, 6)), rows(5))
    writer.write(deliver((A, 5, 6)), rows(5))
    assert list_numbers(path) == [5, 5]
