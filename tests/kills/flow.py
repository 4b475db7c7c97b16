"""
Plays one random history: it kills, freezes and replaces processes and brokers, and moves queues.

At the end everything runs again. Then each number that was sent must be in the files once, and the
offsets in the journal must be the ends of all queues.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mq_client.blocking import Client
from mq_client.errors import MqError
from mq_client.values import MessageQueue
from sandbox.rocketmq import RocketMq
from sandbox.waiting import wait_for
from spark_jobs import journal as offsets
from tests.kills.ground import Ground, Plan
from tests.real.numbers import Numbers, arrived

ROOT = Path(__file__).parents[2]
SLOTS = ("a", "b", "c")
EVENTS = 8
MOST_PAUSE, MOST_FROZEN = 1.0, 4.0
"""In seconds. The driver gives up a task that is silent for two seconds."""
PATIENCE_SECONDS = 300.0


@dataclass
class History:
    """The history that is being played, and what has happened in it."""

    mq: RocketMq
    client: Client
    ground: Ground
    rng: random.Random
    told: list[str] = field(default_factory=list)
    epoch: int = 0
    drivers: int = 0
    started: int = 0
    """How many tasks were started. The executor of the newest task has this number."""
    driver: subprocess.Popen[bytes] | None = None
    tasks: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    executors: dict[str, str] = field(default_factory=dict)
    given_up: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """Processes that were replaced by other processes, or whose slots are gone."""

    def begin(self) -> None:
        self.executors = dict.fromkeys(SLOTS[:2], "none")
        self.publish()
        self.start_driver()

    def publish(self) -> None:
        """Publish a plan with random owners."""
        self.epoch += 1
        slots = sorted(self.executors)
        queues = sorted(self.find_ends())
        owners = [(each.broker, each.id, self.rng.choice(slots)) for each in queues]
        self.ground.put("plan", Plan(self.epoch, owners, dict(self.executors)))

    def find_ends(self) -> dict[MessageQueue, int]:
        """Find where all queues end. Try again if a broker was just killed and does not answer."""

        def ask() -> dict[MessageQueue, int] | None:
            try:
                found = self.client.list_offsets(self.ground.topic)
            except MqError:
                return None
            return {queue: each.max for queue, each in found.items()}

        ends = wait_for(ask, bool, PATIENCE_SECONDS)
        assert ends, "the brokers do not answer"
        return ends

    def fill(self, slot: str) -> None:
        """Start a task in a slot, as a new executor."""
        self.started += 1
        self.executors[slot] = str(self.started)
        plan = self.ground.read_plan()
        self.ground.put("plan", Plan(plan.epoch, plan.owners, dict(self.executors)))
        self.tasks[slot] = self._start("task", str(self.drivers), slot, executor=str(self.started))

    def start_driver(self) -> None:
        self.drivers += 1
        self.driver = self._start("driver", str(self.drivers), executor="")
        found = wait_for(
            lambda: self.ground.find_driver(self.drivers) or not self.is_driving, bool,
            PATIENCE_SECONDS,
        )  # fmt: skip
        assert found, "the driver does not begin"
        if self.is_driving:
            for slot in list(self.executors):
                self.fill(slot)

    @property
    def is_driving(self) -> bool:
        return self.driver is not None and self.driver.poll() is None

    def _start(self, what: str, *words: str, executor: str) -> subprocess.Popen[bytes]:
        ground = self.ground
        command = [sys.executable, "-m", f"tests.kills.{what}", *words]
        command += [str(ground.folder), ground.name_server, ground.topic]
        with (ground.folder / "log").open("ab") as log:
            return subprocess.Popen(
                command, stderr=log, cwd=ROOT, env={**os.environ, "SPARK_EXECUTOR_ID": executor}
            )

    def end_all(self) -> None:
        """Kill all processes, also the tasks, because executors end with their driver."""
        for each in filter(None, [self.driver, *self.tasks.values(), *self.given_up]):
            each.kill()
            each.wait()
        self.tasks.clear()
        self.given_up.clear()

    def mend(self) -> None:
        """Let everything run again."""
        for each in self.given_up:
            each.send_signal(signal.SIGCONT)
        for broker in self.mq.brokers.values():
            if not broker.is_running:
                broker.restart()
        self.replace_ended()

    def replace_ended(self) -> None:
        """Start again what has ended, as Kubernetes and Spark do."""
        if not self.is_driving:
            self.end_all()
            self.start_driver()
        for slot, task in list(self.tasks.items()):
            if task.poll() is not None:
                self.fill(slot)


def kill_a_task(it: History) -> None:
    if it.tasks:
        slot = it.rng.choice(sorted(it.tasks))
        it.tasks[slot].kill()
        it.tasks[slot].wait()


def freeze_a_task(it: History) -> None:
    if it.tasks:
        task = it.tasks[it.rng.choice(sorted(it.tasks))]
        _freeze(it, task)


def replace_a_frozen_task(it: History) -> None:
    """A frozen task wakes up after another task has filled its slot."""
    if it.tasks:
        slot = it.rng.choice(sorted(it.tasks))
        task = it.tasks.pop(slot)
        task.send_signal(signal.SIGSTOP)
        it.given_up.append(task)
        it.fill(slot)


def thaw(it: History) -> None:
    for each in it.given_up:
        each.send_signal(signal.SIGCONT)


def kill_the_driver(it: History) -> None:
    it.end_all()


def freeze_the_driver(it: History) -> None:
    if it.driver is not None:
        _freeze(it, it.driver)


def replace_a_frozen_driver(it: History) -> None:
    """
    A frozen driver wakes up while a new driver uses the journal.

    The frozen driver must end, and must write nothing.
    """
    if it.driver is None:
        return
    frozen = it.driver
    frozen.send_signal(signal.SIGSTOP)
    tasks, it.tasks = list(it.tasks.values()), {}
    it.driver = None
    it.start_driver()
    frozen.send_signal(signal.SIGCONT)
    it.given_up += [frozen, *tasks]


def kill_a_broker(it: History) -> None:
    broker = it.rng.choice(sorted(it.mq.brokers))
    it.mq.brokers[broker].restart()


def move_queues(it: History) -> None:
    it.publish()


def scale(it: History) -> None:
    slots = SLOTS[: it.rng.randint(1, len(SLOTS))]
    for slot in sorted(it.executors.keys() - {*slots}):
        del it.executors[slot]
        task = it.tasks.pop(slot, None)
        if task is not None:
            it.given_up.append(task)  # the driver tells it to stop
    it.publish()
    for slot in slots:
        if slot not in it.executors:
            it.executors[slot] = "none"
            it.publish()
            it.fill(slot)


def add_a_queue(it: History) -> None:
    it.mq.create_topics({it.ground.topic: len(it.find_ends()) // len(it.mq.brokers) + 1})
    it.publish()


EVENT_WEIGHTS: dict[Callable[[History], None], int] = {
    kill_a_task: 6, freeze_a_task: 4, replace_a_frozen_task: 4, thaw: 3, kill_the_driver: 3,
    freeze_the_driver: 3, replace_a_frozen_driver: 2, kill_a_broker: 1, move_queues: 4, scale: 3,
    add_a_queue: 1,
}  # fmt: skip


def _freeze(it: History, process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGSTOP)
    time.sleep(it.rng.uniform(0.1, MOST_FROZEN))  # the process is frozen for this time
    process.send_signal(signal.SIGCONT)


@contextmanager
def _open(mq: RocketMq, client: Client, folder: Path, topic: str, seed: int) -> Iterator[History]:
    ground = Ground(folder, mq.name_server.address, topic)
    it = History(mq, client, ground, random.Random(seed))
    try:
        yield it
    finally:
        it.end_all()


def play(mq: RocketMq, client: Client, folder: Path, topic: str, seed: int) -> None:
    """Play the history of a seed; if it ends wrongly, raise an `AssertionError` with its events."""
    mq.create_topics({topic: 2})
    with _open(mq, client, folder, topic, seed) as it:
        try:
            with Numbers(mq.name_server.address, topic) as numbers:
                it.begin()
                for _ in range(EVENTS):
                    [event] = it.rng.choices(list(EVENT_WEIGHTS), list(EVENT_WEIGHTS.values()))
                    it.told.append(f"{numbers.sent:5d} sent  {event.__name__}")
                    event(it)
                    time.sleep(it.rng.uniform(0, MOST_PAUSE))
                    it.replace_ended()
                it.mend()
            _check(it, numbers)
        except (AssertionError, MqError, OSError) as error:
            log = (it.ground.folder / "log").read_text()[-20_000:]
            events = "\n".join(it.told)
            raise AssertionError(f"history {seed}: {error}\n{events}\n{log}") from error


def _check(it: History, numbers: Numbers) -> None:
    sure = set(range(numbers.sent)) - numbers.unsure

    def look() -> Counter[int]:
        it.replace_ended()
        return arrived(it.ground.rows)

    found = wait_for(look, lambda found: sure <= found.keys(), PATIENCE_SECONDS)
    assert sure <= found.keys(), f"lost: {sorted(sure - found.keys())[:9]}"
    ends = it.find_ends()
    read = wait_for(lambda: _read_journal(it), lambda read: read == ends, PATIENCE_SECONDS)
    assert read == ends, f"the journal has {read}, and the queues end at {ends}"
    found = arrived(it.ground.rows)
    doubled = sorted(number for number, count in found.items() if count > 1)
    assert not doubled, f"doubled: {doubled[:9]}"
    assert sum(found.values()) == sum(ends.values()), "each offset gave a row"


def _read_journal(it: History) -> dict[MessageQueue, int]:
    it.replace_ended()
    state = it.ground.journal.read_newest()
    assert state is not None
    return dict(offsets.read_offsets(state.offsets))
