"""
A task of a flow: it reads the queues that the driver grants to its slot, and never ends by itself.

It is a follower (`follower.running`) whose coordinator is the driver, and whose positions are in
the driver's journal. The user's function gets Arrow batches in threads. Every `commit_seconds` the
rows of all queues are written into one folder, and committed together.
"""

import asyncio
import logging
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from contract.following import GroupSource
from follower.brokers import GroupBrokers
from follower.core import CommitPace
from follower.handling import Handling
from follower.metrics import Metrics
from follower.options import FollowerOptions, OnFailure
from follower.pieces import DeadLetter, Messages
from follower.positions import MovedOnError, Step
from follower.running import Running
from follower.work import Work
from mq_client.pulling import Batch, BeyondEndError, OffsetGoneError, Position
from mq_client.values import MessageQueue
from spark_jobs import schema
from spark_jobs.options import Reading
from spark_jobs.pipeline.fetching import find_own_executor
from spark_jobs.pipeline.flow.link import DriverLink, DriverPlace
from spark_jobs.pipeline.flow.rows import FlowSinks, HeldRows, divide
from spark_jobs.pipeline.flow.wire import Consequence, TaskCommit
from spark_jobs.planning import Range

Function = Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]
"""
The user's function, as `DataFrame.mapInArrow` has it. A call gets rows of one queue.

It may also be a class without arguments. Each task makes one instance, and calls that.
"""
MOST_BYTES = 64 * 1024 * 1024
"""Rows of this size are committed at once."""
MOST_ROWS = 4096
"""The most messages for one call of the user's function."""
FEW_BYTES = 8 * 1024
THREADS = 4
ATTEMPTS = 3
ROOM_SECONDS = 0.5


class NoDeadLetterError(Exception):
    """The function has found a row wrong, and there is no place for it."""


class CommitRefusedError(Exception):
    """The driver has given this task up, or a queue of the commit is no longer held."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What a commit takes of one holding."""

    queue: MessageQueue
    held: HeldRows
    stop: int
    rows: Sequence[pa.RecordBatch]
    dead: Sequence[pa.RecordBatch]


@dataclass(frozen=True)
class FlowTask:
    """What Spark sends to an executor."""

    place: DriverPlace
    slot: str
    reading: Reading
    sinks: FlowSinks
    function: Function | None
    commit_seconds: float
    """How often rows are committed."""

    def __call__(self, _: Iterable[str]) -> Iterator[None]:
        """Follow until the driver says that the task must end."""
        logging.basicConfig(
            level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
        )
        asyncio.run(self._follow())
        yield from ()

    async def _follow(self) -> None:
        reading = self.reading
        link = DriverLink(self.place, self.slot, find_own_executor(), lambda: running.stop())
        function: Any = self.function
        if isinstance(function, type):
            function = function()
        rows = TaskRows(
            link, function, reading.include_properties, self.sinks, lambda: running.session
        )  # fmt: skip
        options = FollowerOptions(
            batch=MOST_ROWS, threads=THREADS, attempts=ATTEMPTS,
            on_failure=OnFailure.DEAD_LETTER if self.sinks.dead else OnFailure.STOP,
            memory_bytes=reading.cluster.fetch_bytes,
        )  # fmt: skip
        metrics = Metrics()
        handling = Handling(rows, options, metrics, tell_halt=link.report)
        running = Running(
            link, lambda source: FlowBrokers(source, options, reading, rows, link), handling,
            metrics, CommitPace(self.commit_seconds, most=None),
        )  # fmt: skip
        talking = asyncio.create_task(link.run())
        try:
            await running.run()
        finally:
            talking.cancel()
            await asyncio.gather(talking, return_exceptions=True)
            await handling.close()


