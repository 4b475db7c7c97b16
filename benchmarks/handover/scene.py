"""What both sides play: a topic with a steady flow of messages, and what happens around it."""

import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from benchmarks.handover import effects, flow
from benchmarks.handover.effects import Consumed, Mark, Outcome
from mq_client.blocking import Client
from mq_client.values import Queue, TopicConfig
from sandbox.rocketmq import RocketMq

QUEUES, MORE_QUEUES = 8, 12
CONSUMERS = 2
QUIET_SECONDS = 15.0


class Side(Protocol):
    """
    Consumers of one topic.

    Each method returns when every queue is consumed steadily, as it should be then.
    """

    def begin(self) -> None:
        """Have the first consumers at work."""

    def join(self) -> None:
        """Add a consumer."""

    def leave(self) -> None:
        """Take it away again; it may say good-bye."""

    def kill(self) -> None:
        """Kill a consumer; another one takes its place."""

    def freeze(self) -> None:
        """Stop a consumer as a machine does that hangs, until its queues are consumed again."""

    def thaw(self) -> None:
        """Let it go on."""

    def add_queues(self) -> None:
        """Have more queues."""

    def finish(self, sent: int) -> None:
        """Consume what there still is; so many messages were sent in all."""

    def owners(self) -> Mapping[Queue, str]:
        """Tell who owns which queue now."""

    def consumed(self) -> Iterable[Consumed]:
        """Tell all that was consumed, when it is finished."""


Starts = Callable[[str, Client, str], AbstractContextManager[Side]]
"""Starts a side: from name server, client and topic."""

QUIET, JOIN, LEAVE, KILL = "quiet", "one joins", "one leaves", "one is killed"
FREEZE, THAW, ADD = "one is frozen", "it is thawed", "queues are added"
EVENTS: Mapping[str, Callable[[Side], None]] = {
    QUIET: lambda _: time.sleep(QUIET_SECONDS),
    JOIN: lambda side: side.join(),
    LEAVE: lambda side: side.leave(),
    KILL: lambda side: side.kill(),
    FREEZE: lambda side: side.freeze(),
    THAW: lambda side: side.thaw(),
    ADD: lambda side: side.add_queues(),
}


def play(mq: RocketMq, topic: str, starts: Starts, say: Callable[[str], None]) -> Outcome:
    """Let all events happen to one side, one after the other."""
    mq.create_topics({topic: QUEUES})
    where = mq.name_server.address
    marks: list[Mark] = []

    def mark(event: str) -> None:
        say(f"{topic}: {event}")
        marks.append(Mark(event, time.time(), side.owners()))

    with (
        Client(where) as client,
        flow.flowing(where, topic) as sender,
        starts(where, client, topic) as side,
    ):
        say(f"{topic}: starting")
        side.begin()
        for event, happens in EVENTS.items():
            time.sleep(random.random())  # what is awaited is a batch's end; events come at any time
            mark(event)
            happens(side)
        mark("the end")
        sent = flow.stopped(sender)
        side.finish(sent)
        return effects.outcome(side.consumed(), marks, sent)


def add_queues(client: Client, topic: str) -> None:
    """Give the topic its further queues."""
    client.put_topics([TopicConfig(topic, MORE_QUEUES, MORE_QUEUES)])
