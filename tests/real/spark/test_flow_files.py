"""A job that changes its engine writes files that look the same to readers."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.pipeline.flow.sinks.files import FileSink
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.kinds import Delivery

AT = datetime(2026, 11, 26, 14, 0, 0, 123_456, tzinfo=UTC)
COLUMNS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "text": ("string", pa.string(), ['a"b\n,\u00fc', "", None]),
    "bytes": ("binary", pa.binary(), [b"\xff\x00a", b"", None]),
    "at": ("timestamp", pa.timestamp("us", "UTC"), [AT, AT.replace(microsecond=0), None]),
    "here": ("timestamp_ntz", pa.timestamp("us"), [AT.replace(tzinfo=None), None, None]),
    "day": ("date", pa.date32(), [date(2026, 1, 2), date(1, 1, 1), None]),
    "yes": ("boolean", pa.bool_(), [True, False, None]),
    "double": ("double", pa.float64(), [1.5, float("nan"), float("-inf")]),
    "float": ("float", pa.float32(), [0.1, float("inf"), -0.0]),
    "price": ("decimal(10,2)", pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-3.10"), None]),
    "map": (
        "map<string,timestamp>", pa.map_(pa.string(), pa.timestamp("us", "UTC")),
        [[("k", AT), ("z", None)], [], None],
    ),
    "list": ("array<float>", pa.list_(pa.float32()), [[0.1, None], [], None]),
    "part": (
        "struct<a:bigint,b:double>", pa.struct([("a", pa.int64()), ("b", pa.float64())]),
        [{"a": 1, "b": None}, {"a": None, "b": float("nan")}, None],
    ),
}  # fmt: skip
BATCH = pa.RecordBatch.from_arrays(
    [pa.array(values, kind) for _, kind, values in COLUMNS.values()], names=list(COLUMNS)
)


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """A DataFrame of Spark with the rows of `BATCH`."""
    ddl = ", ".join(f"{name} {kind}" for name, (kind, _, _) in COLUMNS.items())
    batch = BATCH
    return spark.range(1, numPartitions=1).mapInArrow(lambda _: iter([batch]), ddl)


def write(form: str, folder: Path) -> Path:
    sink = FileSink(SinkFolders(str(folder), "flow", 1), form)
    return Path(sink.write(Delivery("session", 1, []), [BATCH]))


def test_json_has_the_values_of_sparks_json(rows: DataFrame, tmp_path: Path) -> None:
    rows.write.json(str(tmp_path / "spark"))
    found = {
        side: [
            json.loads(line)
            for file in folder.glob("part-*")
            for line in file.read_text().splitlines()
        ]
        for side, folder in (("spark", tmp_path / "spark"), ("flow", write("json", tmp_path)))
    }
    assert found["flow"] == found["spark"]
    assert [list(row) for row in found["flow"]] == [list(row) for row in found["spark"]]


def test_parquet_reads_like_sparks_parquet(
    rows: DataFrame, spark: SparkSession, tmp_path: Path
) -> None:
    rows.write.parquet(str(tmp_path / "spark"))
    folders = (write("parquet", tmp_path), tmp_path / "spark")
    ours, theirs = (spark.read.parquet(str(folder)) for folder in folders)
    assert ours.dtypes == theirs.dtypes
    assert list(map(str, ours.collect())) == list(map(str, theirs.collect()))
