"""A sink of files: a task writes a hidden folder for each commit, and the driver moves it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from spark_jobs.pipeline.flow.rows import join_neighbours, make_table
from spark_jobs.pipeline.flow.sinks import json_lines
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, JournaledSink, refuse_rows


@dataclass(frozen=True, slots=True)
class FileSink(JournaledSink):
    """Both sides of the sink: the driver's side, and a task's side."""

    folders: SinkFolders
    format: str

    def write(self, delivery: Delivery, rows: Sequence[pa.RecordBatch]) -> str:
        """Write the hidden folder of a commit, and return it; empty if there are no rows."""
        if not rows:
            return ""
        folder = self.folders.name_hidden(delivery.session, delivery.number)

        def write(file: IO[bytes]) -> None:
            with refuse_rows(f"{self.format}: "):
                _WRITERS[self.format](file, join_neighbours(rows))

        self.folders.files.write(folder, f"part-0.{self.format}", write)
        return folder


def _write_parquet(file: IO[bytes], batches: Sequence[pa.RecordBatch]) -> None:
    pyarrow.parquet.write_table(make_table(batches), file)


def _write_csv(file: IO[bytes], batches: Sequence[pa.RecordBatch]) -> None:
    pyarrow.csv.write_csv(make_table(batches), file)


_WRITERS: dict[str, Callable[[IO[bytes], Sequence[pa.RecordBatch]], None]] = {
    "json": json_lines.write, "parquet": _write_parquet, "csv": _write_csv,
}  # fmt: skip
FORMATS = sorted(_WRITERS)
