"""
The rows that a task has made and not committed, and the folders into which it writes them.

A holding of a queue keeps its rows in memory until they are committed. If the queue is given up,
its rows go, and those of other queues stay.
"""

import itertools
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from spark_jobs.pipeline.flow import json_lines
from spark_jobs.pipeline.flow.folders import SinkFolders
from spark_jobs.schema import ERROR_COLUMN

SUCCESS = "_SUCCESS"
"""The empty file with which Spark too marks a complete folder."""


@dataclass(frozen=True, slots=True)
class HandledPiece:
    """The rows of one call of the function, or of one message that was given up."""

    stop: int
    """The offset at which its range stops."""
    rows: Sequence[pa.RecordBatch]
    dead: Sequence[pa.RecordBatch]
    bytes: int
    """The size of its rows. Arrow counts it anew each time, which is slow."""


@dataclass(slots=True, eq=False)
class HeldRows:
    """The rows of one holding of a queue. Every offset of the holding is in one of its pieces."""

    is_live: Callable[[], bool]
    """Whether the queue is still held, so that its rows may be committed."""
    committed: int
    """The journal has everything below this offset."""
    handled: int = -1
    """The user's function has done everything below this offset."""
    pieces: list[HandledPiece] = field(default_factory=list)
    """What has been handled and not committed, in the order of the offsets."""

    def __post_init__(self) -> None:
        """Begin without rows."""
        self.handled = self.committed

    def add(
        self, begin: int, stop: int, rows: Sequence[pa.RecordBatch],
        dead: Sequence[pa.RecordBatch] = (),
    ) -> bool:  # fmt: skip
        """Add the rows of a range. Return False, and add nothing, unless it begins at the end."""
        if begin != self.handled:
            return False
        size = sum(batch.nbytes for batch in (*rows, *dead))
        self.pieces.append(HandledPiece(stop, rows, dead, size))
        self.handled = stop
        return True

    @property
    def bytes(self) -> int:
        """The size of the rows that are not committed."""
        return sum(piece.bytes for piece in self.pieces)

    def list_batches(self) -> list[pa.RecordBatch]:
        """List all rows that are not committed."""
        return [batch for piece in self.pieces for batch in piece.rows if batch.num_rows]

    def list_dead(self) -> list[pa.RecordBatch]:
        """List all dead letters that are not committed."""
        return [batch for piece in self.pieces for batch in piece.dead if batch.num_rows]

    def commit(self, stop: int) -> None:
        """Forget the rows below this offset."""
        self.pieces = [piece for piece in self.pieces if piece.stop > stop]
        self.committed = stop


@dataclass(frozen=True, slots=True)
class FileFormat:
    """Writes rows as files."""

    name: str

    def write(self, folder: Path, batches: Sequence[pa.RecordBatch]) -> None:
        """Write a folder, so that it is still there after a power failure."""
        shutil.rmtree(folder, ignore_errors=True)  # of an attempt that has failed
        folder.mkdir(parents=True)
        file = folder / f"part-0.{self.name}"
        _WRITERS[self.name](file, _join(batches))
        (folder / SUCCESS).touch()
        for each in (file, folder):
            _sync(each)


@dataclass(frozen=True, slots=True)
class SinkPlace:
    """Where a sink of the job writes files."""

    path: str
    format: FileFormat

    def open(self, query: str) -> "FileSink":
        """Make the sink for a journal with this id."""
        return FileSink(SinkFolders(self.path, query), self.format)


@dataclass(frozen=True, slots=True)
class FileSink:
    """Where rows go, and in which format."""

    folders: SinkFolders
    format: FileFormat

    def write(self, session: str, number: int, batches: Sequence[pa.RecordBatch]) -> str:
        """Write the hidden folder of a commit, and return it; empty if there are no rows."""
        if not batches:
            return ""
        folder = self.folders.name_hidden(session, number)
        self.format.write(folder, batches)
        return str(folder)


@dataclass(frozen=True, slots=True)
class FlowSinks:
    """The sinks of one flow."""

    rows: FileSink
    dead: FileSink | None
    """Where dead letters go; None: a message that was given up lets its queue stand still."""

    def clean(self) -> None:
        """Delete what no commit names: call it before tasks begin."""
        for sink in filter(None, (self.rows, self.dead)):
            sink.folders.clean()


def divide(batches: Iterable[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Divide rows into good ones, without the column of the error, and those with an error."""
    good: list[pa.RecordBatch] = []
    bad: list[pa.RecordBatch] = []
    for batch in batches:
        if ERROR_COLUMN not in batch.schema.names:
            good.append(batch)
            continue
        is_good = pc.is_null(batch[ERROR_COLUMN])
        good.append(batch.filter(is_good).drop_columns([ERROR_COLUMN]))
        bad.append(batch.filter(pc.invert(is_good)))
    return good, [batch for batch in bad if batch.num_rows]


def _join(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Join neighbours with the same columns: most batches have few rows, and writing takes long."""
    groups = itertools.groupby(batches, key=lambda batch: batch.schema)
    return [pa.concat_batches(group) for _, group in groups]


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _make_table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables, promote_options="default")


def _write_parquet(file: Path, batches: Sequence[pa.RecordBatch]) -> None:
    pyarrow.parquet.write_table(_make_table(batches), file)


def _write_csv(file: Path, batches: Sequence[pa.RecordBatch]) -> None:
    pyarrow.csv.write_csv(_make_table(batches), file)


_WRITERS = {"json": json_lines.write, "parquet": _write_parquet, "csv": _write_csv}
FORMATS = sorted(_WRITERS)
