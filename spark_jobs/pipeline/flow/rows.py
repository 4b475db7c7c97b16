"""
The rows that a task has made and not committed, and the folders into which it writes them.

A holding of a queue keeps its rows in memory until they are committed. If the queue is given up,
its rows go, and those of other queues stay.
"""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from mq_client.errors import UsageError

SUCCESS = "_SUCCESS"
"""The empty file with which Spark too marks a complete folder."""


@dataclass(slots=True, eq=False)
class HeldRows:
    """The rows of one holding of a queue. Every offset of the holding is in one of its pieces."""

    is_live: Callable[[], bool]
    """Whether the queue is still held, so that its rows may be committed."""
    committed: int
    """The journal has everything below this offset."""
    handled: int = -1
    """The user's function has done everything below this offset."""
    pieces: list[tuple[int, Sequence[pa.RecordBatch]]] = field(default_factory=list)
    """The rows of each call of the function, with the offset at which the call's range stops."""

    def __post_init__(self) -> None:
        """Begin without rows."""
        self.handled = self.committed

    def add(self, begin: int, stop: int, rows: Sequence[pa.RecordBatch]) -> bool:
        """Add the rows of a range. Return False, and add nothing, unless it begins at the end."""
        if begin != self.handled:
            return False
        self.pieces.append((stop, rows))
        self.handled = stop
        return True

    @property
    def bytes(self) -> int:
        """The size of the rows that are not committed."""
        return sum(batch.nbytes for batch in self.list_batches())

    def list_batches(self) -> list[pa.RecordBatch]:
        """List all rows that are not committed."""
        return [batch for _, rows in self.pieces for batch in rows if batch.num_rows]

    def commit(self, stop: int) -> None:
        """Forget the rows below this offset."""
        self.pieces = [piece for piece in self.pieces if piece[0] > stop]
        self.committed = stop


@dataclass(frozen=True, slots=True)
class FileFormat:
    """Writes rows as files."""

    name: str
    options: Mapping[str, str]

    def check(self) -> None:
        """Raise a `UsageError` if a flow cannot write this."""
        if self.name not in _WRITERS:
            raise UsageError(
                f"sink.format {self.name}: engine Flow writes {', '.join(sorted(_WRITERS))}; for "
                "other formats set engine to Batch"
            )
        if self.options:
            raise UsageError(
                f"sink.options: engine Flow has no options for {self.name}; set engine to Batch"
            )

    def write(self, folder: Path, batches: Sequence[pa.RecordBatch]) -> None:
        """Write a folder, so that it is still there after a power failure."""
        shutil.rmtree(folder, ignore_errors=True)  # of an attempt that has failed
        folder.mkdir(parents=True)
        file = folder / f"part-0.{self.name}"
        _WRITERS[self.name](file, batches)
        (folder / SUCCESS).touch()
        for each in (file, folder):
            _sync(each)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _write_json(file: Path, batches: Sequence[pa.RecordBatch]) -> None:
    encoder = msgspec.json.Encoder()
    with file.open("wb") as out:
        for batch in batches:
            out.write(encoder.encode_lines(_drop_nulls(batch.to_pylist())))


def _drop_nulls(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out fields without a value, as Spark does."""
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _make_table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables, promote_options="default")


def _write_parquet(file: Path, batches: Sequence[pa.RecordBatch]) -> None:
    pyarrow.parquet.write_table(_make_table(batches), file)


def _write_csv(file: Path, batches: Sequence[pa.RecordBatch]) -> None:
    pyarrow.csv.write_csv(_make_table(batches), file)


_WRITERS = {"json": _write_json, "parquet": _write_parquet, "csv": _write_csv}
