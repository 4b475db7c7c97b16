"""Send one message or a batch. A chooser picks the queue. Retries use another broker."""

from collections.abc import Callable, Sequence

from mq_client import errors, flows, messages, properties
from mq_client.choosers import Chooser
from mq_client.commands.sending import Send, SendBatch
from mq_client.directory import Directory
from mq_client.flows import Flow, Pause, Tell
from mq_client.messages import Message
from mq_client.operations import routing
from mq_client.operations.routing import BrokerChoice
from mq_client.values import MessageQueue, Route, Sent


def send(
    directory: Directory,
    batch: Message | Sequence[Message],
    chooser: Chooser,
    group: str = "evenkeel",
    tries: int = 3,
) -> Flow[Sent]:
    """
    Send one message, or several messages of one topic, and wait until a broker has stored them.

    Several messages go to one queue. After a failure, the chooser picks another queue. The pause
    between tries grows. A broker that did not answer may still have stored the messages, so with
    more than one try they may be stored twice.
    """
    if isinstance(batch, Message):
        batch = [batch]
    topic = messages.find_common_topic(batch)
    keys = _make_unique_keys(directory, batch)
    request_to = _encode(batch, keys, group)
    failed: str | None = None
    pauses = directory.times.make_pauses()
    for left in reversed(range(tries)):
        route = yield from routing.find_usable_route(
            directory, topic, None if failed is None else 0
        )
        queue = _choose(chooser, route, failed)
        since = directory.now()
        try:
            address = yield from routing.find_address(directory, BrokerChoice.from_queue(queue))
            request = request_to(queue, directory.wall_ms())
            stored = yield from flows.ask(address, request, directory.times.answer)
        except errors.MqError as error:
            chooser.note_end(queue.broker, directory.now() - since, error)
            if not left or not isinstance(error, errors.MAY_PASS):
                raise
            failed = queue.broker
            yield Pause(next(pauses))
            continue
        chooser.note_end(queue.broker, directory.now() - since, None)
        return Sent(*stored, tuple(keys))
    raise errors.UsageError(f"tries={tries}: at least 1 is needed")


def send_one_way(
    directory: Directory, message: Message, chooser: Chooser, group: str = "evenkeel"
) -> Flow[None]:
    """Send a message without waiting for an answer. It may be lost without an error."""
    request_to = _encode([message], _make_unique_keys(directory, [message]), group)
    route = yield from routing.find_usable_route(directory, message.topic)
    queue = _choose(chooser, route, None)
    address = yield from routing.find_address(directory, BrokerChoice.from_queue(queue))
    yield Tell(address, request_to(queue, directory.wall_ms()))


def _make_unique_keys(directory: Directory, batch: Sequence[Message]) -> list[str]:
    """Find or make an id for each message. Brokers make ids only for single messages."""
    return [message.unique_key or directory.new_key() for message in batch]


def _encode(
    batch: Sequence[Message], keys: Sequence[str], group: str
) -> Callable[[MessageQueue, int], Send]:
    """Encode the messages once, and return a function that makes the request of each try."""
    if len(batch) > 1:
        content = messages.encode_batch(batch, keys)
        return lambda queue, now_ms: SendBatch(group, queue, content, "", now_ms)
    (message,) = batch
    if not message.body:
        raise errors.UsageError(
            f"message to topic {message.topic!r}: brokers accept an empty body only in a batch"
        )
    text = str(properties.encode(message.make_wire_properties(keys[0])), "utf-8")
    return lambda queue, now_ms: Send(group, queue, message.body, text, now_ms, flag=message.flag)


def _choose(chooser: Chooser, route: Route, failed_broker: str | None) -> MessageQueue:
    queue = chooser.choose(route, failed_broker)
    if queue.topic != route.topic:
        raise errors.UsageError(f"the chooser picked {queue} for messages to topic {route.topic!r}")
    return queue