class TaskRows:
    """
    The rows of all queues of a task.

    `follower.handling` sees it as a handler that keeps positions. `__call__` runs in the handler's
    threads, everything else on the event loop.
    """

    def __init__(
        self, link: DriverLink, function: Function | None, includes_properties: bool,
        sinks: FlowSinks, session: Callable[[], str],
    ) -> None:  # fmt: skip
        """Hold nothing yet. `session` returns the id of the task's session now."""
        self._link = link
        self._function = function
        self._includes_properties = includes_properties
        self._sinks = sinks
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._held: dict[MessageQueue, HeldRows] = {}
        self._room = threading.Condition()
        """Guards `_held`. Threads wait here while there are too many rows."""
        self.lost_below: dict[MessageQueue, int] = {}
        """By queue: lost messages with a lower offset are skipped."""
        self._number = 0
        self._committing: asyncio.Task[None] | None = None

    async def read_position(self, group: str, queue: MessageQueue) -> int:
        """Ask the driver where a queue begins."""
        found = await self._link.locate(queue)
        self.lost_below[queue] = found.lost_below
        return found.offset

    def hold(self, work: Work) -> None:
        """Begin a holding of a queue, without rows."""
        assert work.stored is not None
        with self._room:
            self._held[work.queue] = HeldRows(work.may_act, work.stored)

    def __call__(self, messages: Messages, step: Step) -> None:
        """Run the user's function, and keep its rows."""
        rows: list[pa.RecordBatch] = []
        if len(messages):
            is_arrow = isinstance(messages, pa.RecordBatch)
            make = schema.make_rows if is_arrow else schema.make_few_rows
            rows = [make(messages, self._includes_properties)]
        if rows and self._function is not None:
            rows = list(self._function(iter(rows)))
        rows, dead = divide(rows)
        if dead and self._sinks.dead is None:
            raise NoDeadLetterError(
                f"the function sets {schema.ERROR_COLUMN}, and the job has no deadLetter"
            )
        with self._room:
            held = self._held[step.queue]
            if step.begin is None or not held.add(step.begin, step.end, rows, dead):
                raise MovedOnError(f"{step.queue} is handled up to offset {held.handled} already")
            while sum(each.bytes for each in self._list_live()) > MOST_BYTES:
                self._loop.call_soon_threadsafe(self._begin_commit)
                self._room.wait(ROOM_SECONDS)

    def bury(self, work: Work, letter: DeadLetter) -> None:
        """Keep a message that was given up as a dead letter, and handle the queue behind it."""
        row = schema.make_error_rows([(letter.message, letter.trouble)], self._includes_properties)
        with self._room:
            held = self._held[work.queue]
            held.add(held.handled, letter.stop, (), [row])
        work.stored = letter.stop

    async def commit(self, work: Work, offset: int) -> None:
        """
        Commit the rows of all queues, until those of this one are committed up to `offset`.

        A queue may stand still at a message that follows offsets which a filter has left out. Then
        no call has covered those offsets, and they are not committed.
        """
        held = self._held[work.queue]
        end = min(offset, held.handled)
        while held.committed < end:
            work.check()
            await asyncio.shield(self._begin_commit())

    def _begin_commit(self) -> "asyncio.Task[None]":
        """Begin a commit, or join the one that is in progress."""
        if self._committing is None or self._committing.done():
            self._committing = self._loop.create_task(self._commit())
        return self._committing

    async def _commit(self) -> None:
        with self._room:
            cuts = [Cut(queue, each, each.handled, each.list_batches(), each.list_dead())
                    for queue, each in self._held.items()
                    if each.is_live() and each.handled > each.committed]  # fmt: skip
        if not cuts:
            return
        rows = [batch for cut in cuts for batch in cut.rows]
        dead = [batch for cut in cuts for batch in cut.dead]
        session = self._session()
        self._number += 1
        number, ranges = (
            self._number,
            [Range(cut.queue, cut.held.committed, cut.stop) for cut in cuts],
        )
        folder = await asyncio.to_thread(self._sinks.rows.write, session, number, rows)
        dead_folder = ""
        if self._sinks.dead is not None:
            dead_folder = await asyncio.to_thread(self._sinks.dead.write, session, number, dead)
        count = sum(batch.num_rows for batch in (*rows, *dead))
        size = sum(batch.nbytes for batch in (*rows, *dead))
        is_accepted = await self._link.commit(
            lambda call: TaskCommit(call, session, number, ranges, folder, dead_folder, count, size)
        )
        if not is_accepted:
            for each in filter(None, (folder, dead_folder)):
                await asyncio.to_thread(shutil.rmtree, each, ignore_errors=True)
            raise CommitRefusedError("the driver refuses the commit")
        with self._room:
            for cut in cuts:
                cut.held.commit(cut.stop)
            self._room.notify_all()

    def _list_live(self) -> list[HeldRows]:
        return [each for each in self._held.values() if each.is_live()]


class FlowBrokers(GroupBrokers):
    """The brokers of a task. It commits to the driver instead of to them."""

    def __init__(
        self, source: GroupSource, options: FollowerOptions, reading: Reading, rows: TaskRows,
        link: DriverLink,
    ) -> None:  # fmt: skip
        """Connect to nothing yet."""
        cluster = reading.cluster
        super().__init__(source, options, cluster.find_credentials(), cluster.make_tls_context())
        self._reading = reading
        self._rows = rows
        self._link = link

    async def locate(self, work: Work) -> int:
        """Begin where the journal says, which `TaskRows.read_position` has asked for."""
        assert work.stored is not None
        self._rows.hold(work)
        work.position = Position(
            work.queue, work.stored, wanted=self._reading.wanted, was_read=True
        )  # fmt: skip
        return work.stored

    def wants_columns(self, batch: Batch) -> bool:
        """Decode few messages one by one, because that is faster."""
        return len(batch.body) > FEW_BYTES

    async def pull(self, work: Work, queues: int) -> list[tuple[int, int]]:
        """Pull the next messages. Lost messages end the job, unless the user allows losses."""
        position, may_lose = work.position, not self._reading.fail_on_data_loss
        assert position is not None
        position.allow_gaps = may_lose or position.next < self._rows.lost_below[work.queue]
        try:
            return await super().pull(work, queues)
        except OffsetGoneError as error:
            self._link.report(error.queue, error.asked, str(error), Consequence.JOB_ENDS)
            raise
        except BeyondEndError as error:
            # The journal has the offset from which the queue must turn back. Only a driver that
            # starts may change it.
            consequence = Consequence.JOB_STARTS_AGAIN if may_lose else Consequence.JOB_ENDS
            self._link.report(error.queue, error.asked, str(error), consequence)
            raise

    async def bury(self, work: Work, letter: DeadLetter) -> None:
        """Keep a message as a dead letter."""
        self._rows.bury(work, letter)

    async def commit(self, work: Work, offset: int) -> None:
        """Commit to the driver."""
        await self._rows.commit(work, offset)
