"""
The rows that a task has made, but not committed yet.

The task keeps the rows of each queue in memory until they are committed. If the task gives up a
queue, the rows of this queue are dropped, and the rows of other queues stay.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from follower.positions import MovedOnError
from mq_client.values import MessageQueue
from spark_jobs.schema import ERROR_COLUMN


@dataclass(frozen=True, slots=True)
class HandledPiece:
    """The rows of one call of the function, or of one message that was given up."""

    stop: int
    """The offset at which the range of the piece stops."""
    rows: Sequence[pa.RecordBatch]
    dead: Sequence[pa.RecordBatch]
    bytes: int
    """The size of the rows, stored here because Arrow counts it anew each time, which is slow."""
    made_at: float = field(default_factory=time.monotonic)


@dataclass(slots=True, eq=False)
class HeldRows:
    """The rows of a queue. The pieces cover all offsets from `committed` to `handled`."""

    is_live: Callable[[], bool]
    """Returns whether the task still holds the queue, so that it may commit the rows."""
    committed: int
    """The journal has everything below this offset."""
    stored: int | None
    """
    The position in the sink; None if the sink has no position of the queue yet.

    If the sink does not keep positions, this is the same as `committed`.
    """
    handled: int = -1
    """The user's function has done everything below this offset."""
    pieces: list[HandledPiece] = field(default_factory=list)
    """The pieces that are handled, but not committed yet, in the order of their offsets."""
    is_outdated: bool = False
    """Whether the rows were dropped. Then the task finds the queue's position again."""

    def __post_init__(self) -> None:
        """Begin without rows."""
        self.handled = self.committed

    def add(
        self, begin: int, stop: int, rows: Sequence[pa.RecordBatch],
        dead: Sequence[pa.RecordBatch] = (),
    ) -> bool:  # fmt: skip
        """Add the rows of a range. Return False if the range does not begin at `handled`."""
        if begin != self.handled or self.is_outdated:
            return False
        size = sum(batch.nbytes for batch in (*rows, *dead))
        self.pieces.append(HandledPiece(stop, rows, dead, size))
        self.handled = stop
        return True

    @property
    def is_committable(self) -> bool:
        """Whether the task has something to commit for the queue, and may commit it."""
        return self.is_live() and not self.is_outdated and self.handled > self.committed

    def check(self, queue: MessageQueue) -> None:
        """Raise a `MovedOnError` if the rows were dropped."""
        if self.is_outdated:
            raise MovedOnError(f"the rows of {queue} from offset {self.committed} on are dropped")

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
        self.committed = self.stored = stop

    def drop(self) -> None:
        """Drop the rows. The queue begins anew, so that their messages are handled again."""
        self.is_outdated = True
        self.pieces.clear()

    def take_back(self) -> None:
        """Drop the rows that are not committed, so that their messages are handled again."""
        self.pieces.clear()
        self.handled = self.committed


def divide(batches: Iterable[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Divide rows into good rows, without the error column, and rows with an error."""
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


def join_neighbours(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Join neighbours with the same columns: each write takes long, and most batches are small."""
    groups = itertools.groupby(batches, key=lambda batch: batch.schema)
    return [pa.concat_batches(group) for _, group in groups]


def make_table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Join batches into a table. If a batch lacks a column, its rows have null there."""
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(tables, promote_options="default")
