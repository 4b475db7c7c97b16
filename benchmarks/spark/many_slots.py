"""
Measures what 50 tasks cost the driver of a flow: `python -m benchmarks.spark.many_slots SECONDS`.

The driver's side is real: its server, and its journal on a file system that Spark reaches. The
tasks are real too, but they get made-up messages instead of messages from brokers. No machine has
50 executors for this, so all tasks run in one process, which is not measured.
"""

import asyncio
import itertools
import random
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping

from pyspark import SparkContext

from benchmarks import peers
from benchmarks.spark import processes
from contract.following import GroupSource
from follower import pieces
from follower.handling import Handling
from follower.metrics import Metrics
from follower.options import FollowerOptions
from follower.pieces import DeadLetter
from follower.running import Running
from follower.work import Work
from mq_client.messages import StoredMessage
from mq_client.values import MessageQueue
from spark_jobs import journal as offsets
from spark_jobs import options
from spark_jobs.pipeline.assignments import JobAssignment
from spark_jobs.pipeline.checkpoint.journal import CheckpointState, JobJournal
from spark_jobs.pipeline.checkpoint.stores import open_store
from spark_jobs.pipeline.flow.beginning import FlowBeginning
from spark_jobs.pipeline.flow.calls import UsersCalls
from spark_jobs.pipeline.flow.commits import make_pace
from spark_jobs.pipeline.flow.link import DriverLink, DriverPlace
from spark_jobs.pipeline.flow.serving import FlowServer
from spark_jobs.pipeline.flow.sinks.functions import FunctionSink
from spark_jobs.pipeline.flow.sinks.separate import SeparateSinks
from spark_jobs.pipeline.flow.task_rows import TaskRows

SLOTS, QUEUES, A_SECOND = 50, 1000, 400
COMMIT_SECONDS = 1.0
SETTLE_SECONDS = 10.0
_GROUP = "billing"
_SLOTS = [f"slot-{number}" for number in range(SLOTS)]
_OWNERS = {MessageQueue("orders", "broker-a", n): _SLOTS[n % SLOTS] for n in range(QUEUES)}
_SINKS = SeparateSinks(FunctionSink(lambda batches, steps: None))
_READING = options.parse_reading(
    {"nameServers": "none:1", "topics": "orders", "group": _GROUP}, is_stream=True
)


def measure(seconds: float) -> float:
    """Return the percentage of one core that the driver's processes use."""
    command = [sys.executable, "-m", __spec__.name]
    with peers.start("the driver", command, subprocess.PIPE) as driver:
        assert driver.popen.stdin
        assert driver.popen.stdout
        port, _, secret = driver.popen.stdout.readline().strip().partition(" ")
        if not secret:
            raise driver.make_failure("has ended")
        place = DriverPlace("127.0.0.1", int(port), secret)
        used = asyncio.run(_follow(place, driver.popen.pid, seconds))
        driver.popen.stdin.close()
        committed = int(driver.popen.stdout.readline())
        driver.wait()
        if committed < A_SECOND * (seconds + SETTLE_SECONDS) * 0.8:
            raise driver.make_failure(f"has committed only {committed} messages")
    return 100 * used / seconds


async def _follow(place: DriverPlace, pid: int, seconds: float) -> float:
    """Run all tasks, and measure meanwhile."""
    tasks = [asyncio.create_task(_run_task(place, slot)) for slot in _SLOTS]
    await asyncio.sleep(SETTLE_SECONDS)
    used = await asyncio.to_thread(processes.cpu_used, pid, seconds)
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return used


async def _run_task(place: DriverPlace, slot: str) -> None:
    link = DriverLink(place, slot, slot, lambda: running.stop())
    rows = TaskRows(link, UsersCalls(None), _READING, _SINKS, lambda: running.session)
    metrics = Metrics()
    handling = Handling(rows, FollowerOptions(), metrics, tell_halt=link.report)
    running = Running(
        link, lambda source: MadeUpBrokers(rows), handling, metrics,
        make_pace(COMMIT_SECONDS),
    )  # fmt: skip
    talk = asyncio.create_task(link.run())
    try:
        await running.run()
    finally:
        talk.cancel()
        await asyncio.gather(talk, return_exceptions=True)


class MadeUpBrokers:
    """Brokers that have a new message for each queue from time to time."""

    def __init__(self, rows: TaskRows) -> None:
        """Begin without messages."""
        self._rows = rows
        self._next: dict[MessageQueue, Iterator[int]] = {}

    async def locate(self, work: Work) -> int:
        """Return the offset that the journal contains, to begin there."""
        assert work.stored is not None
        self._rows.hold(work)
        self._next[work.queue] = itertools.count(work.stored)
        return work.stored

    async def pull(self, work: Work, queues: int) -> list[tuple[int, int]]:
        """Wait for the next message."""
        await asyncio.sleep(random.uniform(0, 2 * QUEUES / A_SECOND))  # not all at the same time
        offset = next(self._next[work.queue])
        message = StoredMessage(*work.queue, offset, b"x", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)
        work.pieces = pieces.cut(offset, offset + 1, (message,), (), 1)
        return []

    async def commit(self, work: Work, offset: int) -> None:
        """Commit to the driver."""
        await self._rows.commit(work, offset)

    async def bury(self, work: Work, letter: DeadLetter) -> None:
        """Do nothing, because no message fails."""

    def reconnect(self) -> None:
        """Do nothing, because nothing is open."""

    async def close(self) -> None:
        """Do nothing, because nothing is open."""


def _serve() -> None:
    """Run the driver until the input ends; print where it listens, and what it has committed."""
    with (
        tempfile.TemporaryDirectory() as checkpoint,
        SparkContext("local[1]", "many slots") as context,
    ):
        begins: Mapping[MessageQueue, int] = dict.fromkeys(_OWNERS, 0)
        state = CheckpointState("q", _GROUP, 0, -1, offsets.write_offsets(begins))
        secret = secrets.token_hex(16)
        server = FlowServer(
            FlowBeginning(state), JobJournal(open_store(context, checkpoint)), _SINKS,
            GroupSource(_GROUP, []), lambda _: {}, secret, lambda _: None,
        )  # fmt: skip
        server.start("127.0.0.1", 0)
        server.publish(JobAssignment(1, tuple(_SLOTS), _OWNERS), {each: each for each in _SLOTS})
        print(server.port, secret, flush=True)
        sys.stdin.read()
        print(server.tally.offsets, flush=True)
        server.check()
        server.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(f"{measure(float(sys.argv[1])):.1f} % of one core")
    else:
        _serve()
