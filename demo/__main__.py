"""
The demo: `python -m demo`. It sets up all that it needs, counts messages, and exits by itself.

Numbered messages arrive continuously. A job with two executors reads them. Then a third executor
joins, an executor is killed, and the topic gets more queues. The demo uses the product as users do:
it edits a manifest file while `evenkeel run` uses this file.
"""

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from contract import exit_codes
from contract.conditions import ConditionType
from contract.kinds.groups import JobRecord
from demo import counting
from demo.sender import Sender
from evenkeel.control import conditions
from evenkeel.embedded import app
from evenkeel.embedded.screen import Screen
from evenkeel.embedded.world import FileWorld
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup, Key
from mq_client.aio import Client
from mq_client.directory import Times
from mq_client.errors import MqError
from mq_client.values import TopicConfig
from sandbox import executors, process, rocketmq

BILLING = Key("default", "billing")
QUEUES, MORE_QUEUES = 4, 6
"""How many queues each of the two brokers has, at the start and at the end."""
LOOK_SECONDS = 0.2
WATCH_SECONDS = 8.0
"""Time to watch the screen between two events."""
SAY_SECONDS = 30.0
"""Interval at which the demo says what it is waiting for."""
MOST_FAILURES = 3
"""After this many consecutive failures of the driver, the demo gives up."""
TIMES = Times(answer=60.0)
"""Everything shares one machine, so a broker may be slow to answer."""
MANIFESTS = """\
apiVersion: evenkeel.dev/v1alpha1
kind: Topic
metadata: {{name: orders}}
spec:
  nameServers: ["{name_server}"]
  refreshInterval: 5s
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: billing}}
data:
  transform.py: |
    import pyarrow as pa

    def transform_batches(batches):
        for batch in batches:
            yield pa.RecordBatch.from_pydict({{"body": batch["body"].cast(pa.string())}})
---
apiVersion: evenkeel.dev/v1alpha1
kind: ConsumerGroup
metadata: {{name: billing}}
spec:
  topics: [{{name: orders}}]
  job:
    executors: {executors}
    startFrom: Earliest
    transform: {{configMapRef: {{name: billing, key: transform.py}}}}
    sink: {{format: json, path: "{folder}/rows"}}
    checkpoint: {{url: "{folder}/checkpoint"}}
"""


class StuckError(EvenkeelError):
    """An event for which the demo waits can no longer happen."""


