"""
Writes rows as JSON lines that have the same values as Spark's JSON files.

So a job can change its engine, and readers of its files see no difference. Fields without a value
are left out, maps are objects, times are in UTC with milliseconds, and floats that JSON lacks are
strings.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import IO, Any

import msgspec
import numpy
import pyarrow as pa

Convert = Callable[[Any], Any]
_encoder = msgspec.json.Encoder(decimal_format="number")


def write(file: IO[bytes], batches: Sequence[pa.RecordBatch]) -> None:
    """Write a file."""
    for batch in batches:
        file.write(_encoder.encode_lines(_list_rows(batch)))


def encode_values(column: pa.Array) -> list[str | None]:
    """Encode each value of a column as separate JSON."""
    return [
        None if value is None else _encoder.encode(value).decode() for value in _list_values(column)
    ]


def _list_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    columns = [_list_values(column) for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield _drop_nulls(zip(batch.schema.names, values, strict=True))


def _list_values(column: pa.Array) -> list[Any]:
    convert = _find_converter(column.type)
    values: list[Any] = column.to_pylist()
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def _find_converter(kind: pa.DataType) -> Convert | None:
    """Return the function that converts values of this type; None if none is needed."""
    types = pa.types
    if types.is_timestamp(kind):
        return _show_time
    if types.is_float32(kind):
        return lambda value: _show_float(float(str(numpy.float32(value))))  # 0.1, not 0.10000000149
    if types.is_floating(kind):
        return _show_float
    if types.is_map(kind):
        item = _make_nullable(_find_converter(kind.item_type))
        return lambda pairs: {str(key): item(value) for key, value in pairs}
    if types.is_struct(kind):
        parts = {field.name: _make_nullable(_find_converter(field.type)) for field in kind.fields}
        return lambda value: _drop_nulls((name, parts[name](part)) for name, part in value.items())
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        item = _make_nullable(_find_converter(kind.value_type))
        return lambda values: [item(value) for value in values]
    return None


def _make_nullable(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _drop_nulls(fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields if value is not None}


def _show_time(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(timespec="milliseconds")
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _show_float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
