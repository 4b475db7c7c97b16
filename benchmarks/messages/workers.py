"""
Workers that need some time for each message: how many they handle, and how long messages wait.

By message, all workers share all messages. By queue, each queue has one worker, and workers without
a queue are left out. All workers are members in this process, and their work is a pause, so the
machine is not the limit.
"""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from benchmarks.messages import popping
from benchmarks.pull.following import AlwaysGranted
from contract.following import GroupSource
from follower.brokers import GroupBrokers
from follower.handling import Handling
from follower.metrics import Metrics
from follower.options import FollowerOptions
from follower.running import Running
from mq_client.aio import Client
from mq_client.choosers import RoundRobin
from mq_client.messages import Message, StoredMessage
from mq_client.values import MessageQueue

WORKERS, QUEUES, WORK_SECONDS = 32, 4, 0.02
FEW_WORKERS, SLOW_SECONDS = 8, 0.2
"""Workers whose messages are timed; each has a queue, if they work by queue. One may be slow."""
A_SECOND = 200
OPTIONS = FollowerOptions(batch=1, threads=1)

Handler = Callable[[Sequence[StoredMessage]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Place:
    """Which messages are read, and by which group."""

    name_server: str
    group: str
    topic: str
    queues: int


Run = Callable[[Place, Sequence[Handler]], AbstractAsyncContextManager[None]]


@contextlib.asynccontextmanager
async def run_by_message(place: Place, handlers: Sequence[Handler]) -> AsyncIterator[None]:
    """Let all workers pop."""
    popping.prepare_group(place.name_server, place.group, place.topic)
    members = [
        popping.make_popping(place.name_server, place.group, place.topic, each, OPTIONS)
        for each in handlers
    ]
    for member in members:
        member.start()
    yield
    await asyncio.gather(*(each.stop(popping.DRAIN_SECONDS) for each in members))


@contextlib.asynccontextmanager
async def run_by_queue(place: Place, handlers: Sequence[Handler]) -> AsyncIterator[None]:
    """Give each worker a queue, as long as there are any."""
    source = GroupSource(place.group, [place.name_server])
    members = []
    for number, handle in enumerate(handlers[: place.queues]):
        metrics = Metrics()
        asks = AlwaysGranted(source, [MessageQueue(place.topic, popping.BROKER, number)])
        handling = Handling(handle, OPTIONS, metrics)
        members.append(Running(asks, lambda found: GroupBrokers(found, OPTIONS), handling, metrics))
    tasks = [asyncio.create_task(member.run()) for member in members]
    yield
    for member in members:
        member.stop()
    await asyncio.gather(*tasks)


@dataclass(frozen=True, slots=True)
class Worked:
    """What the workers have done."""

    seconds: float
    counts: Sequence[int]
    """Messages of each worker that had any."""

    @property
    def rate(self) -> float:
        """Messages a second of all workers together."""
        return sum(self.counts) / self.seconds

    @property
    def unevenness(self) -> float:
        """How far the most different worker is from the mean, as a share of it."""
        mean = statistics.mean(self.counts)
        return max(abs(each - mean) for each in self.counts) / mean


async def share(run: Run, place: Place, messages: int) -> Worked:
    """Let all workers handle the messages of a topic."""
    counts, is_done = [0] * WORKERS, asyncio.Event()

    def make_handler(worker: int) -> Handler:
        async def handle(found: Sequence[StoredMessage]) -> None:
            await asyncio.sleep(WORK_SECONDS)
            counts[worker] += len(found)
            if sum(counts) >= messages:
                is_done.set()

        return handle

    begun = time.perf_counter()
    async with run(place, [make_handler(each) for each in range(WORKERS)]):
        await is_done.wait()
        return Worked(time.perf_counter() - begun, [each for each in counts if each])


@dataclass(frozen=True, slots=True)
class Delays:
    """How long messages waited until a handler began, in milliseconds, for each worker."""

    by_worker: Sequence[Sequence[float]]

    def find(self, share: float, first_worker: int = 0) -> float:
        """Find the delay that this share of the messages did not exceed, from this worker on."""
        found = sorted(each for of_one in self.by_worker[first_worker:] for each in of_one)
        return found[min(len(found) - 1, int(share * len(found)))]


async def time_delays(run: Run, place: Place, slow: float, work: float, seconds: float) -> Delays:
    """Send messages steadily; each worker needs `work` seconds for one, the first one `slow`."""
    delays: list[list[float]] = [[] for _ in range(FEW_WORKERS)]
    count, is_done = round(A_SECOND * seconds), asyncio.Event()

    def make_handler(worker: int) -> Handler:
        async def handle(found: Sequence[StoredMessage]) -> None:
            now = time.perf_counter_ns()
            delays[worker] += ((now - int(each.body)) / 1e6 for each in found)
            if sum(map(len, delays)) == count:
                is_done.set()
            await asyncio.sleep(work if worker else slow)

        return handle

    async with run(place, [make_handler(each) for each in range(FEW_WORKERS)]):
        await _send_steadily(place, count)
        await is_done.wait()
    return Delays(delays)


async def _send_steadily(place: Place, count: int) -> None:
    """Send messages that contain their time."""
    chooser, due = RoundRobin(), time.perf_counter()
    sends: list[asyncio.Task[Any]] = []
    async with Client(place.name_server) as client:
        for _ in range(count):
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            body = str(time.perf_counter_ns()).encode()
            sends.append(asyncio.create_task(client.send(Message(place.topic, body), chooser)))
            due += 1 / A_SECOND
        await asyncio.gather(*sends)