class Demo:
    """One run of the demo."""

    def __init__(self, folder: Path, client: Client, name_server: str, sender: Sender) -> None:
        """Prepare a run without starting anything."""
        self.file = folder / "billing.yaml"
        self.rows = folder / "rows"
        self.state = folder / "state"
        self.screen = Screen()
        self._client = client
        self._name_server = name_server
        self._folder = folder
        self._sender = sender

    def edit(self, count: int) -> None:
        """Write the file with `count` executors, as an editor would."""
        part = self.file.with_suffix(".part")
        part.write_text(
            MANIFESTS.format(name_server=self._name_server, folder=self._folder, executors=count)
        )
        part.replace(self.file)

    async def play(self, world: FileWorld) -> None:
        """Play all events, one after the other."""
        self.screen.say("Spark starts with two executors; this takes half a minute or more")
        await self._wait_until(world, lambda group: _is_settled(world, group, 2))
        await self._watch("both executors read their queues; next, a third executor joins")
        self.edit(3)
        await self._wait_until(world, lambda group: _is_settled(world, group, 3))
        await self._watch(
            "the third executor has taken over its queues; next, an executor is killed"
        )
        before = _find_group(world).status.moved
        await self._kill(world, "billing-1")
        moved = _find_group(world).status.moved - before
        queues = f"{moved} queues moved, as the start exceeded the grace period" if moved else (
            "no queue moved")  # fmt: skip
        await self._watch(f"a new executor has filled the empty slot, and {queues}; "
                          "next, the topic gets more queues")  # fmt: skip
        await self._client.put_topics([TopicConfig("orders", MORE_QUEUES, MORE_QUEUES)])
        await self._wait_until(
            world,
            lambda group: group.status.queues == 2 * MORE_QUEUES and _is_settled(world, group, 3),
        )
        await self._watch(
            "the new queues have owners; next, the sender stops and messages are counted"
        )
        await self._sender.stop()
        while await self._sum_committed() < self._sender.sent:
            self._refuse_if_dead(world)
            await asyncio.sleep(LOOK_SECONDS)

    async def _kill(self, world: FileWorld, slot: str) -> None:
        group = _find_group(world)
        before = {each.consumer: each.executor for each in group.status.assignments}[slot]
        driver = world.find_process(BILLING)
        pid = executors.find(driver.pid, before) if driver and driver.pid else None
        if pid is None:
            raise StuckError(f"the executor of {slot} has no process")
        os.kill(pid, signal.SIGKILL)
        self.screen.say(f"kill -9 {pid}, the executor of {slot}", "bold red")

        def is_replaced(group: ConsumerGroup) -> bool:
            now = {each.consumer: each for each in group.status.assignments}[slot]
            return not now.empty_since and now.executor != before

        await self._wait_until(world, is_replaced)

    async def _watch(self, what: str) -> None:
        self.screen.say(what, "bold")
        await asyncio.sleep(WATCH_SECONDS)
        self.screen.show()

    async def _wait_until(self, world: FileWorld, is_so: Callable[[ConsumerGroup], bool]) -> None:
        """Wait for an event without a time limit; raise an error if sender or driver has failed."""
        said_at = time.monotonic()
        while not is_so(_find_group(world)):
            self._sender.refuse_if_failed()
            self._refuse_if_dead(world)
            await asyncio.sleep(LOOK_SECONDS)
            if time.monotonic() - said_at > SAY_SECONDS:
                said_at = time.monotonic()
                self.screen.say(f"still waiting: {_explain_ready(_find_group(world))}", "dim")

    def _refuse_if_dead(self, world: FileWorld) -> None:
        job = _find_group(world).status.job
        if job is None or not has_given_up(job):
            return
        log = self.state / "default" / "billing" / "log"
        tail = log.read_text(errors="replace")[-2000:] if log.exists() else "no log"
        raise StuckError(f"the driver has ended: {job.message}; its log ends with\n{tail}")

    async def _sum_committed(self) -> int:
        """Count the messages before the group's committed offsets. The sink has all of them."""
        found = await self._client.measure_lag("billing", "orders")
        return sum(max(0, each.consumer_offset) for each in found)


def has_given_up(job: JobRecord) -> bool:
    """Whether a driver has failed for good: it will not start again, or would only fail again."""
    return job.exit_code == exit_codes.PERMANENT or job.failures >= MOST_FAILURES


def _find_group(world: FileWorld) -> ConsumerGroup:
    found = world.find_group(BILLING)
    assert found is not None
    return found


def _explain_ready(group: ConsumerGroup) -> str:
    ready = conditions.find(group.status.conditions, ConditionType.READY)
    return (ready.message or ready.reason) if ready else "the group has no status yet"


def _is_settled(world: FileWorld, group: ConsumerGroup, slots: int) -> bool:
    """Whether this many slots are filled and the job follows the newest epoch."""
    status = group.status
    filled = [each for each in status.assignments if each.executor and not each.empty_since]
    report = world.observe_driver(BILLING).report
    is_reported = report is not None and len(report.slots) == slots
    return is_reported and len(filled) == slots and status.adopted_epoch == status.epoch


async def main() -> int:
    """Run the demo; return 0 if no message was lost or read twice."""
    print(
        "Evenkeel: starting RocketMQ, one name server and two brokers (downloaded the first time)"
    )
    with rocketmq.run(brokers=2) as mq, tempfile.TemporaryDirectory() as place:
        mq.create_topics({"orders": QUEUES})
        name_server = mq.name_server.address
        async with Client(name_server, times=TIMES) as client:
            sender = Sender(client, "orders")
            demo = Demo(Path(place), client, name_server, sender)
            demo.edit(2)
            async with sender, app.run_world(demo.file, demo.state, demo.screen) as world:
                await demo.play(world)
        found = counting.count(sender.sent, counting.read_numbers(demo.rows))
    print(found)
    return 0 if found.is_clean else 1


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except (EvenkeelError, MqError, process.SandboxError) as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(1)
