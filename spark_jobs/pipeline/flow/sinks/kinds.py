"""The interfaces of sinks: the driver's side, and a task's side."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import pyarrow as pa

from follower.positions import Step
from mq_client.values import MessageQueue
from spark_jobs.pipeline.checkpoint.journal import Pending
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders

ReadPosition = Callable[[str, MessageQueue], int | None]
"""Returns the offset at which a group's queue begins; None if the sink does not know it."""


class RowsRefusedError(Exception):
    """The sink refuses these rows. It would refuse them again, but not other rows."""


@contextlib.contextmanager
def refuse_rows(where: str = "") -> Iterator[None]:
    """Turn errors of Arrow, and Python's errors about values, into a `RowsRefusedError`."""
    try:
        yield
    except MemoryError:  # Arrow's is an ArrowException too, but rows did not cause it
        raise
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise RowsRefusedError(f"{where}{error}") from error


@dataclass(frozen=True, slots=True)
class Delivery:
    """The commit to which rows belong."""

    session: str
    number: int
    """The number of the commit in its session."""
    steps: Sequence[Step]
    """From where to where the rows move the position of each queue."""


@dataclass(frozen=True, slots=True)
class Written:
    """The folders that the driver must move; empty if there are none."""

    rows: str = ""
    dead: str = ""

    @property
    def folders(self) -> list[str]:
        """List the folders, without empty names."""
        return [each for each in (self.rows, self.dead) if each]


class SinkWriter(Protocol):
    """A task's side of one sink. Only one thread uses it at a time."""

    @property
    def positions(self) -> ReadPosition | None:
        """The function that reads a position; None if the sink has no positions."""

    def write(self, delivery: Delivery, rows: Sequence[pa.RecordBatch]) -> str:
        """Write rows. Return the folder that the driver must move; empty if there is none."""

    def close(self) -> None:
        """Free what `write` has opened, at the end of the task."""


class FlowSink(Protocol):
    """The driver's side of one sink. Spark sends it to the tasks."""

    @property
    def folders(self) -> SinkFolders | None:
        """The folders of the sink; None if it does not write files."""

    @property
    def has_positions(self) -> bool:
        """Whether the writers of the sink have positions."""

    def open(self) -> SinkWriter:
        """Begin to write, in a task."""


class JournaledSink:
    """Both sides of a sink that has nothing to close, and whose positions are in the journal."""

    __slots__ = ()

    @property
    def has_positions(self) -> bool:
        """False: the journal has the positions."""
        return False

    @property
    def positions(self) -> ReadPosition | None:
        """None: the journal has the positions."""
        return None

    def open(self) -> Self:
        """Begin to write, in a task."""
        return self

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class SinkWriters(Protocol):
    """A task's side of all sinks of a job. Only one thread uses it at a time."""

    @property
    def positions(self) -> ReadPosition | None:
        """The function that reads a position; None if no sink has positions."""

    def write(
        self, delivery: Delivery, rows: Sequence[pa.RecordBatch], dead: Sequence[pa.RecordBatch]
    ) -> Written:
        """Write rows and dead letters."""

    def close(self) -> None:
        """Free what `write` has opened, at the end of the task."""


class FlowSinks(Protocol):
    """The driver's side of all sinks of a job."""

    @property
    def takes_dead_letters(self) -> bool:
        """Whether the job has dead letters. If not, a message that is given up stops its queue."""

    def open(self) -> SinkWriters:
        """Begin to write, in a task."""

    def plan_moves(self, written: Written, batch: int) -> list[Pending]:
        """Plan where a commit's folders become visible. Both folders get the same number."""

    @property
    def folders(self) -> list[SinkFolders]:
        """The folders of all sinks that write files."""
