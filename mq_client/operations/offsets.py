"""Offsets: beginnings and ends of queues, committed offsets, and lag."""

from collections.abc import Mapping

from mq_client import errors
from mq_client.checks import INT64_MAX, is_whole
from mq_client.commands.offsets import (
    CommitOffset,
    GetLag,
    GetMaxOffset,
    GetMinOffset,
    GetOffset,
    GetTopicOffsets,
    SearchOffset,
)
from mq_client.commands.pulling import Pull
from mq_client.directory import Directory
from mq_client.flows import Flow, ask, require_all
from mq_client.operations import routing
from mq_client.operations.routing import BrokerChoice, ask_broker, ask_brokers
from mq_client.values import Lag, MessageQueue, Offsets, check_queue


def find_min_offset(directory: Directory, queue: MessageQueue) -> Flow[int]:
    """Find the offset of the first message that is still stored."""
    request = GetMinOffset(queue.topic, queue.id)
    return (yield from ask_broker(directory, BrokerChoice.from_queue(queue), request))


def find_max_offset(directory: Directory, queue: MessageQueue) -> Flow[int]:
    """
    Find the offset that the next message will have.

    A new message is counted only after a short delay.
    """
    request = GetMaxOffset(queue.topic, queue.id)
    return (yield from ask_broker(directory, BrokerChoice.from_queue(queue), request))


def find_master_max_offset(directory: Directory, queue: MessageQueue) -> Flow[int]:
    """
    Ask the master, and never a slave, for the offset that the next message will have.

    Without a master, a `NoBrokerError` is raised. A slave may lag behind, so only a master can tell
    whether messages are gone.
    """
    address = yield from routing.find_master(directory, queue.topic, queue.broker)
    request = GetMaxOffset(queue.topic, queue.id)
    return (yield from ask(address, request, directory.times.answer))


def search_offset(directory: Directory, queue: MessageQueue, timestamp_ms: int) -> Flow[int]:
    """Find the offset of the first message that was stored at this time or later."""
    request = SearchOffset(queue.topic, queue.id, timestamp_ms)
    return (yield from ask_broker(directory, BrokerChoice.from_queue(queue), request))


def list_offsets(directory: Directory, topic: str) -> Flow[dict[MessageQueue, Offsets]]:
    """
    Find the beginnings and ends of all queues, by one request per broker.

    If a broker does not answer, an error is raised. If the name server has dropped a broker, the
    broker's queues are missing without an error.
    """
    answers = yield from ask_brokers(directory, topic, GetTopicOffsets(topic))
    found = [item for answer in require_all(answers) for item in answer.items()]
    return dict(sorted(found))


def find_committed(directory: Directory, group: str, queue: MessageQueue) -> Flow[int | None]:
    """Find the offset that a group reads next. None: the group has never committed one."""
    request = GetOffset(group, queue.topic, queue.id)
    try:
        return (yield from ask_broker(directory, BrokerChoice.from_queue(queue), request))
    except (errors.OffsetUnknownError, errors.GroupUnknownError):
        return None


def commit(directory: Directory, group: str, offsets: Mapping[MessageQueue, int]) -> Flow[None]:
    """
    Commit the offsets that a group reads next, and wait until the brokers have them.

    Brokers accept any offset, also a lower one. A broker that crashes may lose the commits of the
    last seconds.
    """
    for queue, offset in offsets.items():
        if not is_whole(offset, 0, INT64_MAX):
            raise errors.UsageError(f"{check_queue(queue)}: {offset!r} is not an offset")
    for queue, offset in offsets.items():
        request = CommitOffset(group, queue.topic, queue.id, offset)
        try:
            yield from ask_broker(directory, BrokerChoice.from_queue(queue), request)
        except errors.GroupUnknownError:
            # The first pull of a group creates it on the broker.
            pull = Pull(group, queue.topic, queue.id, offset, most=1, most_bytes=1)
            yield from ask_broker(directory, BrokerChoice.from_queue(queue), pull)
            yield from ask_broker(directory, BrokerChoice.from_queue(queue), request)


def measure_lag(directory: Directory, group: str, topic: str) -> Flow[list[Lag]]:
    """
    Find the lag of a group on all queues, by one request per broker.

    If a broker does not answer, an error is raised. If the name server has dropped a broker, the
    broker's queues are missing without an error.
    """
    answers = yield from ask_brokers(directory, topic, GetLag(group, topic))
    return sorted(found for answer in require_all(answers) for found in answer)
