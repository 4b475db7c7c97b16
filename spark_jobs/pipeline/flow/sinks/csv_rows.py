"""Writes rows as CSV for PostgreSQL's COPY: an empty field is null, and "" is an empty string."""

import io

import pyarrow as pa
import pyarrow.csv

from spark_jobs.pipeline.flow.sinks import json_lines

_OPTIONS = pyarrow.csv.WriteOptions(include_header=False)


def encode(batch: pa.RecordBatch) -> bytes:
    """Write rows. Bytes get the form of `bytea`. Lists, maps and structs become JSON."""
    columns = [_make_plain(column) for column in batch.columns]
    out = io.BytesIO()
    plain = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    pyarrow.csv.write_csv(plain, out, _OPTIONS)
    return out.getvalue()


def _make_plain(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        texts = [None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_nested(kind):
        return pa.array(json_lines.encode_values(column), pa.string())
    return column
