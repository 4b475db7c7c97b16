"""A sink of files: a task writes a hidden folder for each commit, and the driver moves it."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from spark_jobs.pipeline.flow.rows import join_neighbours, make_table
from spark_jobs.pipeline.flow.sinks import json_lines
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, JournaledSink, refuse_rows
from spark_jobs.pipeline.flow.stores import sync

SUCCESS = "_SUCCESS"
"""The empty file with which Spark too marks a complete folder."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """Writes rows as files."""

    name: str

    def write(self, folder: Path, batches: Sequence[pa.RecordBatch]) -> None:
        """Write a folder, so that it is still there after a power failure."""
        shutil.rmtree(folder, ignore_errors=True)  # of an attempt that has failed
        folder.mkdir(parents=True)
        file = folder / f"part-0.{self.name}"
        _WRITERS[self.name](file, join_neighbours(batches))
        (folder / SUCCESS).touch()
        for each in (file, folder):
            sync(each)


@dataclass(frozen=True, slots=True)
class FileSink(JournaledSink):
    """Both sides of the sink."""

    folders: SinkFolders
    format: FileFormat

    def write(self, delivery: Delivery, rows: Sequence[pa.RecordBatch]) -> str:
        """Write the hidden folder of a commit, and return it; empty if there are no rows."""
        if not rows:
            return ""
        folder = self.folders.name_hidden(delivery.session, delivery.number)
        with refuse_rows(f"{self.format.name}: "):
            self.format.write(folder, rows)
        return str(folder)


def _write_parquet(file: Path, batches: Sequence[pa.RecordBatch]) -> None:
    pyarrow.parquet.write_table(make_table(batches), file)


def _write_csv(file: Path, batches: Sequence[pa.RecordBatch]) -> None:
    pyarrow.csv.write_csv(make_table(batches), file)


_WRITERS = {"json": json_lines.write, "parquet": _write_parquet, "csv": _write_csv}
FORMATS = sorted(_WRITERS)
