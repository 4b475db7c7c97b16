"""
The rows of a task: the user's function makes them, sinks take them, and the driver commits them.

Every `commit_seconds`, the task writes the rows of all queues together, and commits them together.
If a sink refuses rows, the task drops the rows of this commit, and handles their messages again.
Until the queues are past these rows, the task commits the rows of each call of the function
separately. So it finds the refused message, and sends it to the dead letters.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from follower.pauses import make_pauses
from follower.pieces import DeadLetter, Messages
from follower.positions import MovedOnError, Step
from follower.work import Work
from mq_client.values import MessageQueue
from spark_jobs import schema
from spark_jobs.options import Reading
from spark_jobs.pipeline.flow.calls import UsersCalls
from spark_jobs.pipeline.flow.link import DriverLink
from spark_jobs.pipeline.flow.rows import HeldRows
from spark_jobs.pipeline.flow.sinks.kinds import FlowSinks, ReadPosition, RowsRefusedError
from spark_jobs.pipeline.flow.task_sinks import CommitRefusedError, RowsOfCommit, TaskSinks
from spark_jobs.planning import Range

log = logging.getLogger("evenkeel.job")
MOST_BYTES = 64 * 1024 * 1024
"""If the uncommitted rows exceed this size, the task commits at once."""
ROOM_SECONDS = 0.5
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Pauses between attempts to write rows."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The rows of one queue that go into a commit."""

    queue: MessageQueue
    held: HeldRows
    stop: int
    since: float
    """When the first of these rows were made, by this process's clock."""
    rows: Sequence[pa.RecordBatch]
    dead: Sequence[pa.RecordBatch]


