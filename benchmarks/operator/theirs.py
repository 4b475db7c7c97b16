"""
RocketMQ's side: what its defaults promise, and how long queues of a push consumer stand still.

A killed process is the best case for RocketMQ: its kernel closes the connection, so the broker
hears of it at once. A frozen one stands for a machine that is gone, and only time tells.
"""

import random
import time
from collections.abc import Callable, Mapping

from benchmarks.handover import effects, flow, theirs
from benchmarks.handover.effects import Effect, Mark
from benchmarks.handover.theirs import Theirs
from mq_client.blocking import Client
from sandbox import rocketmq

REBALANCE_SECONDS = 20.0
"""`RebalanceService`: rocketmq.client.rebalance.waitInterval is 20000 ms."""
DROPPED_SECONDS = 120.0
"""`BrokerConfig`: channelExpiredTimeout is 1000 * 120 ms."""
QUEUES = 8
KILLED, FROZEN = "one is killed", "one is frozen"
_TOPIC = "beside"
_PROPERTIES = {"waitTimeMillsInSendQueue": "10000"}  # on a busy machine it would refuse after 0.2 s
_EVENTS: Mapping[str, Callable[[Theirs], None]] = {
    KILLED: lambda side: side.kill(),
    FROZEN: lambda side: side.freeze(),
}


def standstills(events: tuple[str, ...], say: Callable[[str], None]) -> dict[str, float]:
    """Let these happen to a group of push consumers; the longest that a queue stood still."""
    with rocketmq.started(brokers=1, properties=_PROPERTIES) as mq:
        where = mq.name_server.address
        mq.create_topics({_TOPIC: QUEUES})
        with (
            Client(where) as client,
            flow.flowing(where, _TOPIC) as sender,
            theirs.started(where, client, _TOPIC) as side,
        ):
            say(f"{theirs.NAME}: starting")
            side.begin()
            marks: list[Mark] = []
            for event in events:
                time.sleep(random.random())  # it comes at any time
                say(f"{theirs.NAME}: {event}")
                marks.append(Mark(event, time.time(), side.owners()))
                _EVENTS[event](side)
            marks.append(Mark("the end", time.time(), side.owners()))
            sent = flow.stopped(sender)
            found: Mapping[str, Effect] = effects.outcome(side.consumed(), marks, sent).effects
            return {event: effect.standstill for event, effect in found.items()}
