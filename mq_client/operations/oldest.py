"""Find out since when messages have waited that no consumer of a popping group has got."""

from collections.abc import Sequence
from typing import Any

from mq_client import errors, flows
from mq_client.commands.base import Request
from mq_client.commands.offsets import GetLag, GetTopicOffsets
from mq_client.commands.stored import FindStored, GetStoreTime
from mq_client.directory import Directory
from mq_client.flows import Ask, AskAll, Flow
from mq_client.operations import routing
from mq_client.popping import PopSource
from mq_client.values import Lag, MessageQueue, Offsets

AT_ONCE = 16
"""So many queues of a broker are asked at the same time."""


def find_oldest_waiting(directory: Directory, group: str, topic: str) -> Flow[dict[str, int]]:
    """
    Find when the oldest message was stored that no consumer has got, by broker, in Unix ms.

    Messages that come again count from then on. Brokers where nothing waits are left out. Nothing
    is taken, and no position of the group moves.
    """
    addresses = yield from routing.list_masters(directory, topic)
    found: dict[str, int] = {}
    for source in PopSource:
        name = source.name_topic(group, topic)
        answers = yield from flows.ask_all(addresses, GetLag(group, name), directory.times.answer)
        for broker, lags in zip(answers, flows.require_all(answers), strict=True):
            waiting = [lag for lag in lags if lag.ready]
            if not waiting:
                continue
            oldest = yield from _find_on_broker(directory, addresses[broker], name, waiting)
            if oldest is not None:
                found[broker] = min(oldest, found.get(broker, oldest))
    return found


def _find_on_broker(
    directory: Directory, address: str, topic: str, waiting: Sequence[Lag]
) -> Flow[int | None]:
    """
    Find the time of the oldest message that waits in these queues of one broker.

    `last_timestamp_ms` says when the message was stored that was consumed last. All messages that
    wait in the queue were stored after it. So the queues are asked in the order of these times, and
    only until the others can have no older message.
    """
    seconds = directory.times.answer
    stored: dict[MessageQueue, Offsets] = yield from flows.ask(
        address, GetTopicOffsets(topic), seconds
    )
    ordered = sorted(waiting, key=lambda lag: lag.last_timestamp_ms)
    oldest: int | None = None
    for first in range(0, len(ordered), AT_ONCE):
        part = ordered[first : first + AT_ONCE]
        if oldest is not None and part[0].last_timestamp_ms >= oldest:
            break
        # Before the first pop of a group, its position may be before the queue's beginning.
        finds = [
            FindStored(topic, lag.queue.id, max(lag.next_offset, stored[lag.queue].min))
            for lag in part
            if lag.queue in stored
        ]
        places = yield from _ask_each(address, finds, seconds)
        reads = [GetStoreTime(topic, place) for place in places if place is not None]
        times: list[int] = yield from _ask_each(address, reads, seconds)
        oldest = min([*times, *([] if oldest is None else [oldest])], default=None)
    return oldest


def _ask_each(address: str, requests: Sequence[Request[Any]], seconds: float) -> Flow[list[Any]]:
    """Send several requests to one broker; raise the first error."""
    if not requests:
        return []
    outcomes = yield AskAll(tuple(Ask(address, each, seconds) for each in requests))
    for each in outcomes:
        if isinstance(each, errors.MqError):
            raise each
    return list(outcomes)
