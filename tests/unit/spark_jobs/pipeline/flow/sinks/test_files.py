"""The files that a task writes."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from spark_jobs.pipeline.flow.sinks.files import FileSink
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, RowsRefusedError


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int64())})


def write(form: str, folder: Path, *batches: pa.RecordBatch) -> Path:
    sink = FileSink(SinkFolders(str(folder), "q", 1), form)
    return Path(sink.write(Delivery("session", 1, []), batches))


def test_json_is_written_as_spark_writes_it(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pylist(
        [{"body": b"\x00a", "keys": None}, {"body": None, "keys": "k"}]
    )
    made = write("json", tmp_path, rows)
    (file,) = made.glob("part-*.json")
    lines = list(map(json.loads, file.read_text().splitlines()))
    assert lines == [{"body": "AGE="}, {"keys": "k"}]
    assert (made / "_SUCCESS").exists()


def test_batches_whose_columns_differ_share_a_parquet_file(tmp_path: Path) -> None:
    other = pa.RecordBatch.from_pydict({"number": [3], "more": ["x"]})
    (file,) = write("parquet", tmp_path, batch(1, 2), other).glob("part-*.parquet")
    assert pyarrow.parquet.read_table(file).to_pydict() == {
        "number": [1, 2, 3], "more": [None, None, "x"],
    }  # fmt: skip


def test_a_folder_of_an_attempt_that_failed_is_replaced(tmp_path: Path) -> None:
    made = write("csv", tmp_path, batch(1))
    (made / "part-0.csv.half").touch()
    assert write("csv", tmp_path, batch(1)) == made
    assert sorted(each.name for each in made.iterdir()) == ["_SUCCESS", "part-0.csv"]


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_rows_that_cannot_be_joined_are_refused(tmp_path: Path, form: str) -> None:
    other = pa.RecordBatch.from_pydict({"number": ["x"]})
    with pytest.raises(RowsRefusedError, match=form):
        write(form, tmp_path, batch(1), other)
