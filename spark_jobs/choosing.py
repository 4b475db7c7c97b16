"""Chooses the queue of each message that `mq_client` sends, with `lb_core.producer`."""

import time
from collections.abc import Callable

from lb_core import producer
from lb_core.model import QueueRange
from mq_client import errors
from mq_client.values import MessageQueue, Route


def _read_clock_ms() -> float:
    return time.monotonic() * 1000


class Balanced:
    """Uses all queues in turn, and avoids brokers that were slow or failed recently."""

    def __init__(self, now_ms: Callable[[], float] = _read_clock_ms) -> None:
        """Start at the first queue."""
        self.state = producer.ProducerState()
        self._now_ms = now_ms

    def choose(self, route: Route, failed_broker: str | None) -> MessageQueue:
        """Choose the next queue."""
        choice = producer.choose(
            route.topic, list_writable(route), self.state, failed_broker, self._now_ms()
        )
        self.state = choice.state
        return MessageQueue(choice.queue.topic, choice.queue.broker, choice.queue.id)

    def note_end(self, broker: str, seconds: float, error: errors.MqError | None) -> None:
        """Note how long a broker took to store a message, and its error if it failed."""
        now_ms = self._now_ms()
        self.state = producer.note(self.state, broker, _classify(error), seconds * 1000, now_ms)


def choose_by_key(topic: str, queues: tuple[QueueRange, ...], key: str) -> MessageQueue:
    """Choose the queue of a key: always the same queue while the topic's queues stay the same."""
    queue = producer.choose_by_key(topic, queues, key)
    return MessageQueue(queue.topic, queue.broker, queue.id)


def list_writable(route: Route) -> tuple[QueueRange, ...]:
    """List the queues that a route offers to producers, as ranges."""
    if route.is_static:
        raise errors.UsageError(f"topic {route.topic!r} is a static topic, which is not supported")
    return tuple(
        QueueRange(route.topic, each.broker, 0, each.write_queues, each.zone)
        for each in route.brokers
        if each.is_writable and each.write_queues
    )


def _classify(error: errors.MqError | None) -> producer.SendOutcome:
    if error is None:
        return producer.SendOutcome.SENT
    is_silent = isinstance(error, errors.UnavailableError)
    return producer.SendOutcome.NO_ANSWER if is_silent else producer.SendOutcome.REFUSED
