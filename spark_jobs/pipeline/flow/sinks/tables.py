"""
A sink of tables that consist of files. A commit has rows, and the positions of their queues.

Such a table keeps its versions, and each commit is based on one version. A task checks that the
positions in a version are those at which its own rows begin, and appends to that version. If a
conflicting commit came first, the table refuses the task's commit, and the task checks again. So of
all writes that begin at the same position, only one is committed. This holds for writes of all
tasks, at any time.
"""

import itertools
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from follower.pauses import make_pauses
from follower.positions import MovedOnError, Step
from mq_client.values import MessageQueue
from spark_jobs.pipeline.flow.rows import make_table
from spark_jobs.pipeline.flow.sinks.fitting import fit, plan_columns
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.kinds import (
    Delivery,
    ReadPosition,
    RowsRefusedError,
    refuse_rows,
)
from spark_jobs.schema import make_error_rows

ATTEMPTS = 10
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Pauses after an attempt to commit, if another task's commit came first."""


class TableConflictError(Exception):
    """Another commit came first."""


class TableVersion(Protocol):
    """A table as it was at one moment."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""

    @property
    def computed(self) -> Collection[str]:
        """The columns that the table computes if rows lack them."""

    def find_position(self, name: str) -> int | None:
        """Find a position by its name."""

    def append(self, rows: pa.Table, moved: Mapping[str, int]) -> None:
        """
        Commit rows and positions together.

        Raise a `TableConflictError` if the table has changed so that the commit could be wrong.
        """


class TableStore(Protocol):
    """The place of a table, as a task uses it."""

    def find(self) -> TableVersion | None:
        """Return the newest version of the table, or None if there is no table."""

    def create(self, schema: pa.Schema) -> TableVersion | None:
        """Create an empty table, unless another task does it now; return its newest version."""

    def close(self) -> None:
        """Free what is open."""


class TablePlace(Protocol):
    """The place of a table. Spark sends this object to the tasks."""

    @property
    def name(self) -> str:
        """Name the table for people."""

    def open(self) -> TableStore:
        """Begin to use the table, in a task."""


@dataclass(frozen=True, slots=True)
class TableSink:
    """The driver's side."""

    place: TablePlace
    has_positions: bool
    """False for dead letters: only the rows, which are written later, move positions."""

    @property
    def folders(self) -> SinkFolders | None:
        """None: the driver moves no folders."""
        return None

    def open(self) -> "TableWriter":
        """Begin to write, in a task."""
        return TableWriter(self)


class TableWriter:
    """A task's side."""

    def __init__(self, sink: TableSink) -> None:
        """Write nothing yet."""
        self._name = sink.place.name
        self._has_positions = sink.has_positions
        self._store = sink.place.open()

    @property
    def positions(self) -> ReadPosition | None:
        """The function that reads a position from the table."""
        return self._read_position if self._has_positions else None

    def write(self, delivery: Delivery, rows: Sequence[pa.RecordBatch]) -> str:
        """Append rows and move the positions, or do neither. Create the table if it is missing."""
        steps = delivery.steps if self._has_positions else ()
        for pause in itertools.islice(make_pauses(FIRST_PAUSE, LONGEST_PAUSE), ATTEMPTS):
            try:
                if self._append(steps, rows):
                    return ""
            except RowsRefusedError as error:
                raise RowsRefusedError(f"table {self._name}: {error}") from error
            time.sleep(pause)
        raise TableConflictError(f"table {self._name}: others commit all the time")

    def close(self) -> None:
        """Free what is open."""
        self._store.close()

    def _append(self, steps: Sequence[Step], rows: Sequence[pa.RecordBatch]) -> bool:
        """Try to commit once. Return False if another commit came first."""
        added = None
        if rows:
            with refuse_rows():
                added = make_table(rows)
        table = self._store.find()
        if table is None and added is not None:
            table = self._create(added.schema)
        if table is None or (added is None and not steps):
            return True
        for step in steps:
            found = table.find_position(name_position(step.group, step.queue))
            if found != step.begin:
                raise MovedOnError(f"the position of {step.queue} is {found}, not {step.begin}")
        schema = table.schema
        moved = {name_position(step.group, step.queue): step.end for step in steps}
        try:
            if added is None:
                table.append(schema.empty_table(), moved)
            else:
                table.append(fit(added, schema, table.computed), moved)
        except TableConflictError:
            return False
        return True

    def _create(self, columns: pa.Schema) -> TableVersion | None:
        """Create the table. A table of dead letters also gets the columns of given-up messages."""
        if not self._has_positions:
            letters = make_error_rows((), include_properties=True).schema
            missing = [each for each in letters if each.name not in columns.names]
            columns = pa.schema([*columns, *missing])
        try:
            planned = plan_columns(columns)
        except ValueError as error:
            raise ValueError(
                f"table {self._name} does not exist, and cannot be created: {error}. Create it "
                "yourself, or wait for such a row"
            ) from error
        return self._store.create(planned)

    def _read_position(self, group: str, queue: MessageQueue) -> int | None:
        table = self._store.find()
        return None if table is None else table.find_position(name_position(group, queue))


def name_position(group: str, queue: MessageQueue) -> str:
    """Name the position of a queue in a table."""
    return f"evenkeel/{group}/{queue.topic}/{queue.broker}/{queue.id}"
