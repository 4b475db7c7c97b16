"""Send messages: one or a batch; to a queue that a chooser picks, on another broker at a retry."""

import secrets
from collections.abc import Callable, Sequence
from typing import Protocol

from mq_client import errors, flows, messages, properties
from mq_client.commands.sending import Send, SendBatch
from mq_client.directory import Directory
from mq_client.flows import Flow, Pause, Tell
from mq_client.messages import Message
from mq_client.operations import routing
from mq_client.operations.routing import BrokerChoice
from mq_client.values import MessageQueue, Route, Sent, checked_queue

_ANYWHERE = 1 << 20
"""More than any topic has queues."""
MAY_PASS = (errors.UnavailableError, errors.BusyError)


class Chooser(Protocol):
    """Picks queues. It may learn from how sends end."""

    def choose(self, route: Route, failed_broker: str | None) -> MessageQueue:
        """Pick a writable queue, if possible not on the broker that just failed."""

    def ended(self, broker: str, seconds: float, error: errors.MqError | None) -> None:
        """Hear how a send ended."""


class RoundRobin:
    """Goes round all writable queues, and avoids the broker that just failed."""

    def __init__(self, start: int | None = None) -> None:
        """Start at this queue; without it at any, or all clients would begin on the same broker."""
        self._next = secrets.randbelow(_ANYWHERE) if start is None else start

    def choose(self, route: Route, failed_broker: str | None) -> MessageQueue:
        """Pick the next queue of a broker that did not fail, if there is one."""
        queues = route.writable
        if not queues:
            raise errors.NoBrokerError(
                f"topic {route.topic!r} has no writable queue on a broker with a master"
            )
        good = [queue for queue in queues if queue.broker != failed_broker] or queues
        self._next += 1
        return good[(self._next - 1) % len(good)]

    def ended(self, broker: str, seconds: float, error: errors.MqError | None) -> None:
        """Learn nothing."""


class To:
    """Picks one queue, for those who know it."""

    def __init__(self, queue: MessageQueue) -> None:
        """Take the queue."""
        self._queue = checked_queue(queue)

    def choose(self, route: Route, failed_broker: str | None) -> MessageQueue:
        """Pick it."""
        return self._queue

    def ended(self, broker: str, seconds: float, error: errors.MqError | None) -> None:
        """Learn nothing."""


def send(
    directory: Directory,
    batch: Message | Sequence[Message],
    chooser: Chooser,
    group: str = "evenkeel",
    tries: int = 3,
) -> Flow[Sent]:
    """
    Store a message, or several of one topic in one queue, and wait until the broker has them.

    At a failure the chooser picks again, after a pause that grows. A broker that fell silent may
    have stored them all the same, so with more than one try a message can be there twice.
    """
    if isinstance(batch, Message):
        batch = [batch]
    topic = messages.common_topic(batch)
    keys = _unique_keys(directory, batch)
    request_to = _encoded(batch, keys, group)
    failed: str | None = None
    pauses = directory.times.pauses()
    for left in reversed(range(tries)):
        route = yield from routing.usable_route(directory, topic, None if failed is None else 0)
        queue = _chosen(chooser, route, failed)
        since = directory.now()
        try:
            address = yield from routing.address_of(directory, BrokerChoice.of(queue))
            request = request_to(queue, directory.wall_ms())
            stored = yield from flows.ask(address, request, directory.times.answer)
        except errors.MqError as error:
            chooser.ended(queue.broker, directory.now() - since, error)
            if not left or not isinstance(error, MAY_PASS):
                raise
            failed = queue.broker
            yield Pause(next(pauses))
            continue
        chooser.ended(queue.broker, directory.now() - since, None)
        return Sent(*stored, tuple(keys))
    raise errors.UsageError(f"{tries} tries: at least one is needed")


def send_one_way(
    directory: Directory, message: Message, chooser: Chooser, group: str = "evenkeel"
) -> Flow[None]:
    """Send a message and do not wait: nobody hears whether it was stored."""
    request_to = _encoded([message], _unique_keys(directory, [message]), group)
    route = yield from routing.usable_route(directory, message.topic)
    queue = _chosen(chooser, route, None)
    address = yield from routing.address_of(directory, BrokerChoice.of(queue))
    yield Tell(address, request_to(queue, directory.wall_ms()))


def _unique_keys(directory: Directory, batch: Sequence[Message]) -> list[str]:
    """Find or make an id for each message; brokers do so only for single ones."""
    return [message.unique_key or directory.new_key() for message in batch]


def _encoded(
    batch: Sequence[Message], keys: Sequence[str], group: str
) -> Callable[[MessageQueue, int], Send]:
    """Encode once what is sent to the queue of each try, at its time."""
    if len(batch) > 1:
        content = messages.encode_batch(batch, keys)
        return lambda queue, now_ms: SendBatch(group, queue, content, "", now_ms)
    (message,) = batch
    if not message.body:
        raise errors.UsageError(
            f"message to topic {message.topic!r}: brokers refuse an empty body, but in a batch"
        )
    text = str(properties.encode(message.wire_properties(keys[0])), "utf-8")
    return lambda queue, now_ms: Send(group, queue, message.body, text, now_ms, flag=message.flag)


def _chosen(chooser: Chooser, route: Route, failed_broker: str | None) -> MessageQueue:
    queue = chooser.choose(route, failed_broker)
    if queue.topic != route.topic:
        raise errors.UsageError(f"the chooser picked {queue} for messages to topic {route.topic!r}")
    return queue
