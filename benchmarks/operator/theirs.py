"""
Measures how long queues of RocketMQ's push consumers stand still.

A killed process is the best case for RocketMQ: the kernel closes its connection, so the broker
notices at once. A frozen process is like one on a lost machine: brokers notice only by a timeout.
"""

import contextlib
import functools
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks import peers
from benchmarks.handover import effects, scene, sending, theirs
from benchmarks.handover.consumers import Consumers
from benchmarks.handover.effects import Effect, Mark
from mq_client.blocking import Client
from sandbox import jars, process, rocketmq

REBALANCE_SECONDS = 20.0
"""`RebalanceService`: rocketmq.client.rebalance.waitInterval is 20000 ms."""
DROPPED_SECONDS = 120.0
"""`BrokerConfig`: channelExpiredTimeout is 1000 * 120 ms."""
QUEUES = 8
KILLED, FROZEN = "one is killed", "one is frozen"
_TOPIC = "beside"
_PROPERTIES = {"waitTimeMillsInSendQueue": "10000"}  # by default a busy broker refuses after 0.2 s
_SECONDS_TO_LEAVE = 30.0


class _Processes:
    """Runs the consumers as processes on this machine."""

    def __init__(self, place: process.Folder, said: Path, name_server: str) -> None:
        self._place = place
        self._said = said
        libraries = os.pathsep.join(
            (str(theirs.compile_consumer()), jars.fetch_classpath(peers.ROCKETMQ))
        )
        self._java = (
            f"exec {jars.find_java()} -Xms128m -Xmx128m -Drocketmq.log.root={place.path} "
            f"-cp {libraries} Push {name_server} {_TOPIC} group-{_TOPIC}"
        )
        self._running: dict[str, process.ChildProcess] = {}
        self._count = 0

    def scale(self, count: int) -> None:
        seats = [f"{_TOPIC}-{number}" for number in range(count)]
        for seat in self._running.keys() - set(seats):
            self._running.pop(seat).stop(_SECONDS_TO_LEAVE)
        for seat in seats:
            if seat not in self._running:
                self._start(seat)

    def kill(self, seat: str) -> None:
        self._running[seat].kill()
        self._start(seat)

    @contextlib.contextmanager
    def frozen(self, _: str, seat: str) -> Iterator[None]:
        pid = self._running[seat].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def _start(self, seat: str) -> None:
        self._count += 1
        name = f"{seat}.{self._count}"
        command = ["sh", "-c", f"{self._java} > {self._said / name}"]
        self._running[seat] = process.ChildProcess(name, command, self._place, {})


def play_standstills(events: tuple[str, ...], say: Callable[[str], None]) -> dict[str, float]:
    """Play these events on push consumers. Return the longest standstills."""
    with (
        rocketmq.run(brokers=1, properties=_PROPERTIES) as mq,
        process.make_folder("evenkeel-beside-") as place,
    ):
        where = mq.name_server.address
        mq.create_topics({_TOPIC: QUEUES})
        said = place.path / "said"
        said.mkdir()
        crew = _Processes(place, said, where)
        crew.scale(scene.CONSUMERS)
        happens: Mapping[str, Callable[[], None]] = {
            KILLED: lambda: side.kill(),
            FROZEN: lambda: side.strike(crew.frozen),
        }
        with (
            Client(where) as client,
            sending.keep_sending(where, _TOPIC, place.path / "sent") as steady,
            contextlib.ExitStack() as struck,
        ):
            set_queues = functools.partial(theirs.set_queues, client, _TOPIC)
            side = Consumers(crew, set_queues, _TOPIC, said, struck, QUEUES)
            say(f"{theirs.NAME}: starting")
            side.await_steady()
            marks: list[Mark] = []
            for event in events:
                time.sleep(random.random())  # an event must come at a random time
                say(f"{theirs.NAME}: {event}")
                marks.append(Mark(event, time.time(), side.find_owners()))
                happens[event]()
            marks.append(Mark("the end", time.time(), side.find_owners()))
            sent = steady.stop()
            found: Mapping[str, Effect] = effects.measure(side.list_consumed(), marks, sent).effects
            return {event: effect.standstill for event, effect in found.items()}
