"""
The rows of popped messages, in a job that is balanced by message.

`follower.popping` uses `PoppedRows` as its handler. A call of the handler ends when its rows are
committed, and then the task acknowledges its messages. Meanwhile, it renews their invisible time.
All calls that wait are committed together.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import pyarrow as pa

from follower.pauses import make_pauses
from follower.popping.running import GiveBackError
from mq_client.errors import UnavailableError
from mq_client.messages import StoredMessage
from mq_client.values import MessageQueue
from spark_jobs import schema
from spark_jobs.options import Reading
from spark_jobs.pipeline.flow.calls import UsersCalls
from spark_jobs.pipeline.flow.link import DriverLink
from spark_jobs.pipeline.flow.sinks.kinds import FlowSinks, RowsRefusedError
from spark_jobs.pipeline.flow.task_sinks import CommitRefusedError, RowsOfCommit, TaskSinks

log = logging.getLogger("evenkeel.job")
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Pauses between attempts to write rows."""
LOOKS, LOOK_SECONDS = 40, 0.05
"""
How often to look for the next session after the driver has refused a commit. Until then, it would
refuse more, and their messages would be given back again and again.
"""


@dataclass(frozen=True, slots=True, eq=False)
class WaitingCall:
    """A call whose rows are not committed yet."""

    queue: MessageQueue
    """The queue of the first message."""
    offset: int
    """The offset of the first message."""
    rows: Sequence[pa.RecordBatch]
    dead: Sequence[pa.RecordBatch]
    session: str
    """The session in which the call began. In another one, others may have its messages."""
    made_at: float = field(default_factory=time.monotonic)
    ended: Future[None] = field(default_factory=Future)
    """Set after the commit, or when the rows are refused."""


class PoppedRows:
    """
    The rows of a task that pops.

    `__call__` runs in the handler's threads, and everything else runs on the event loop.
    """

    def __init__(
        self, link: DriverLink, calls: UsersCalls, reading: Reading, sinks: FlowSinks,
        session: Callable[[], str], seconds: float,
    ) -> None:  # fmt: skip
        """Begin without rows. A commit begins `seconds` after the one before it, or later."""
        self._calls = calls
        self._includes_properties = reading.include_properties
        self._sinks = TaskSinks(link, sinks, session)
        self._session = session
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._waiting: list[WaitingCall] = []
        self._has_waiting = asyncio.Event()
        self._is_hurried = asyncio.Event()
        self._is_closed = False

    def __call__(self, messages: Sequence[StoredMessage]) -> None:
        """Run the user's function, and wait until its rows are committed."""
        first, session = messages[0], self._session()
        queue = MessageQueue(first.topic, first.broker, first.queue_id)
        made = schema.make_few_rows(messages, self._includes_properties)
        self._sinks.note_delay(made)
        rows, dead = self._sinks.divide(self._calls.call(queue, first.queue_offset, made))
        call = WaitingCall(queue, first.queue_offset, rows, dead, session)
        self._loop.call_soon_threadsafe(self._add, call)
        call.ended.result()

    async def bury(self, message: StoredMessage, trouble: str) -> None:
        """Write a message to the job's dead letters, and wait until it is committed."""
        row = schema.make_error_rows([(message, trouble)], self._includes_properties)
        queue = MessageQueue(message.topic, message.broker, message.queue_id)
        call = WaitingCall(queue, message.queue_offset, (), [row], self._session())
        self._add(call)
        try:
            await asyncio.wrap_future(call.ended)
        except (RowsRefusedError, GiveBackError) as error:
            raise UnavailableError(str(error)) from error

    def _add(self, call: WaitingCall) -> None:
        self._waiting.append(call)
        self._has_waiting.set()
        if self._is_closed:
            _give_back(self._waiting, "the task ends")

    def hurry(self) -> None:
        """Commit without pauses from now on, because the task is told to end."""
        self._is_hurried.set()

    async def keep_committing(self) -> None:
        """Commit the rows of the calls that wait, until this is cancelled."""
        while True:
            await self._has_waiting.wait()
            begun = self._loop.time()
            self._has_waiting.clear()
            calls, self._waiting = self._waiting, []
            try:
                await self._commit_current(calls)
            finally:
                _give_back(calls, "the task ends")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(begun + self._seconds):
                    await self._is_hurried.wait()

    async def _commit_current(self, calls: Sequence[WaitingCall]) -> None:
        """Commit the rows of these calls, except those that began in an earlier session."""
        session = self._session()
        _give_back([each for each in calls if each.session != session], "the session is over")
        current = [each for each in calls if each.session == session]
        if not current:
            return
        try:
            await self._commit(current)
        except CommitRefusedError as error:
            _give_back(current, str(error))
            for _ in range(LOOKS):
                if self._session() != session:
                    break
                await asyncio.sleep(LOOK_SECONDS)

    async def _commit(self, calls: Sequence[WaitingCall]) -> None:
        """Commit the rows of these calls together. If the sink refuses some, find out which."""
        try:
            await self._write(calls)
        except RowsRefusedError as error:
            if len(calls) == 1:
                _end(calls, error)
                return
            log.warning("the sink refuses rows; each call is committed alone now: %s", error)
            for each in calls:
                await self._commit([each])
        else:
            _end(calls, None)

    async def _write(self, calls: Sequence[WaitingCall]) -> None:
        """Write the rows of these calls. While the sink fails, try again."""
        given = RowsOfCommit(
            calls[0].queue,
            calls[0].offset,
            since=calls[0].made_at,
            rows=[batch for each in calls for batch in each.rows if batch.num_rows],
            dead=[batch for each in calls for batch in each.dead],
        )
        for pause in make_pauses(FIRST_PAUSE, LONGEST_PAUSE):
            try:
                return await self._sinks.commit(given)
            except (RowsRefusedError, CommitRefusedError):
                raise
            except Exception as error:  # noqa: BLE001  # the sink may fail in any way
                log.warning("commit failed, trying again in %g s: %s", pause, error)
                await asyncio.sleep(pause)
        raise AssertionError("pauses have no end")

    def close(self) -> None:
        """Close the sinks, and end the calls that still wait, now or later."""
        self._is_closed = True
        _give_back(self._waiting, "the task ends")
        self._sinks.close()


def _give_back(calls: Sequence[WaitingCall], why: str) -> None:
    """End calls that are not committed, so that their messages come again."""
    _end(calls, GiveBackError(why))


def _end(calls: Sequence[WaitingCall], error: Exception | None) -> None:
    """End the calls that have not ended."""
    for each in calls:
        if each.ended.done():
            continue
        if error is None:
            each.ended.set_result(None)
        else:
            each.ended.set_exception(error)
