"""
Workers that need some time for each message, more of them than the topic has queues.

By message, all of them work. By queue, only as many as there are queues. All workers are members in
this process, and their work is a pause, so the machine is not the limit.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
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
from mq_client.values import MessageQueue

WORKERS, QUEUES = 32, 4
WORK_SECONDS = 0.02
OPTIONS = FollowerOptions(batch=1, threads=1)


@dataclass(frozen=True, slots=True)
class Worked:
    """What the workers have done."""

    seconds: float
    counts: Sequence[int]
    """Messages of each worker."""

    @property
    def rate(self) -> float:
        """Messages a second of all workers together."""
        return sum(self.counts) / self.seconds

    @property
    def unevenness(self) -> float:
        """How far the most different worker is from the mean, as a share of it."""
        mean = sum(self.counts) / len(self.counts)
        return max(abs(each - mean) for each in self.counts) / mean


class Bench:
    """Counts the messages of workers until all messages have been handled."""

    def __init__(self, workers: int, messages: int) -> None:
        """Begin the time."""
        self.counts = [0] * workers
        self.messages = messages
        self.is_done = asyncio.Event()
        self._begun = time.perf_counter()

    def make_handler(self, worker: int) -> Callable[[Any], Awaitable[None]]:
        """Make the handler of a worker."""

        async def handle(messages: Sequence[object]) -> None:
            await asyncio.sleep(WORK_SECONDS)
            self.counts[worker] += len(messages)
            if sum(self.counts) >= self.messages:
                self.is_done.set()

        return handle

    def finish(self) -> Worked:
        """Return what was done until now."""
        return Worked(time.perf_counter() - self._begun, tuple(self.counts))


async def work_by_message(name_server: str, group: str, topic: str, messages: int) -> Worked:
    """Let all workers pop."""
    bench = Bench(WORKERS, messages)
    members = [
        popping.make_popping(name_server, group, topic, bench.make_handler(each), OPTIONS)
        for each in range(WORKERS)
    ]
    for member in members:
        member.start()
    await bench.is_done.wait()
    worked = bench.finish()
    await asyncio.gather(*(each.stop(popping.DRAIN_SECONDS) for each in members))
    return worked


async def work_by_queue(name_server: str, group: str, topic: str, messages: int) -> Worked:
    """Give each worker a queue, as long as there are any."""
    source = GroupSource(group, [name_server])
    bench = Bench(QUEUES, messages)
    members = []
    for each in range(QUEUES):
        metrics = Metrics()
        asks = AlwaysGranted(source, [MessageQueue(topic, popping.BROKER, each)])
        handling = Handling(bench.make_handler(each), OPTIONS, metrics)
        members.append(Running(asks, lambda found: GroupBrokers(found, OPTIONS), handling, metrics))
    tasks = [asyncio.create_task(member.run()) for member in members]
    await bench.is_done.wait()
    worked = bench.finish()
    for member in members:
        member.stop()
    await asyncio.gather(*tasks)
    return worked
