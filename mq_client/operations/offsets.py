"""Where queues begin and end, what a group committed, and how far it is behind."""

from collections.abc import Mapping

from mq_client import errors
from mq_client.checks import INT64_MAX, is_whole
from mq_client.commands import consuming
from mq_client.directory import Directory
from mq_client.flows import Flow, all_good, ask
from mq_client.operations import routing
from mq_client.operations.routing import BrokerChoice, ask_broker, ask_brokers
from mq_client.values import Lag, MessageQueue, Offsets, checked_queue


def min_offset(directory: Directory, queue: MessageQueue) -> Flow[int]:
    """Find the first offset that is still there."""
    request = consuming.GetMinOffset(queue.topic, queue.id)
    return (yield from ask_broker(directory, BrokerChoice.of(queue), request))


def max_offset(directory: Directory, queue: MessageQueue) -> Flow[int]:
    """Find the offset that the next message will have. It trails the send's answer a little."""
    request = consuming.GetMaxOffset(queue.topic, queue.id)
    return (yield from ask_broker(directory, BrokerChoice.of(queue), request))


def master_max_offset(directory: Directory, queue: MessageQueue) -> Flow[int]:
    """
    Find the same at the master, and nowhere else: `NoBrokerError` while there is none.

    A slave may be behind, so only a master can tell that messages are gone.
    """
    address = yield from routing.master(directory, queue.topic, queue.broker)
    request = consuming.GetMaxOffset(queue.topic, queue.id)
    return (yield from ask(address, request, directory.times.answer))


def search_offset(directory: Directory, queue: MessageQueue, timestamp_ms: int) -> Flow[int]:
    """Find the first message that was stored at this time or later."""
    request = consuming.SearchOffset(queue.topic, queue.id, timestamp_ms)
    return (yield from ask_broker(directory, BrokerChoice.of(queue), request))


def topic_offsets(directory: Directory, topic: str) -> Flow[dict[MessageQueue, Offsets]]:
    """
    Find begin and end of all queues, by one call a broker. A broker out of reach is an error.

    One that the name server has dropped, as it does after a while, is missing without a word.
    """
    answers = yield from ask_brokers(directory, topic, consuming.GetTopicOffsets(topic))
    found = [item for answer in all_good(answers) for item in answer.items()]
    return dict(sorted(found))


def committed(directory: Directory, group: str, queue: MessageQueue) -> Flow[int | None]:
    """Find the offset that a group reads next. None: it never committed one."""
    request = consuming.GetOffset(group, queue.topic, queue.id)
    try:
        return (yield from ask_broker(directory, BrokerChoice.of(queue), request))
    except (errors.OffsetUnknownError, errors.GroupUnknownError):
        return None


def commit(directory: Directory, group: str, offsets: Mapping[MessageQueue, int]) -> Flow[None]:
    """
    Commit the offsets that a group reads next, and wait until the brokers have them.

    Brokers take any offset, also one that goes back, and may lose the last seconds when they crash.
    """
    for queue, offset in offsets.items():
        if not is_whole(offset, 0, INT64_MAX):
            raise errors.UsageError(f"{checked_queue(queue)}: {offset!r} is no offset to commit")
    for queue, offset in offsets.items():
        request = consuming.CommitOffset(group, queue.topic, queue.id, offset)
        try:
            yield from ask_broker(directory, BrokerChoice.of(queue), request)
        except errors.GroupUnknownError:
            # A broker makes a group when somebody pulls in its name.
            pull = consuming.Pull(group, queue.topic, queue.id, offset, most=1, most_bytes=1)
            yield from ask_broker(directory, BrokerChoice.of(queue), pull)
            yield from ask_broker(directory, BrokerChoice.of(queue), request)


def lag(directory: Directory, group: str, topic: str) -> Flow[list[Lag]]:
    """
    Find how far a group is behind on all queues, by one call a broker.

    A broker out of reach is an error; one that the name server has dropped is missing, as above.
    """
    answers = yield from ask_brokers(directory, topic, consuming.GetLag(group, topic))
    return sorted(found for answer in all_good(answers) for found in answer)
