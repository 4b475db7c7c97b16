"""
Our follower with a handler that does nothing: `python -m benchmarks.pull.following NAME_SERVER`.

It runs like `python -m follower`, except that no coordinator is asked: the follower may always read
all queues. Each job has its own group, so the follower begins with the first message.
"""

import asyncio
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.pull import player
from benchmarks.pull.player import Job
from contract.following import Asked, GroupSource, MemberAnswer
from contract.kinds.groups import OnOutage
from follower.brokers import GroupBrokers
from follower.handling import Handling
from follower.metrics import Metrics
from follower.options import FollowerOptions
from follower.queues import write_queues
from follower.running import Running
from mq_client.values import MessageQueue

HANDLE, HANDLE_COLUMNS = "handle", "handle-columns"
BROKER = "broker-a"
SESSION_SECONDS, DRAIN_SECONDS = 30.0, 10.0
OPTIONS = FollowerOptions()
COLUMNS = FollowerOptions(arrow=True, batch=4096)
_numbers = itertools.count(1)


class AlwaysGranted:
    """Lets a member read these queues, always."""

    url, group, member = "none", "bench/bench", "bench"

    def __init__(self, source: GroupSource, queues: Iterable[MessageQueue]) -> None:
        """Prepare the grants."""
        self._source = source
        self._grants = write_queues(queues)

    async def ask(
        self, asked: Asked[MessageQueue], wait_seconds: float, seconds: float, *, pops: bool = False
    ) -> MemberAnswer:
        """Answer the first request at once, and each later one after `wait_seconds`."""
        await asyncio.sleep(wait_seconds if asked.revision else 0.0)
        return MemberAnswer(
            1, 1, self._grants, SESSION_SECONDS, DRAIN_SECONDS, OnOutage.STOP, self._source
        )

    async def leave(self, session: str) -> None:
        """Do nothing: no coordinator has to know."""


def main(name_server: str) -> None:
    """Play standard input."""

    def prepare(options: FollowerOptions) -> Callable[[Job], Callable[[], int]]:
        return lambda job: lambda: asyncio.run(_follow(name_server, job, options))

    player.play({HANDLE: prepare(OPTIONS), HANDLE_COLUMNS: prepare(COLUMNS)})


async def _follow(name_server: str, job: Job, options: FollowerOptions) -> int:
    """Follow until all messages of the job are handled."""
    group = f"bench-follower-{os.getpid()}-{next(_numbers)}"
    source = GroupSource(group, [name_server])
    metrics = Metrics()
    loop = asyncio.get_running_loop()
    lock = threading.Lock()
    count = 0

    def handle(messages: Any) -> None:
        nonlocal count
        with lock:
            count += len(messages)
            is_all = count == job.messages
        if is_all:
            loop.call_soon_threadsafe(running.stop)

    handling = Handling(handle, options, metrics)
    queues = [MessageQueue(job.topic, BROKER, each) for each in range(job.queues)]
    running = Running(
        AlwaysGranted(source, queues), lambda found: GroupBrokers(found, options), handling, metrics
    )
    await running.run()
    await handling.close()
    return count


if __name__ == "__main__":
    main(sys.argv[1])
