"""Rows get the columns of a table only if no value changes."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.pipeline.flow.sinks.fitting import fit, plan_columns
from spark_jobs.pipeline.flow.sinks.kinds import RowsRefusedError

CITY = pa.struct([("city", pa.string())])
PLACE = pa.struct([("city", pa.string()), ("zip", pa.int64())])
MORNING = datetime(2026, 1, 1, 6, tzinfo=UTC)


def fit_one(value: Any, given: pa.DataType, wanted: pa.DataType) -> Any:
    rows = pa.table({"x": pa.array([value], given)})
    found = fit(rows, pa.schema([("x", wanted)]))
    assert found.schema.field("x").type == wanted
    return found["x"][0].as_py()


@pytest.mark.parametrize(
    ("value", "given", "wanted"),
    [
        (1, pa.int64(), pa.int32()),
        (1, pa.int64(), pa.float64()),
        (200, pa.uint8(), pa.int16()),
        (1.5, pa.float32(), pa.float64()),
        (Decimal("1.20"), pa.decimal128(5, 2), pa.decimal128(10, 4)),
        (MORNING, pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("ns", "UTC")),
        (date(2026, 1, 1), pa.date32(), pa.date64()),
        ("a", pa.dictionary(pa.int8(), pa.string()), pa.large_string()),
        ("a", pa.string_view(), pa.string()),
        (None, pa.null(), pa.int64()),
        ([1], pa.list_(pa.int32()), pa.large_list(pa.int64())),
        ([("k", 1)], pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64())),
    ],
)
def test_values_that_stay_what_they_are_get_the_tables_type(
    value: Any, given: pa.DataType, wanted: pa.DataType
) -> None:
    assert fit_one(value, given, wanted) == value


@pytest.mark.parametrize(
    ("value", "given", "wanted", "named"),
    [
        (2**40, pa.int64(), pa.int32(), "not in range"),
        (2**53 + 1, pa.int64(), pa.float64(), "not in range"),
        (1e300, pa.float64(), pa.float32(), "column x is float, and its values are double"),
        (1.5, pa.float64(), pa.bool_(), "column x is bool"),
        (1.5, pa.float64(), pa.decimal128(10, 1), "column x is decimal"),
        (Decimal("1.234"), pa.decimal128(5, 3), pa.decimal128(10, 2), "data loss"),
        (MORNING, pa.timestamp("us", "UTC"), pa.date32(), "column x is date"),
        (1, pa.timestamp("us"), pa.timestamp("us", "UTC"), "column x is timestamp"),
        (1, pa.timestamp("ns"), pa.timestamp("us"), "lose data"),
        ("5", pa.string(), pa.int64(), "column x is int64, and its values are string"),
        (b"\xff", pa.binary(), pa.string(), "UTF8"),
        ({"city": "a", "zip": 1}, PLACE, CITY, r"no column x\.zip"),
        ([{"city": "a", "zip": 1}], pa.list_(PLACE), pa.list_(CITY), r"no column x\[\]\.zip"),
        (
            [("k", 1.5)], pa.map_(pa.string(), pa.float64()), pa.map_(pa.string(), pa.int64()),
            r"column x\[\] is int64",
        ),
    ],
)  # fmt: skip
def test_values_that_could_change_are_refused(
    value: Any, given: pa.DataType, wanted: pa.DataType, named: str
) -> None:
    with pytest.raises(RowsRefusedError, match=named):
        fit_one(value, given, wanted)


def test_what_rows_lack_is_null_or_left_to_the_table() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("s", PLACE)])
    rows = pa.table({"s": pa.array([{"city": "x"}], CITY)})
    assert fit(rows, schema, ["b"]).to_pylist() == [{"a": None, "s": {"city": "x", "zip": None}}]
    both = pa.table({"a": [1], "b": [2]})
    assert fit(both, schema, ["b"])["b"].to_pylist() == [2]


def test_columns_of_a_table_do_not_depend_on_where_rows_are_made() -> None:
    given = pa.schema([
        ("a", pa.uint8()), ("at", pa.timestamp("ns", "Europe/Berlin")), ("n", pa.timestamp("ns")),
        ("l", pa.large_list(pa.struct([("z", pa.uint32())]))),
        ("d", pa.dictionary(pa.int8(), pa.string())),
    ])  # fmt: skip
    assert plan_columns(given) == pa.schema([
        ("a", pa.int16()), ("at", pa.timestamp("us", "UTC")), ("n", pa.timestamp("us")),
        ("l", pa.list_(pa.struct([("z", pa.int64())]))), ("d", pa.string()),
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "named"),
    [(pa.null(), "x"), (pa.list_(pa.null()), r"x\[\]"), (pa.struct([("y", pa.null())]), r"x\.y")],
)
def test_a_column_without_any_value_has_no_type(kind: pa.DataType, named: str) -> None:
    with pytest.raises(ValueError, match=f"no row has a value of {named} yet"):
        plan_columns(pa.schema([("x", kind)]))
