"""
Pops all messages of a topic, and acknowledges them: `python -m benchmarks.messages.popping`.

Its argument is the address of the name server. POP uses the client, with a few pops under way.
HANDLE uses the follower, with a handler that does nothing. Each job has a group of its own, so it
begins with the first message.
"""

import asyncio
import itertools
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from benchmarks.pull import player
from benchmarks.pull.player import Job
from contract.following import GroupSource, PopTerms
from follower.handling import Handling
from follower.metrics import Metrics
from follower.options import FollowerOptions
from follower.popping.running import Popping
from mq_client import blocking
from mq_client.aio import Client
from mq_client.messages import StoredMessage
from mq_client.values import GroupConfig, RequestMode

POP, HANDLE = "pop", "handle"
BROKER = "broker-a"
AT_ONCE = 4
"""How many pops the client has under way."""
INVISIBLE_SECONDS, DRAIN_SECONDS = 60.0, 10.0
BATCH = 32
_numbers = itertools.count(1)


def prepare_group(name_server: str, group: str, topic: str) -> None:
    """Create a group, and let RocketMQ's own consumers of it pop."""
    with blocking.Client(name_server) as client:
        client.put_group(GroupConfig(group))
        client.set_request_mode(group, topic, RequestMode.POP)


def make_popping(
    name_server: str, group: str, topic: str, handle: Callable[[Any], Any], options: FollowerOptions
) -> Popping:
    """Make a member that pops, without a coordinator."""
    terms = PopTerms([topic], INVISIBLE_SECONDS, options.batch, 16, 10.0)
    metrics = Metrics()
    return Popping(
        GroupSource(group, [name_server], messages=terms), terms, lambda: Client(name_server),
        Handling(handle, options, metrics), options, metrics,
    )  # fmt: skip


def main(name_server: str) -> None:
    """Play standard input."""

    def prepare(
        run: Callable[[str, str, Job], Coroutine[Any, Any, int]],
    ) -> Callable[[Job], Callable[[], int]]:
        def prepared(job: Job) -> Callable[[], int]:
            group = f"bench-ours-{next(_numbers)}"
            prepare_group(name_server, group, job.topic)
            return lambda: asyncio.run(run(name_server, group, job))

        return prepared

    player.play({POP: prepare(_pop), HANDLE: prepare(_handle)})


async def _pop(name_server: str, group: str, job: Job) -> int:
    """Pop and acknowledge with the client alone."""
    count = 0

    async def pop(client: Client) -> None:
        nonlocal count
        while count < job.messages:
            found = await client.pop(group, job.topic, BROKER, poll_ms=1_000)
            count += len(found)
            if found:
                await client.acknowledge(group, job.topic, [each.handle for each in found])

    async with Client(name_server) as client:
        await asyncio.gather(*(pop(client) for _ in range(AT_ONCE)))
    return count


async def _handle(name_server: str, group: str, job: Job) -> int:
    """Pop with a follower until all messages are handled and acknowledged."""
    loop, is_all, lock = asyncio.get_running_loop(), asyncio.Event(), threading.Lock()
    count = 0

    def handle(messages: Sequence[StoredMessage]) -> None:
        nonlocal count
        with lock:
            count += len(messages)
            is_last = count == job.messages
        if is_last:
            loop.call_soon_threadsafe(is_all.set)

    options = FollowerOptions(batch=BATCH)
    popping = make_popping(name_server, group, job.topic, handle, options)
    popping.start()
    await is_all.wait()
    await popping.stop(DRAIN_SECONDS)
    return count


if __name__ == "__main__":
    main(sys.argv[1])
