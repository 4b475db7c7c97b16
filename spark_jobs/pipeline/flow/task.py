"""
A task of a flow: it reads the queues that the driver grants to its slot, and never ends by itself.

A task is a follower (`follower.running`). Its coordinator is the driver, and its positions are in
the driver's journal. Its handler is `TaskRows`, which calls the user's function in threads. If the
group is balanced by message, the task pops, and its handler is `PoppedRows`.
"""

import asyncio
import gc
import logging
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from contract.following import GroupSource, PopTerms
from follower.brokers import TIMES, GroupBrokers
from follower.handling import Handling
from follower.metrics import Metrics
from follower.options import FollowerOptions, OnFailure
from follower.pieces import DeadLetter
from follower.popping.running import Popping
from follower.running import Running
from follower.work import Work
from mq_client.aio import Client
from mq_client.pulling import Batch, BeyondEndError, OffsetGoneError, Position
from spark_jobs.options import Reading
from spark_jobs.pipeline.fetching import find_own_executor
from spark_jobs.pipeline.flow.calls import ENDLESS_SECONDS, LONG_SECONDS, Function, UsersCalls
from spark_jobs.pipeline.flow.commits import make_pace
from spark_jobs.pipeline.flow.link import DriverLink, DriverPlace
from spark_jobs.pipeline.flow.popped_rows import PoppedRows
from spark_jobs.pipeline.flow.sinks.kinds import FlowSinks
from spark_jobs.pipeline.flow.task_rows import TaskRows
from spark_jobs.pipeline.flow.wire import Consequence

MOST_ROWS = 4096
"""Maximum number of messages in one call of the user's function."""
FEW_BYTES = 8 * 1024
THREADS = 64
"""There are many, because most of them wait: for `UsersCalls`, for memory, or in the function."""
POPPING_THREADS = 256
"""Even more, because each call also waits for its commit."""
ATTEMPTS = 3


@dataclass(frozen=True)
class FlowTask:
    """What Spark sends to an executor."""

    place: DriverPlace
    slot: str
    reading: Reading
    sinks: FlowSinks
    function: Function | None
    commit_seconds: float
    """Seconds between two commits of rows."""
    is_popping: bool = False
    """Whether the group is balanced by message."""

    def __call__(self, _: Iterable[str]) -> Iterator[None]:
        """Read the queues of the slot until the driver says that the task must end."""
        logging.basicConfig(
            level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
        )
        asyncio.run(self._follow())
        yield from ()

    async def _follow(self) -> None:
        link = DriverLink(self.place, self.slot, find_own_executor(), lambda: running.stop())
        calls, metrics = UsersCalls(self.function), Metrics()
        parts = (link, calls, self.reading, self.sinks, lambda: running.session)
        rows: TaskRows | PoppedRows
        running: Running
        works = [link.run(), _watch(calls, link)]
        if self.is_popping:
            rows = popped = PoppedRows(*parts, self.commit_seconds)
            works.append(popped.keep_committing())
            handling = Handling(popped, self._options, metrics)
            running = Running(
                link, _refuse_queues, handling, metrics,
                start_pops=lambda source, terms: self._start_pops(
                    source, terms, handling, metrics, popped
                ),
            )  # fmt: skip
        else:
            rows = held = TaskRows(*parts)
            handling = Handling(held, self._options, metrics, tell_halt=link.report)
            running = Running(
                link, lambda source: FlowBrokers(source, self._options, self.reading, held, link),
                handling, metrics, make_pace(self.commit_seconds),
            )  # fmt: skip
        if not gc.get_freeze_count():
            # Otherwise the collector visits everything that Python has loaded, for 50 ms and more.
            gc.freeze()
        tasks = [asyncio.create_task(each) for each in (running.run(), *works)]
        try:
            # The first one ends when the driver says so. The others end only by a bug.
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in ended:
                each.result()
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await handling.close()
            rows.close()
            calls.close()

    @property
    def _options(self) -> FollowerOptions:
        """If a job without a sink for dead letters pops, they go to RocketMQ's own topic."""
        is_stopping = not self.is_popping and not self.sinks.takes_dead_letters
        return FollowerOptions(
            batch=MOST_ROWS, attempts=ATTEMPTS,
            threads=POPPING_THREADS if self.is_popping else THREADS,
            on_failure=OnFailure.STOP if is_stopping else OnFailure.DEAD_LETTER,
            memory_bytes=self.reading.cluster.fetch_bytes,
        )  # fmt: skip

    def _start_pops(
        self, source: GroupSource, terms: PopTerms, handling: Handling, metrics: Metrics,
        rows: PoppedRows,
    ) -> "TaskPops":  # fmt: skip
        cluster = self.reading.cluster

        def open_client() -> Client:
            return Client(
                source.name_servers, credentials=cluster.find_credentials(),
                tls=cluster.make_tls_context(), times=TIMES,
            )  # fmt: skip

        bury = rows.bury if self.sinks.takes_dead_letters else None
        popping = Popping(source, terms, open_client, handling, self._options, metrics, bury)
        popping.start()
        return TaskPops(popping, rows)


@dataclass(frozen=True, slots=True)
class TaskPops:
    """Pops of a task, which commits without pauses when it stops."""

    popping: Popping
    rows: PoppedRows

    async def stop(self, drain_seconds: float) -> None:
        """Let running calls end, commit their rows, and acknowledge."""
        self.rows.hurry()
        await self.popping.stop(drain_seconds)

    async def close(self) -> None:
        """End at once."""
        await self.popping.close()


def _refuse_queues(_: GroupSource) -> NoReturn:
    raise AssertionError("a group that is balanced by message has no queues")


async def _watch(calls: UsersCalls, link: DriverLink) -> None:
    """Tell the driver which calls may never return."""
    while True:
        for each in calls.find_endless():
            text = f"the function has not returned for {ENDLESS_SECONDS:g} s"
            link.report(each.queue, each.begin, f"{each.queue} offset {each.begin}: {text}")
        await asyncio.sleep(LONG_SECONDS)


class FlowBrokers(GroupBrokers):
    """Reads from the brokers, but commits offsets to the driver instead of the brokers."""

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
        """Begin at the stored offset, which `TaskRows.read_position` has found before."""
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
            # The journal has an offset after the end of the queue. Only the driver may change that
            # offset, and only when it starts.
            consequence = Consequence.JOB_STARTS_AGAIN if may_lose else Consequence.JOB_ENDS
            self._link.report(error.queue, error.asked, str(error), consequence)
            raise

    async def bury(self, work: Work, letter: DeadLetter) -> None:
        """Keep a message as a dead letter."""
        self._rows.bury(work, letter)

    async def commit(self, work: Work, offset: int) -> None:
        """Commit to the driver."""
        await self._rows.commit(work, offset)
