"""Rows that a task holds until they are committed."""

import pyarrow as pa

from spark_jobs.pipeline.flow.rows import HeldRows, divide


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int64())})


def list_numbers(held: HeldRows) -> list[int]:
    return [number for each in held.list_batches() for number in each["number"].to_pylist()]


def test_rows_are_held_until_they_are_committed() -> None:
    held = HeldRows(lambda: True, 5, 5)
    assert held.add(5, 7, [batch(5, 6)])
    assert held.add(7, 8, [batch(7)])
    held.commit(7)
    assert (list_numbers(held), held.committed, held.handled) == ([7], 7, 8)


def test_a_call_that_belongs_to_another_place_adds_nothing() -> None:
    held = HeldRows(lambda: True, 5, 5)
    assert held.add(5, 7, [batch(5, 6)])
    assert not held.add(5, 7, [batch(5, 6)]), "the same messages again"
    assert not held.add(9, 10, [batch(9)]), "a hole"
    assert list_numbers(held) == [5, 6]


def test_a_range_without_rows_moves_the_offset() -> None:
    held = HeldRows(lambda: True, 5, 5)
    assert held.add(5, 9, [])
    assert (held.handled, held.list_batches(), held.bytes) == (9, [], 0)


def test_rows_with_an_error_are_divided_from_the_others() -> None:
    mixed = pa.RecordBatch.from_pydict({"n": [1, 2, 3], "_error": [None, "bad", None]})
    good, bad = divide([mixed, batch(4)])
    assert [each.to_pydict() for each in good] == [{"n": [1, 3]}, {"number": [4]}]
    assert [each.to_pydict() for each in bad] == [{"n": [2], "_error": ["bad"]}]
