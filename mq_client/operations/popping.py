"""Take messages one by one, acknowledge them, give them back, or send them to the dead letters."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from mq_client import errors, filters, flows
from mq_client.commands.base import Request
from mq_client.commands.popping import (
    ALL_QUEUES,
    Ack,
    BatchAck,
    ChangeInvisible,
    GetParkedPops,
    Notification,
    Pop,
    SendBack,
)
from mq_client.directory import LATE_POLL, Directory
from mq_client.filters import Filter
from mq_client.flows import Ask, AskAll, Flow
from mq_client.operations import routing
from mq_client.operations.routing import BrokerChoice
from mq_client.popping import PopHandle, PoppedMessage
from mq_client.pulling import POLL_MS

MOST_POPPED = 32
"""A broker returns at most this many messages for one pop."""
INVISIBLE_MS = 60_000


def pop(
    directory: Directory,
    group: str,
    topic: str,
    broker: str,
    *,
    most: int = MOST_POPPED,
    invisible_ms: int = INVISIBLE_MS,
    poll_ms: int = POLL_MS,
    wanted: Filter = filters.EVERYTHING,
    queue_id: int = ALL_QUEUES,
    from_end: bool = False,
    is_ordered: bool = False,
    attempt_id: str | None = None,
) -> Flow[list[PoppedMessage]]:
    """
    Take up to `most` messages from one broker. If there are none, wait for `poll_ms`.

    Nobody else gets these messages for `invisible_ms`. Then they come again, unless they are
    acknowledged. `is_ordered`: a queue gives no message while one that was popped from it is
    neither acknowledged nor visible again.
    """
    request = Pop(
        group, topic, most, invisible_ms, poll_ms, queue_id, wanted, from_end, is_ordered,
        attempt_id,
    )  # fmt: skip
    address = yield from _find_address(directory, topic, broker)
    timeout = directory.times.answer + poll_ms / 1000 + LATE_POLL
    popped = yield from flows.ask(address, request, timeout)
    return popped.to_messages(group, topic, broker)


def acknowledge(
    directory: Directory, group: str, topic: str, handles: Sequence[PopHandle]
) -> Flow[None]:
    """
    Acknowledge messages: nobody gets them again.

    After an error, some may be acknowledged. The call may be repeated. A handle that is too old, or
    that was used before, has no effect and gives no error.
    """
    by_broker: dict[str, list[PopHandle]] = defaultdict(list)
    for handle in handles:
        by_broker[handle.broker].append(handle)
    asks = []
    for broker, found in by_broker.items():
        address = yield from _find_address(directory, topic, broker)
        request: Request[None] = (
            Ack(group, topic, found[0]) if len(found) == 1 else BatchAck(group, topic, tuple(found))
        )
        asks.append(Ask(address, request, directory.times.answer))
    outcomes: list[Any] = yield AskAll(tuple(asks))
    for outcome in outcomes:
        if isinstance(outcome, errors.MqError):
            raise outcome


def change_invisible(
    directory: Directory, group: str, topic: str, handle: PopHandle, invisible_ms: int
) -> Flow[PopHandle]:
    """
    Keep a message for so many milliseconds from now, or give it back with 0. Return its new handle.

    The old handle has no effect any more.
    """
    address = yield from _find_address(directory, topic, handle.broker)
    request = ChangeInvisible(group, topic, handle, invisible_ms)
    return (yield from flows.ask(address, request, directory.times.answer))


def send_to_dead_letters(
    directory: Directory, group: str, topic: str, popped: PoppedMessage
) -> Flow[None]:
    """
    Copy a message to `%DLQ%<group>`, then acknowledge it.

    A broker never does this by itself for popped messages. If the caller dies in between, the
    message comes again, and is copied again.
    """
    message = popped.message
    address = yield from _find_address(directory, topic, popped.handle.broker)
    request = SendBack(group, topic, message.commit_log_offset, message.msg_id)
    yield from flows.ask(address, request, directory.times.answer)
    yield from acknowledge(directory, group, topic, [popped.handle])


def wait_for_messages(
    directory: Directory, group: str, topic: str, broker: str, poll_ms: int = POLL_MS
) -> Flow[bool]:
    """Wait until a broker has a message to pop; return whether it has one. Take nothing."""
    address = yield from _find_address(directory, topic, broker)
    timeout = directory.times.answer + poll_ms / 1000 + LATE_POLL
    return (yield from flows.ask(address, Notification(group, topic, poll_ms), timeout))


def count_parked_pops(directory: Directory, group: str, topic: str) -> Flow[dict[str, int]]:
    """Count the pops that wait for messages, by broker."""
    request = GetParkedPops(group, topic)
    answers = yield from routing.ask_brokers(directory, topic, request)
    flows.require_all(answers)
    return {name: count for name, count in answers.items() if isinstance(count, int)}


def _find_address(directory: Directory, topic: str, broker: str) -> Flow[str]:
    return (yield from routing.find_address(directory, BrokerChoice(topic, broker)))
