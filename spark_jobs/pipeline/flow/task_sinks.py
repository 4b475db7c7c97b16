"""Writes the rows of a task to its sinks, and asks the driver to commit them."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from follower.positions import MovedOnError, Step
from mq_client.values import MessageQueue
from spark_jobs.pipeline.flow.link import DriverLink
from spark_jobs.pipeline.flow.rows import divide
from spark_jobs.pipeline.flow.sinks import folders
from spark_jobs.pipeline.flow.sinks.kinds import (
    Delivery,
    FlowSinks,
    ReadPosition,
    RowsRefusedError,
    Written,
)
from spark_jobs.pipeline.flow.wire import CommitFigures, TaskCommit
from spark_jobs.planning import Range
from spark_jobs.schema import ERROR_COLUMN

Batches = list[pa.RecordBatch]
Value = TypeVar("Value")
SILENT_SECONDS = 60.0
"""If a sink does not answer for this time, the task reports it."""


class NoDeadLetterError(Exception):
    """The function has set an error in a row, and the job has no place for dead letters."""


class CommitRefusedError(Exception):
    """The driver has given up this task, or the task no longer holds a queue of the commit."""


@dataclass(frozen=True, slots=True)
class RowsOfCommit:
    """What goes into a commit."""

    queue: MessageQueue
    """The queue of the first message."""
    offset: int
    """The offset of the first message."""
    since: float
    """When the first of these rows were made, by this process's clock."""
    rows: Sequence[pa.RecordBatch]
    dead: Sequence[pa.RecordBatch]
    steps: Sequence[Step] = ()
    """How the commit moves the positions of queues. Popped messages have none."""
    ranges: Sequence[Range] = ()
    """The offsets that are committed. Popped messages have none."""


class TaskSinks:
    """
    The sinks of a task.

    `divide` and `note_delay` run in any thread, and the rest on the event loop. Another thread
    writes, so heartbeats never wait for a sink.
    """

    def __init__(self, link: DriverLink, sinks: FlowSinks, session: Callable[[], str]) -> None:
        """Open the sinks. `session` returns the id of the task's current session."""
        self._link = link
        self._session = session
        self._sinks, self._folders = sinks.open(), sinks.folders
        self._takes_dead_letters = sinks.takes_dead_letters
        self._thread = ThreadPoolExecutor(1, "sink")
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self._is_failing = False
        """Whether the last attempt to write rows has failed."""
        self._delay = 0.0

    @property
    def positions(self) -> ReadPosition | None:
        """The function that reads a position; None if no sink has positions."""
        return self._sinks.positions

    def divide(self, made: Iterable[pa.RecordBatch]) -> tuple[Batches, Batches]:
        """Divide what the function has made into rows and dead letters."""
        rows, dead = divide(made)
        if dead and not self._takes_dead_letters:
            raise NoDeadLetterError(
                f"the function sets {ERROR_COLUMN}, and the job has no deadLetter"
            )
        return rows, dead

    def note_delay(self, rows: pa.RecordBatch) -> None:
        """Note how late these rows are, for the next commit."""
        oldest = pc.min(rows["store_timestamp"]).value  # in microseconds
        if oldest is not None:
            self._delay = max(self._delay, time.time() - oldest / 1e6)

    async def run(self, work: Callable[..., Value], *arguments: object) -> Value:
        """Run something in the thread that writes."""
        return await self._loop.run_in_executor(self._thread, work, *arguments)

    async def commit(self, given: RowsOfCommit) -> None:
        """
        Write rows, and commit them. Do so one after the other: the driver expects this order.

        Raises a `RowsRefusedError`, a `MovedOnError` or a `CommitRefusedError` if trying again
        would not help. After any other error, the sink may take the same rows later.
        """
        session = self._session()
        self._number += 1
        delivery = Delivery(session, self._number, given.steps)
        try:
            writing = self._loop.create_task(
                self.run(self._sinks.write, delivery, given.rows, given.dead)
            )
            await asyncio.wait([writing], timeout=SILENT_SECONDS)
            if not writing.done():
                text = f"rows wait, because their sink has not answered for {SILENT_SECONDS:g} s"
                self._link.report(given.queue, given.offset, text)
            written = await writing
        except (MovedOnError, RowsRefusedError):
            raise
        except Exception as error:
            if not self._is_failing:
                text = str(error).strip().partition("\n")[0] or type(error).__name__
                text = f"rows wait, because they cannot be written: {text}"
                self._link.report(given.queue, given.offset, text)
            self._is_failing = True
            raise
        self._is_failing = False
        batches = (*given.rows, *given.dead)
        figures = CommitFigures(
            rows=sum(batch.num_rows for batch in batches),
            bytes=sum(batch.nbytes for batch in batches),
            age=time.monotonic() - given.since,
            delay=self._delay,
        )
        self._delay = 0.0
        await self._settle(session, given.ranges, written, figures)

    async def commit_found(self, session: str, found: Range) -> None:
        """Commit what the sink has already. Do so one after the other too."""
        self._number += 1
        await self._settle(session, [found], Written(), CommitFigures())

    async def _settle(
        self, session: str, ranges: Sequence[Range], written: Written, figures: CommitFigures
    ) -> None:
        """Ask the driver to commit ranges whose rows are written."""
        number = self._number
        is_accepted = await self._link.commit(
            lambda call: TaskCommit(
                call, session, number, ranges, written.rows, written.dead, figures
            )
        )
        if not is_accepted:
            for each in written.folders:
                await asyncio.to_thread(folders.drop, each, self._folders)
            raise CommitRefusedError("the driver refuses the commit")

    def close(self) -> None:
        """Close the sinks after a write that is in progress has ended. Do not wait for that."""
        self._thread.submit(self._sinks.close)
        self._thread.shutdown(wait=False)
