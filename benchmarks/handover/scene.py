"""Plays the same scene on all sides: messages at a steady rate to a topic, and events."""

import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from benchmarks import progress
from benchmarks.handover import effects, sending
from benchmarks.handover.effects import Consumed, Mark, Outcome, Sent
from mq_client.blocking import Client
from mq_client.values import MessageQueue
from sandbox.node.shop import Shop

BROKERS_COUNT = 2
QUEUES, MORE_QUEUES = 4, 6
"""How many queues the topic has on each broker, at first and later."""
CONSUMERS = 2
QUIET_SECONDS = 15.0

Fault = Callable[[str, str], AbstractContextManager[None]]
"""Takes the namespace and name of a pod; returns a context in which the pod has a fault."""


class Side(Protocol):
    """
    Consumers of one topic.

    Each method returns only when every queue is consumed steadily again.
    """

    def join(self) -> None:
        """Add a consumer."""

    def leave(self) -> None:
        """Remove that consumer. It has time to shut down properly."""

    def kill(self) -> None:
        """Kill a consumer; another one takes its place."""

    def strike(self, fault: Fault) -> None:
        """Apply a fault to a consumer, and wait until its queues are consumed again."""

    def recover(self) -> None:
        """End the fault."""

    def add_queues(self) -> None:
        """Add queues."""

    def await_steady(self) -> None:
        """Wait until consumption is steady."""

    def finish(self, sent: Sent) -> None:
        """Consume the remaining messages, and stop all consumers."""

    def find_owners(self) -> Mapping[MessageQueue, str]:
        """Find the current owner of each queue."""

    def list_consumed(self) -> Iterable[Consumed]:
        """List all messages that were consumed; called after `finish`."""


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
    FREEZE: lambda shop, side: side.strike(shop.node.faults.freeze),
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
    """Play all events on one side, one after another."""
    where = shop.name_server()
    with (
        Client(where) as client,
        starts(shop, client, topic) as side,
        sending.keep_sending(where, topic, shop.folder / f"{topic}.sent") as steady,
    ):
        marks: list[Mark] = []

        def mark(event: str) -> None:
            progress.say(f"{topic}: {event}")
            marks.append(Mark(event, time.time(), side.find_owners()))

        progress.say(f"{topic}: starting")
        side.await_steady()
        for event, happens in events.items():
            time.sleep(random.random())  # events must come at any time, not just after a batch
            mark(event)
            happens(shop, side)
        mark("the end")
        sent = steady.stop()
        side.finish(sent)
        return effects.measure(side.list_consumed(), marks, sent)
