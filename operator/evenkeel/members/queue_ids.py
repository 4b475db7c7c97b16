"""Queues as the documents write them, by ranges of ids, and back."""

from collections.abc import Iterable

from contract.assignment import QueueIds
from contract.kinds.groups import OwnedQueues
from lb_core.assignment import parse_ids, write_ids
from mq_client.values import MessageQueue

MOST_QUEUES = 100_000
"""A group may have so many queues. A range of ids is short, but may stand for billions."""


class TooManyQueuesError(ValueError):
    """More queues than any group has."""


def read_queues(entries: Iterable[QueueIds | OwnedQueues]) -> frozenset[MessageQueue]:
    """Read the queues of a document."""
    ranges = [each for entry in entries for each in parse_ids(entry.topic, entry.broker, entry.ids)]
    count = sum(map(len, ranges))
    if count > MOST_QUEUES:
        raise TooManyQueuesError(f"{count:,} queues, and a group has at most {MOST_QUEUES:,}")
    return frozenset(
        MessageQueue(each.topic, each.broker, number)
        for each in ranges
        for number in range(each.start, each.stop)
    )


def write_queues(queues: Iterable[MessageQueue]) -> list[QueueIds]:
    """Write queues, one entry a topic and broker."""
    return [QueueIds(*source, ids) for source, ids in write_ids(queues).items()]
