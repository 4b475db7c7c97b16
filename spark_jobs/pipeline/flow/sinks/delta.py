"""
A sink of Delta Lake: the positions of the queues are in the same commits as their rows.

Delta keeps the newest version of each application for such positions, and refuses a commit if
another one has moved an application of it meanwhile. Here each queue is an application. A task
compares the positions with its own before it writes, so of all writes that begin at the same
position only one is committed, whoever makes it, and when.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from follower.positions import MovedOnError, Step
from mq_client.errors import UsageError
from mq_client.values import MessageQueue
from spark_jobs.pipeline.flow.rows import make_table
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, ReadPosition, RowsRefusedError

FORMAT = "delta"
_CAST_ERROR = "Cast error"
"""With this begins the text of a plain `Exception`, if a value does not fit its column."""


@dataclass(frozen=True, slots=True)
class DeltaSink:
    """The driver's side."""

    path: str
    options: Mapping[str, str] = field(repr=False)
    """For the store, such as keys."""
    has_positions: bool
    """Dead letters have none: they are written before the rows whose commit decides."""

    @property
    def folders(self) -> SinkFolders | None:
        """The driver moves nothing."""
        return None

    def open(self) -> "DeltaWriter":
        """Begin to write, in a task."""
        return DeltaWriter(self)


class DeltaWriter:
    """A task's side."""

    def __init__(self, sink: DeltaSink) -> None:
        """Open nothing yet."""
        self._sink = sink

    @property
    def positions(self) -> ReadPosition | None:
        """They are in the table's log."""
        return self._read_position if self._sink.has_positions else None

    def write(self, delivery: Delivery, rows: Sequence[pa.RecordBatch]) -> str:
        """Append rows and move the positions, or do nothing of it. The table may be a new one."""
        from deltalake import exceptions

        steps = delivery.steps if self._sink.has_positions else ()
        try:
            self._append(steps, rows)
        except exceptions.CommitFailedError:
            self._check(self._find_table(), steps)
            raise  # something else was changed, such as the columns: try again
        except (exceptions.SchemaMismatchError, pa.ArrowException, TypeError) as error:
            raise RowsRefusedError(f"table {self._sink.path}: {error}") from error
        except Exception as error:
            if not str(error).startswith(_CAST_ERROR):
                raise
            raise RowsRefusedError(f"table {self._sink.path}: {error}") from error
        return ""

    def close(self) -> None:
        """Nothing is open."""

    def _append(self, steps: Sequence[Step], rows: Sequence[pa.RecordBatch]) -> None:
        from deltalake import CommitProperties, Transaction, write_deltalake

        added = make_table(rows) if rows else None
        table = self._find_table()
        if table is None and added is not None:
            table = self._create(added.schema)
        if table is None or (added is None and not steps):
            return
        self._check(table, steps)
        if added is None:
            added = pa.table({})
        added = _add_missing(added, pa.schema(table.schema().to_arrow()))
        moved = [Transaction(_name(step.group, step.queue), step.end) for step in steps]
        # Only a commit that is based on the table as it was checked can conflict with others.
        write_deltalake(
            table,
            added,
            mode="append",
            commit_properties=CommitProperties(app_transactions=moved),
        )

    def _create(self, schema: pa.Schema) -> Any:
        """Create an empty table, unless another task does it now."""
        from deltalake import DeltaTable

        DeltaTable.create(
            self._sink.path, schema, mode="ignore", storage_options=dict(self._sink.options)
        )
        return self._find_table()

    def _check(self, table: Any, steps: Sequence[Step]) -> None:
        if table is None:
            return
        for step in steps:
            found = table.transaction_version(_name(step.group, step.queue))
            if found != step.begin:
                raise MovedOnError(f"the position of {step.queue} is {found}, not {step.begin}")

    def _read_position(self, group: str, queue: MessageQueue) -> int | None:
        table = self._find_table()
        found: int | None = table and table.transaction_version(_name(group, queue))
        return found

    def _find_table(self) -> Any:
        from deltalake import DeltaTable, exceptions

        try:
            return DeltaTable(self._sink.path, storage_options=dict(self._sink.options))
        except exceptions.TableNotFoundError:
            return None


def _add_missing(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Add the columns that the rows do not have, as nulls."""
    for kind in schema:
        if kind.name not in rows.column_names:
            rows = rows.append_column(kind, pa.nulls(rows.num_rows, kind.type))
    return rows


def check_installed() -> None:
    """Raise a `UsageError` if the library is missing."""
    if importlib.util.find_spec("deltalake") is None:
        raise UsageError(
            "format delta needs the Python package deltalake in the image of driver and executors: "
            "see docs/operating/images.md"
        )


def _name(group: str, queue: MessageQueue) -> str:
    return f"evenkeel/{group}/{queue.topic}/{queue.broker}/{queue.id}"