class TaskRows:
    """
    The rows of all queues of a task.

    `follower.handling` uses it as a handler that keeps positions. `__call__` runs in the handler's
    threads, and everything else runs on the event loop.
    """

    def __init__(
        self, link: DriverLink, calls: UsersCalls, reading: Reading, sinks: FlowSinks,
        session: Callable[[], str],
    ) -> None:  # fmt: skip
        """Begin without queues. `session` returns the id of the task's current session."""
        self._link = link
        self._calls = calls
        self._includes_properties = reading.include_properties
        self._group = reading.group
        self._sinks = TaskSinks(link, sinks, session)
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._held: dict[MessageQueue, HeldRows] = {}
        self._room = threading.Condition()
        """Guards `_held`. Threads wait here while there are too many rows."""
        self.lost_below: dict[MessageQueue, int] = {}
        """By queue: lost messages with a lower offset are skipped."""
        self._stored: dict[MessageQueue, int | None] = {}
        """By queue: the position in the sink when the task began to hold the queue."""
        self._careful_below: dict[MessageQueue, int] = {}
        """By queue: the sink refused rows below this offset, so each call is committed alone."""
        self._one_by_one = asyncio.Lock()
        """Held during a commit: the driver expects the commits of a session in their order."""
        self._committing: asyncio.Task[None] | None = None

    async def read_position(self, group: str, queue: MessageQueue) -> int:
        """Ask the driver where a queue begins. Commit what the sink has after that offset."""
        found = await self._link.locate(queue)
        self.lost_below[queue] = found.lost_below
        read = self._sinks.positions
        if read is None:
            self._stored[queue] = found.offset
            return found.offset
        # The task may lose the queue at any time, but no thread or commit can be interrupted.
        work = self._loop.create_task(self._read_position(group, queue, found.offset, read))
        return await asyncio.shield(work)

    async def _read_position(
        self, group: str, queue: MessageQueue, begin: int, read: ReadPosition
    ) -> int:
        async with self._one_by_one:
            session = self._session()
            stored = self._stored[queue] = await self._sinks.run(read, group, queue)
            if stored is None or stored <= begin:
                return begin
            await self._sinks.commit_found(session, Range(queue, begin, stored))
            log.info("%s: the sink has everything below offset %d already", queue, stored)
            return stored

    def hold(self, work: Work) -> None:
        """Begin to hold a queue, without rows."""
        assert work.stored is not None
        with self._room:
            stored = self._stored[work.queue]
            self._held[work.queue] = HeldRows(work.may_act, work.stored, stored)

    def __call__(self, messages: Messages, step: Step) -> None:
        """Run the user's function, and keep its rows."""
        with self._room:
            held = self._held[step.queue]  # if the queue begins anew, a late call keeps this
        rows: list[pa.RecordBatch] = []
        if len(messages):
            is_arrow = isinstance(messages, pa.RecordBatch)
            make = schema.make_rows if is_arrow else schema.make_few_rows
            rows = [make(messages, self._includes_properties)]
            self._sinks.note_delay(rows[0])
            rows = self._calls.call(step.queue, step.begin or 0, rows[0])
        rows, dead = self._sinks.divide(rows)
        if self._is_careful(step.queue, held.committed) and held.pieces:
            self._run_on_loop(self._deliver_or_drop(step.queue, held))
            held.check(step.queue)
        is_careful = self._is_careful(step.queue, held.committed)
        with self._room:
            if step.begin is None or not held.add(step.begin, step.end, rows, dead):
                raise MovedOnError(f"{step.queue} is handled up to offset {held.handled} already")
        if is_careful:
            self._deliver_from_thread(step.queue, held)
        with self._room:
            while sum(each.bytes for each in self._list_live()) > MOST_BYTES:
                self._loop.call_soon_threadsafe(self._begin_commit)
                self._room.wait(ROOM_SECONDS)

    def bury(self, work: Work, letter: DeadLetter) -> None:
        """Keep a given-up message as a dead letter, and continue after the message."""
        row = schema.make_error_rows([(letter.message, letter.trouble)], self._includes_properties)
        with self._room:
            held = self._held[work.queue]
            held.add(held.handled, letter.stop, (), [row])
        work.stored = letter.stop

    async def commit(self, work: Work, offset: int) -> None:
        """
        Commit the rows of all queues, until the rows of this queue are committed up to `offset`.

        A queue may be stuck at a message after offsets that a filter has left out. Then no call has
        covered the offsets before this message, and they are not committed.
        """
        held = self._held[work.queue]
        end = min(offset, held.handled)
        while held.committed < end:
            work.check()
            held.check(work.queue)
            if self._is_careful(work.queue, held.committed):
                await self._deliver_or_drop(work.queue, held)
            else:
                await asyncio.shield(self._begin_commit())

    def _is_careful(self, queue: MessageQueue, offset: int) -> bool:
        return offset < self._careful_below.get(queue, 0)

    def _begin_commit(self) -> "asyncio.Task[None]":
        """Begin a commit, or join the one that is in progress."""
        if self._committing is None or self._committing.done():
            self._committing = self._loop.create_task(self._commit())
        return self._committing

    def _deliver_from_thread(self, queue: MessageQueue, held: HeldRows) -> None:
        """Commit the rows of one queue. If the sink refuses them, handle their messages again."""
        try:
            self._run_on_loop(self._deliver(queue, held))
        except RowsRefusedError:
            with self._room:
                held.take_back()
            raise
        held.check(queue)

    def _run_on_loop(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _deliver_or_drop(self, queue: MessageQueue, held: HeldRows) -> None:
        """Commit earlier dead letters. If the sink refuses them, handle their messages again."""
        try:
            await asyncio.shield(self._loop.create_task(self._deliver(queue, held)))
        except RowsRefusedError as error:
            self._link.report(queue, held.committed, f"dead letters are refused: {error}")
            self._begin_carefully(queue, held)
            raise MovedOnError(str(error)) from error

    def _begin_carefully(self, queue: MessageQueue, held: HeldRows) -> None:
        with self._room:
            below = max(self._careful_below.get(queue, 0), held.handled)
            self._careful_below[queue] = below
            held.drop()
            self._room.notify_all()

    async def _deliver(self, queue: MessageQueue, held: HeldRows) -> None:
        pauses = make_pauses(FIRST_PAUSE, LONGEST_PAUSE)
        while held.is_live() and not held.is_outdated and held.committed < held.handled:
            try:
                await self._commit(queue)
            except RowsRefusedError:
                raise
            except Exception as error:  # noqa: BLE001  # the sink may fail in any way
                log.warning("%s: commit failed, trying again: %s", queue, error)
                await asyncio.sleep(next(pauses))

    async def _commit(self, only: MessageQueue | None = None) -> None:
        """
        Write the rows of all queues, or of only one, and commit them.

        If a position has moved, or the driver refuses the commit, drop the rows, and find the
        positions of their queues again. If the sink refuses rows, also drop them, and then commit
        after each call, so that only the refused messages are held up.
        """
        async with self._one_by_one:
            with self._room:
                cuts = [Cut(queue, each, each.handled, each.pieces[0].made_at, each.list_batches(),
                            each.list_dead())
                        for queue, each in self._held.items()
                        if each.is_committable and self._belongs(queue, each, only)]  # fmt: skip
            if not cuts:
                return
            try:
                await self._write(cuts)
            except (MovedOnError, CommitRefusedError) as error:
                log.warning("%s; the queues of this commit begin anew", error)
                self._drop(cuts)
            except RowsRefusedError as error:
                if only is not None:
                    raise
                log.warning("the sink refuses rows; each call is committed alone now: %s", error)
                for cut in cuts:
                    self._begin_carefully(cut.queue, cut.held)

    def _belongs(self, queue: MessageQueue, held: HeldRows, only: MessageQueue | None) -> bool:
        """Whether a commit includes this queue. The commit is for all queues, or for `only` one."""
        if only is not None:
            return queue == only
        return not self._is_careful(queue, held.committed)

    async def _write(self, cuts: Sequence[Cut]) -> None:
        await self._sinks.commit(
            RowsOfCommit(
                cuts[0].queue,
                cuts[0].held.committed,
                since=min(cut.since for cut in cuts),
                rows=[batch for cut in cuts for batch in cut.rows],
                dead=[batch for cut in cuts for batch in cut.dead],
                steps=[Step(self._group, cut.queue, cut.held.stored, cut.stop) for cut in cuts],
                ranges=[Range(cut.queue, cut.held.committed, cut.stop) for cut in cuts],
            )
        )
        with self._room:
            for cut in cuts:
                cut.held.commit(cut.stop)
            self._room.notify_all()

    def _drop(self, cuts: Sequence[Cut]) -> None:
        with self._room:
            for cut in cuts:
                cut.held.drop()
            self._room.notify_all()

    def close(self) -> None:
        """Close the sinks after a write that is in progress has ended. Do not wait for that."""
        self._sinks.close()

    def _list_live(self) -> list[HeldRows]:
        return [each for each in self._held.values() if each.is_live()]
