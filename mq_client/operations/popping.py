"""Take messages one by one, acknowledge them, give them back, or send them to the dead letters."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from mq_client import errors, filters, flows
from mq_client.commands.base import Request
from mq_client.commands.offsets import GetLag
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
from mq_client.popping import MOST_POPPED, PopHandle, PoppedMessage, PopSource, Waiting
from mq_client.pulling import POLL_MS

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
    source: PopSource = PopSource.TOPIC,
) -> Flow[list[PoppedMessage]]:
    """
    Take up to `most` messages from one broker. If there are none, wait for `poll_ms`.

    Nobody else gets these messages for `invisible_ms`. Then they come again, unless they are
    acknowledged. `is_ordered`: a queue gives no message while one that was popped from it is
    neither acknowledged nor visible again. `source`: a pop of the topic also takes the group's
    retries of it; a pop of retries takes nothing else.
    """
    request = Pop(
        group, source.name_topic(group, topic), most, invisible_ms, poll_ms, queue_id, wanted,
        from_end, is_ordered, attempt_id,
    )  # fmt: skip
    address = yield from routing.find_master(directory, topic, broker, max_age=None)
    timeout = directory.times.answer + poll_ms / 1000 + LATE_POLL
    popped = yield from flows.ask(address, request, timeout)
    found = popped.to_messages(group, topic, broker)
    # A broker compares only hashes of tags. Without an ack, the others would come again for ever.
    others = [each.handle for each in found if not wanted.matches(each.message.tags)]
    if others:
        yield from acknowledge(directory, group, topic, others)
    return [each for each in found if wanted.matches(each.message.tags)]


def acknowledge(
    directory: Directory, group: str, topic: str, handles: Sequence[PopHandle]
) -> Flow[None]:
    """
    Acknowledge messages: nobody gets them again.

    After an error, some may be acknowledged. The call may be repeated. A handle that is too old, or
    that was used before, has no effect and gives no error. Neither does one that fits no message,
    if there are several handles for its broker.
    """
    left: dict[str, list[PopHandle]] = defaultdict(list)
    for handle in handles:
        left[handle.broker].append(handle)
    failures: list[errors.MqError] = []
    for max_age in (None, 0):  # a master may have moved
        outcomes = yield from _acknowledge(directory, group, topic, left, max_age)
        failures = [each for each in outcomes.values() if isinstance(each, errors.MqError)]
        left = {
            broker: found
            for broker, found in left.items()
            if isinstance(outcomes[broker], errors.UnavailableError)
        }
        if len(left) < len(failures) or not left:
            break
    if failures:
        raise failures[0]


def _acknowledge(
    directory: Directory,
    group: str,
    topic: str,
    by_broker: Mapping[str, Sequence[PopHandle]],
    max_age: float | None,
) -> Flow[dict[str, errors.MqError | None]]:
    """Acknowledge messages at all brokers at once. Return the outcomes."""
    outcomes: dict[str, errors.MqError | None] = {}
    asks: dict[str, Ask] = {}
    for broker, found in by_broker.items():
        one: Request[None] = Ack(group, topic, found[0])
        request = one if len(found) == 1 else BatchAck(group, topic, tuple(found))
        try:
            address = yield from routing.find_master(directory, topic, broker, max_age)
        except errors.NoBrokerError as error:
            outcomes[broker] = error
        else:
            asks[broker] = Ask(address, request, directory.times.answer)
    answers: list[errors.MqError | None] = []
    if asks:
        answers = yield AskAll(tuple(asks.values()))
    return outcomes | dict(zip(asks, answers, strict=True))


def change_invisible(
    directory: Directory, group: str, topic: str, handle: PopHandle, invisible_ms: int
) -> Flow[PopHandle]:
    """
    Keep a message for so many milliseconds from now, or give it back with 0. Return its new handle.

    The old handle has no effect any more, unless the message was popped in order.
    """
    address = yield from routing.find_master(directory, topic, handle.broker, max_age=None)
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
    yield from copy_to_dead_letters(directory, group, topic, popped)
    yield from acknowledge(directory, group, topic, [popped.handle])


def copy_to_dead_letters(
    directory: Directory, group: str, topic: str, popped: PoppedMessage
) -> Flow[None]:
    """Copy a message to `%DLQ%<group>`, without an acknowledgement."""
    message = popped.message
    address = yield from routing.find_master(directory, topic, popped.handle.broker, max_age=None)
    request = SendBack(group, topic, message.commit_log_offset, message.msg_id)
    yield from flows.ask(address, request, directory.times.answer)


def wait_for_messages(
    directory: Directory, group: str, topic: str, broker: str, poll_ms: int = POLL_MS
) -> Flow[bool]:
    """Wait until a broker has a message to pop; return whether it has one. Take nothing."""
    address = yield from routing.find_master(directory, topic, broker, max_age=None)
    timeout = directory.times.answer + poll_ms / 1000 + LATE_POLL
    return (yield from flows.ask(address, Notification(group, topic, poll_ms), timeout))


def count_parked_pops(directory: Directory, group: str, topic: str) -> Flow[dict[str, int]]:
    """Count the pops that wait for messages, by broker."""
    request = GetParkedPops(group, topic)
    answers = yield from routing.ask_masters(directory, topic, request)
    # A broker that has paused the group, or does not know it, refuses to count.
    none = (errors.NotPermittedError, errors.GroupUnknownError)
    found = {broker: 0 if isinstance(each, none) else each for broker, each in answers.items()}
    return dict(zip(found, flows.require_all(found), strict=True))


def count_waiting(directory: Directory, group: str, topic: str) -> Flow[dict[str, Waiting]]:
    """
    Count the messages that wait for a group that pops, and its waiting pops, by broker.

    Messages that a consumer has popped and not acknowledged are not counted.
    """
    ready = yield from _count_ready(directory, group, topic, PopSource.TOPIC)
    retries = Counter[str]()
    for source in (PopSource.RETRIES_V1, PopSource.RETRIES_V2):
        retries.update((yield from _count_ready(directory, group, topic, source)))
    parked = yield from count_parked_pops(directory, group, topic)
    return {
        broker: Waiting(count, retries[broker], parked.get(broker, 0))
        for broker, count in ready.items()
    }


def _count_ready(
    directory: Directory, group: str, topic: str, source: PopSource
) -> Flow[dict[str, int]]:
    """Count the messages of one source that no consumer has got yet, by broker."""
    request = GetLag(group, source.name_topic(group, topic))
    answers = yield from routing.ask_brokers(directory, topic, request)
    lags = zip(answers, flows.require_all(answers), strict=True)
    return {broker: sum(each.ready for each in found) for broker, found in lags}
