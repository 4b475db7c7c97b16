"""
The task's side of its connection to the driver.

When the connection ends, the task opens a new one. Then it repeats each call that still waits for
an answer. The driver recognises a commit that it has seen before.
"""

import asyncio
import contextlib
import itertools
import logging
import secrets
from collections.abc import Callable

import msgspec

from contract.following import UNREADABLE, Asked, MemberAnswer, MemberRequest
from follower.asks import NoAnswerError, RefusedError
from follower.pauses import make_pauses
from follower.queues import write_queues
from mq_client.values import MessageQueue
from spark_jobs.pipeline.flow import wire

log = logging.getLogger("evenkeel.job")
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5
CONNECT_SECONDS = 5.0
Answer = wire.Located | wire.Settled


class DriverPlace(msgspec.Struct, frozen=True):
    """Where the driver of a flow listens."""

    host: str
    port: int
    secret: str


class DriverLink:
    """Carries the requests of one task. `follower.running` uses this link as its coordinator."""

    def __init__(
        self, place: DriverPlace, slot: str, executor: str | None, stop: Callable[[], None]
    ) -> None:
        """Connect to nothing yet. `stop` is called when the driver says that the task must end."""
        self.url = f"the driver at {place.host}:{place.port}"
        self.group = "of this job"
        self.member = slot
        self._place = place
        self._hello = wire.TaskHello(place.secret, slot, executor)
        self._stop = stop
        self._writer: asyncio.StreamWriter | None = None
        self._is_connected = asyncio.Event()
        # The answer to a task that has ended may reach the next task of the same slot. So the calls
        # of different tasks have different numbers.
        self._numbers = itertools.count(secrets.randbits(48))
        self._untold: dict[MessageQueue, wire.TaskTrouble] = {}
        """By queue: the last trouble that could not be sent, because there was no connection."""
        self._asks: dict[int, asyncio.Future[MemberAnswer]] = {}
        self._calls: dict[int, tuple[wire.FromTask, asyncio.Future[Answer]]] = {}
        """
        Calls that wait for an answer. A new connection repeats them in the same order: if the task
        gives up a queue and gets it again, the driver must receive the commit of the queue before
        the question where the queue begins.
        """

    async def run(self) -> None:
        """Keep a connection to the driver until this coroutine is cancelled."""
        pauses = make_pauses(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    reader, writer = await asyncio.open_connection(
                        self._place.host, self._place.port, limit=wire.MOST_LINE_BYTES
                    )
            except (OSError, TimeoutError) as error:
                log.warning("%s cannot be reached: %s", self.url, error)
                await asyncio.sleep(next(pauses))
                continue
            pauses = make_pauses(FIRST_PAUSE, LONGEST_PAUSE)
            try:
                await self._talk(reader, writer)
            finally:
                self._writer = None
                self._is_connected.clear()
                writer.close()
            await asyncio.sleep(next(pauses))

    async def ask(
        self, asked: Asked[MessageQueue], wait_seconds: float, seconds: float, *, pops: bool = False
    ) -> MemberAnswer:
        """Send a heartbeat, and wait at most `seconds` for its answer."""
        answer: asyncio.Future[MemberAnswer] = asyncio.get_running_loop().create_future()
        self._asks[asked.number] = answer
        request = MemberRequest(
            asked.session, asked.number, asked.revision, write_queues(asked.holds), wait_seconds,
            pops=pops,
        )  # fmt: skip
        try:
            async with asyncio.timeout(seconds):
                await self._is_connected.wait()
                self._send(wire.TaskAsk(request))
                return await answer
        except (OSError, TimeoutError) as error:
            raise NoAnswerError(f"{self.url} does not answer: {error!r}") from error
        finally:
            self._asks.pop(asked.number, None)

    async def leave(self, session: str) -> None:
        """End the session."""
        with contextlib.suppress(OSError):
            self._send(wire.TaskLeave(session))
            assert self._writer is not None
            await self._writer.drain()

    async def locate(self, queue: MessageQueue) -> wire.Located:
        """Ask where reading a queue begins."""
        found = await self._call(lambda call: wire.TaskLocate(call, queue))
        assert isinstance(found, wire.Located)
        return found

    async def commit(self, make: Callable[[int], wire.TaskCommit]) -> bool:
        """Send a commit, which `make` makes from a call number. Return whether it is accepted."""
        found = await self._call(make)
        assert isinstance(found, wire.Settled)
        return found.is_accepted

    def report(
        self,
        queue: MessageQueue,
        offset: int,
        text: str,
        consequence: wire.Consequence = wire.Consequence.QUEUE_WAITS,
    ) -> None:
        """Tell the driver what goes wrong. If there is no connection, use the next connection."""
        trouble = wire.TaskTrouble(queue, offset, text, consequence)
        try:
            self._send(trouble)
        except OSError:
            self._untold[queue] = trouble

    async def _call(self, make: Callable[[int], wire.FromTask]) -> Answer:
        call = next(self._numbers)
        message = make(call)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._calls[call] = message, answer
        try:
            with contextlib.suppress(OSError):  # the next connection sends it again
                self._send(message)
            return await answer
        finally:
            del self._calls[call]

    def _send(self, message: wire.FromTask) -> None:
        if self._writer is None or self._writer.is_closing():
            raise ConnectionError("not connected")
        self._writer.write(wire.write(message))

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._send(self._hello)
        for message, _ in self._calls.values():
            self._send(message)
        for trouble in self._untold.values():
            self._send(trouble)
        self._untold.clear()
        self._is_connected.set()
        with contextlib.suppress(OSError, ValueError, *UNREADABLE):
            while line := await reader.readline():
                self._hear(wire.read_from_driver(line))

    def _hear(self, message: wire.FromDriver) -> None:
        match message:
            case wire.AskGranted(number=number, answer=answer):
                if number in self._asks and not self._asks[number].done():
                    self._asks[number].set_result(answer)
            case wire.AskRefused(number=number, refusal=refusal):
                if number in self._asks and not self._asks[number].done():
                    self._asks[number].set_exception(RefusedError(409, refusal))
            case wire.Located() | wire.Settled():
                self._settle(message)
            case wire.Stop():
                self._stop()

    def _settle(self, answer: Answer) -> None:
        if answer.call in self._calls and not self._calls[answer.call][1].done():
            self._calls[answer.call][1].set_result(answer)
