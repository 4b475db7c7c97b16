"""The files that a task writes."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from spark_jobs.pipeline.flow.sinks.files import FileFormat, FileSink
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, RowsRefusedError


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int64())})


def test_json_is_written_as_spark_writes_it(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pylist(
        [{"body": b"\x00a", "keys": None}, {"body": None, "keys": "k"}]
    )
    FileFormat("json").write(tmp_path / "made", [rows])
    (file,) = (tmp_path / "made").glob("part-*.json")
    lines = list(map(json.loads, file.read_text().splitlines()))
    assert lines == [{"body": "AGE="}, {"keys": "k"}]
    assert (tmp_path / "made/_SUCCESS").exists()


def test_batches_whose_columns_differ_share_a_parquet_file(tmp_path: Path) -> None:
    other = pa.RecordBatch.from_pydict({"number": [3], "more": ["x"]})
    FileFormat("parquet").write(tmp_path / "made", [batch(1, 2), other])
    (file,) = (tmp_path / "made").glob("part-*.parquet")
    assert pyarrow.parquet.read_table(file).to_pydict() == {
        "number": [1, 2, 3], "more": [None, None, "x"],
    }  # fmt: skip


def test_a_folder_of_an_attempt_that_failed_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made/part-0.csv.half").touch()
    FileFormat("csv").write(tmp_path / "made", [batch(1)])
    assert sorted(each.name for each in (tmp_path / "made").iterdir()) == ["_SUCCESS", "part-0.csv"]


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_rows_that_cannot_be_joined_are_refused(tmp_path: Path, form: str) -> None:
    sink = FileSink(SinkFolders(str(tmp_path), "q", 1), FileFormat(form))
    mixed = [batch(1), pa.RecordBatch.from_pydict({"number": ["x"]})]
    with pytest.raises(RowsRefusedError, match=form):
        sink.write(Delivery("session", 1, []), mixed)
