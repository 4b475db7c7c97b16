"""Chooses the queue of each message: `lb_core.producer`, as `mq_client` asks for it."""

import time
from collections.abc import Callable

from lb_core import producer
from lb_core.model import QueueRange
from mq_client import errors
from mq_client.values import MessageQueue, Route


def _milliseconds() -> float:
    return time.monotonic() * 1000


class Balanced:
    """Goes round all queues, and leaves out brokers that were slow or failed a while ago."""

    def __init__(self, now_ms: Callable[[], float] = _milliseconds) -> None:
        """Start at the first queue."""
        self.state = producer.ProducerState()
        self._now_ms = now_ms

    def choose(self, route: Route, failed_broker: str | None) -> MessageQueue:
        """Pick the next queue."""
        choice = producer.choose(
            route.topic, writable(route), self.state, failed_broker, self._now_ms()
        )
        self.state = choice.state
        return MessageQueue(choice.queue.topic, choice.queue.broker, choice.queue.id)

    def note_end(self, broker: str, seconds: float, error: errors.MqError | None) -> None:
        """Learn how the broker fares."""
        now_ms = self._now_ms()
        self.state = producer.note(self.state, broker, _outcome(error), seconds * 1000, now_ms)


def by_key(topic: str, queues: tuple[QueueRange, ...], key: str) -> MessageQueue:
    """Pick the queue of a key: always the same while the topic's queues are."""
    queue = producer.choose_by_key(topic, queues, key)
    return MessageQueue(queue.topic, queue.broker, queue.id)


def writable(route: Route) -> tuple[QueueRange, ...]:
    """List the queues that a route offers to producers, as ranges."""
    if route.is_static:
        raise errors.UsageError(f"topic {route.topic!r} is a static topic, which is not supported")
    return tuple(
        QueueRange(route.topic, each.broker, 0, each.write_queues, each.zone)
        for each in route.brokers
        if each.is_writable and each.write_queues
    )


def _outcome(error: errors.MqError | None) -> producer.SendOutcome:
    if error is None:
        return producer.SendOutcome.SENT
    is_silent = isinstance(error, errors.UnavailableError)
    return producer.SendOutcome.NO_ANSWER if is_silent else producer.SendOutcome.REFUSED
