"""What both sides play: a topic with a steady flow of messages, and what happens around it."""

import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from benchmarks import progress
from benchmarks.handover import effects, flow
from benchmarks.handover.effects import Consumed, Mark, Outcome, Sent
from mq_client.blocking import Client
from mq_client.values import MessageQueue
from sandbox.node.shop import Shop

BROKERS_COUNT = 2
QUEUES, MORE_QUEUES = 4, 6
"""On each broker."""
CONSUMERS = 2
QUIET_SECONDS = 15.0

Fault = Callable[[str, str], AbstractContextManager[None]]
"""Strikes a pod of a namespace until it is left."""


class Side(Protocol):
    """
    Consumers of one topic.

    Each method returns when every queue is consumed steadily, as it should be then.
    """

    def join(self) -> None:
        """Add a consumer."""

    def leave(self) -> None:
        """Take it away again; it may say good-bye."""

    def kill(self) -> None:
        """Kill a consumer; another one takes its place."""

    def strike(self, fault: Fault) -> None:
        """Let a fault happen to a consumer, until its queues are consumed again."""

    def recover(self) -> None:
        """Let it go on."""

    def add_queues(self) -> None:
        """Have more queues."""

    def await_steady(self) -> None:
        """Do nothing else."""

    def finish(self, sent: Sent) -> None:
        """Consume what there still is, and go."""

    def find_owners(self) -> Mapping[MessageQueue, str]:
        """Tell who owns which queue now."""

    def list_consumed(self) -> Iterable[Consumed]:
        """Tell all that was consumed, when it is finished."""


AnySide = TypeVar("AnySide", bound=Side)

QUIET, JOIN, LEAVE, KILL = "quiet", "one joins", "one leaves", "one is killed"
FREEZE, THAW = "one is frozen", "it is thawed"
CUT, HEAL = "one is cut off", "it is back"
ADD, BROKER = "queues are added", "a broker is killed"


def kill_broker(shop: Shop, side: Side) -> None:
    """Kill a broker; Kubernetes starts it again."""
    shop.kill_broker()
    side.await_steady()


EVENTS: Mapping[str, Callable[[Shop, Side], None]] = {
    QUIET: lambda _, __: time.sleep(QUIET_SECONDS),
    JOIN: lambda _, side: side.join(),
    LEAVE: lambda _, side: side.leave(),
    KILL: lambda _, side: side.kill(),
    FREEZE: lambda shop, side: side.strike(shop.node.faults.frozen),
    THAW: lambda _, side: side.recover(),
    CUT: lambda shop, side: side.strike(shop.node.faults.cut_off),
    HEAL: lambda _, side: side.recover(),
    ADD: lambda _, side: side.add_queues(),
    BROKER: kill_broker,
}


def play(
    shop: Shop,
    topic: str,
    starts: Callable[[Shop, Client, str], AbstractContextManager[AnySide]],
    events: Mapping[str, Callable[[Shop, AnySide], None]],
) -> Outcome:
    """Let all events happen to one side, one after the other."""
    where = shop.name_server()
    with (
        Client(where) as client,
        starts(shop, client, topic) as side,
        flow.flowing(where, topic, shop.folder / f"{topic}.sent") as flowing,
    ):
        marks: list[Mark] = []

        def mark(event: str) -> None:
            progress.say(f"{topic}: {event}")
            marks.append(Mark(event, time.time(), side.find_owners()))

        progress.say(f"{topic}: starting")
        side.await_steady()
        for event, happens in events.items():
            time.sleep(random.random())  # what is awaited is a batch's end; events come at any time
            mark(event)
            happens(shop, side)
        mark("the end")
        sent = flowing.stop()
        side.finish(sent)
        return effects.measure(side.list_consumed(), marks, sent)
