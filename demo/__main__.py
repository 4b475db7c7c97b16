"""
The demo: `python -m demo`. It sets up all that it needs, ends by itself, and counts.

Messages with numbers arrive all the time. A job of two executors reads them; a third one joins,
one is killed, and the topic gets more queues. All of it is the product as users have it: a file of
manifests, `evenkeel run`, and an editor.
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from demo import counting
from demo.sender import Sender
from evenkeel.embedded import app
from evenkeel.embedded.screen import Screen
from evenkeel.embedded.world import FileWorld
from evenkeel.errors import EvenkeelError
from evenkeel.objects import Group, Key
from mq_client.aio import Client
from mq_client.directory import Times
from mq_client.errors import MqError
from mq_client.values import TopicConfig
from sandbox import executors, process, rocketmq

BILLING = Key("default", "billing")
QUEUES, MORE_QUEUES = 4, 6
"""On each of two brokers, at first and at the end."""
LOOK_SECONDS = 0.2
WATCH_SECONDS = 8.0
"""Time to watch the picture between two events."""
PATIENCE_SECONDS = 120.0
TIMES = Times(answer=60.0)
"""All of it shares one machine: a broker that is slow to answer is no fault."""
MANIFESTS = """\
apiVersion: evenkeel.dev/v1alpha1
kind: Topic
metadata: {{name: orders}}
spec:
  nameServers: ["{name_server}"]
  refreshInterval: 5s
---
apiVersion: evenkeel.dev/v1alpha1
kind: ConsumerGroup
metadata: {{name: billing}}
spec:
  topics: [{{name: orders}}]
  job:
    executors: {executors}
    startFrom: Earliest
    transform: {{sql: "SELECT CAST(body AS string) AS body FROM messages"}}
    sink: {{format: json, path: "{folder}/rows"}}
    checkpoint: {{url: "{folder}/checkpoint"}}
"""


class StuckError(EvenkeelError):
    """The demo waits for something that does not come."""


class Demo:
    """One run."""

    def __init__(self, folder: Path, client: Client, name_server: str) -> None:
        """Prepare; nothing runs yet."""
        self.file = folder / "billing.yaml"
        self.rows = folder / "rows"
        self.state = folder / "state"
        self.screen = Screen()
        self._client = client
        self._name_server = name_server
        self._folder = folder

    def edit(self, count: int) -> None:
        """Write the file with so many executors, as an editor does."""
        part = self.file.with_suffix(".part")
        part.write_text(
            MANIFESTS.format(name_server=self._name_server, folder=self._folder, executors=count)
        )
        part.replace(self.file)

    async def play(self, world: FileWorld, sender: Sender) -> None:
        """Let everything happen."""
        self.screen.say("Spark starts, with two executors; this takes half a minute or more")
        await self._until(world, lambda group: _is_settled(world, group, 2))
        await self._watch("both executors read their queues; next, a third one joins")
        self.edit(3)
        await self._until(world, lambda group: _is_settled(world, group, 3))
        await self._watch("the third one has taken over what it had to; next, one is killed")
        before = _group(world).status.moved
        await self._kill(world, "billing-1")
        moved = _group(world).status.moved - before
        queues = f"{moved} queues have moved: it took longer than the grace" if moved else (
            "no queue has moved")  # fmt: skip
        await self._watch(f"a new executor has taken the empty slot, and {queues}; "
                          "next, the topic gets more queues")  # fmt: skip
        await self._client.put_topics([TopicConfig("orders", MORE_QUEUES, MORE_QUEUES)])
        await self._until(
            world,
            lambda group: group.status.queues == 2 * MORE_QUEUES and _is_settled(world, group, 3),
        )
        await self._watch("the new queues have owners; next, the sender stops and all is counted")
        await sender.stop()
        await self._until_read(sender.sent)

    async def _kill(self, world: FileWorld, slot: str) -> None:
        group = _group(world)
        before = {each.consumer: each.executor for each in group.status.assignments}[slot]
        driver = world.process(BILLING)
        pid = executors.find(driver.pid, before) if driver and driver.pid else None
        if pid is None:
            raise StuckError(f"the executor of {slot} has no process")
        os.kill(pid, signal.SIGKILL)
        self.screen.say(f"kill -9 {pid}, the executor of {slot}", "bold red")

        def is_replaced(group: Group) -> bool:
            now = {each.consumer: each for each in group.status.assignments}[slot]
            return not now.empty_since and now.executor != before

        await self._until(world, is_replaced)

    async def _watch(self, what: str) -> None:
        self.screen.say(what, "bold")
        await asyncio.sleep(WATCH_SECONDS)
        self.screen.show()

    async def _until(self, world: FileWorld, is_so: Callable[[Group], bool]) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not is_so(_group(world)):
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            log = self.state / "default" / "billing" / "log"
            tail = log.read_text(errors="replace")[-2000:] if log.exists() else "no log"
            raise StuckError(f"nothing happens any more; the job's log ends with\n{tail}") from None

    async def _until_read(self, sent: int) -> None:
        """Wait until the sink has as many rows as were sent; if some are lost, not for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS / 4):
                while len(await asyncio.to_thread(counting.bodies, self.rows)) < sent:
                    await asyncio.sleep(1)


def _group(world: FileWorld) -> Group:
    found = world.group(BILLING)
    assert found is not None
    return found


def _is_settled(world: FileWorld, group: Group, slots: int) -> bool:
    """Whether so many slots are filled, and the job follows the newest epoch."""
    status = group.status
    filled = [each for each in status.assignments if each.executor and not each.empty_since]
    report = world.driver(BILLING).report
    is_reported = report is not None and len(report.slots) == slots
    return is_reported and len(filled) == slots and status.adopted_epoch == status.epoch


async def main() -> int:
    """Run the demo; 0 if nothing was lost and nothing came twice."""
    print("Evenkeel: RocketMQ starts, one name server and two brokers (fetched the first time)")
    with rocketmq.started(brokers=2) as mq, tempfile.TemporaryDirectory() as place:
        mq.create_topics({"orders": QUEUES})
        name_server = mq.name_server.address
        async with Client(name_server, times=TIMES) as client:
            demo = Demo(Path(place), client, name_server)
            demo.edit(2)
            async with (
                Sender(client, "orders") as sender,
                app.running(demo.file, demo.state, demo.screen) as world,
            ):
                await demo.play(world, sender)
        found = counting.count(sender.sent, counting.bodies(demo.rows))
    print(found)
    return 0 if found.is_clean else 1


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except (EvenkeelError, MqError, process.SandboxError) as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(1)
