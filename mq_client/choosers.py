"""Pick the queue of each message that is sent, in turn, by a key, or as the caller says."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from lb_core import producer
from lb_core.model import QueueRange
from mq_client import errors
from mq_client.machine import read_clock
from mq_client.values import MessageQueue, Route, check_queue

TEST_SECONDS = 10.0
"""How long `AvoidSlow` waits for the outcome of a test, which may never come."""
_ANYWHERE = 1 << 20
"""More queues than any topic has."""


class Chooser(Protocol):
    """
    Picks queues for sends, and may use the outcomes of earlier sends.

    A client calls its choosers one at a time, also if it is used by several threads.
    """

    def choose(self, route: Route, failed_broker: str | None) -> MessageQueue:
        """Pick a writable queue, if possible not on the broker that has just failed."""

    def note_end(self, broker: str, seconds: float, error: errors.MqError | None) -> None:
        """Note the outcome of a send."""


class To:
    """Always picks the same queue."""

    def __init__(self, queue: MessageQueue) -> None:
        """Check the queue."""
        self._queue = check_queue(queue)

    def choose(self, route: Route, failed_broker: str | None) -> MessageQueue:
        """Return the queue."""
        return self._queue

    def note_end(self, broker: str, seconds: float, error: errors.MqError | None) -> None:
        """Ignore the outcome."""


class ByKey:
    """Picks the same queue for the same key, so that messages with this key keep their order."""

    def __init__(self, key: str) -> None:
        """Store the key."""
        self._key = key

    def choose(self, route: Route, failed_broker: str | None) -> MessageQueue:
        """Return the queue of the key, even if its broker has just failed."""
        return choose_by_key(list_writable(route), self._key)

    def note_end(self, broker: str, seconds: float, error: errors.MqError | None) -> None:
        """Ignore the outcome."""


class RoundRobin:
    """Picks each writable queue in turn, and avoids the broker that has just failed."""

    def __init__(self, start: int | None = None) -> None:
        """Start at the queue with this index. Default: random, so that clients use all brokers."""
        self._next = secrets.randbelow(_ANYWHERE) if start is None else start

    def choose(self, route: Route, failed_broker: str | None) -> MessageQueue:
        """Pick the next queue on a broker that has not failed, if there is one."""
        queues = route.writable
        if not queues:
            raise _make_no_queue_error(route)
        good = [queue for queue in queues if queue.broker != failed_broker] or queues
        self._next += 1
        return good[(self._next - 1) % len(good)]

    def note_end(self, broker: str, seconds: float, error: errors.MqError | None) -> None:
        """Ignore the outcome."""


class AvoidSlow:
    """
    Picks each writable queue in turn, but avoids brokers that lately failed or were slow.

    The pauses are RocketMQ's. After a pause, one message tests the broker. Until its outcome is
    known, the others go elsewhere, if possible.
    """

    def __init__(self, start: int | None = None, clock: Callable[[], float] = read_clock) -> None:
        """Start at the queue with this index, with trust in all brokers. Default: random."""
        self.state = producer.ProducerState()
        self._start = secrets.randbelow(_ANYWHERE) if start is None else start
        self._clock = clock
        self._tested_until: dict[str, float] = {}
        """For each broker that was avoided: until when the outcome of its test is awaited."""

    def choose(self, route: Route, failed_broker: str | None) -> MessageQueue:
        """Pick the next queue."""
        now, view = self._clock(), list_writable(route)
        others = [each for each in view if each.broker != failed_broker] or view
        free = [each for each in others if now >= self._tested_until.get(each.broker, now)]
        begun = replace(self.state, indexes={route.topic: self._start, **self.state.indexes})
        choice = producer.choose(route.topic, free or others, begun, failed_broker, now * 1000)
        self.state, queue = choice.state, choice.queue
        is_available = self.state.is_available(queue.broker, now * 1000)
        if is_available and queue.broker in self._tested_until:
            self._tested_until[queue.broker] = now + TEST_SECONDS
        return MessageQueue(queue.topic, queue.broker, queue.id)

    def note_end(self, broker: str, seconds: float, error: errors.MqError | None) -> None:
        """Trust the broker, or avoid it for a while."""
        now = self._clock()
        was_available = self.state.is_available(broker, (now - seconds) * 1000)
        outcome = _classify(error)
        self.state = producer.note(self.state, broker, outcome, seconds * 1000, now * 1000)
        if not self.state.is_available(broker, now * 1000):
            self._tested_until[broker] = now
        elif was_available:  # otherwise it answered a send that began during its pause
            self._tested_until.pop(broker, None)


def choose_by_key(queues: Sequence[QueueRange], key: str) -> MessageQueue:
    """
    Choose the queue of a key: always the same queue while the topic's queues stay the same.

    RocketMQ's `SelectMessageQueueByHash` chooses the same one for this text.
    """
    queue = producer.choose_by_key(queues[0].topic, queues, key)
    return MessageQueue(queue.topic, queue.broker, queue.id)


def list_writable(route: Route) -> list[QueueRange]:
    """List the queues that a route offers to producers, as ranges. There is at least one."""
    if route.is_static:
        raise errors.UsageError(f"topic {route.topic!r} is a static topic, which is not supported")
    found = [
        QueueRange(route.topic, each.broker, 0, each.write_queues, each.zone)
        for each in route.brokers
        if each.is_writable and each.write_queues
    ]
    if not found:
        raise _make_no_queue_error(route)
    return found


def _make_no_queue_error(route: Route) -> errors.NoBrokerError:
    return errors.NoBrokerError(
        f"topic {route.topic!r} has no writable queue on a broker with a master"
    )


def _classify(error: errors.MqError | None) -> producer.SendOutcome:
    if error is None:
        return producer.SendOutcome.SENT
    is_silent = isinstance(error, errors.UnavailableError)
    return producer.SendOutcome.NO_ANSWER if is_silent else producer.SendOutcome.REFUSED
