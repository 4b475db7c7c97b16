"""Converts queues to the ranges of ids that documents contain, and back."""

from collections.abc import Iterable

from contract.assignment import QueueIds
from contract.kinds.groups import OwnedQueues
from lb_core.assignment import read_ids, write_ids
from mq_client.values import MessageQueue


def read_queues(entries: Iterable[QueueIds | OwnedQueues]) -> frozenset[MessageQueue]:
    """Read the queues of a document."""
    return frozenset(map(MessageQueue._make, read_ids(entries)))


def write_queues(queues: Iterable[MessageQueue]) -> list[QueueIds]:
    """Write queues, with one entry for each topic and broker."""
    return [QueueIds(*source, ids) for source, ids in write_ids(queues).items()]
