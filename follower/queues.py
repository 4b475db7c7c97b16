"""Converts queues from `QueueIds` (in requests and answers) to `MessageQueue`, and back."""

from collections.abc import Iterable

from contract.assignment import QueueIds
from lb_core.assignment import read_ids, write_ids
from mq_client.values import MessageQueue


def read_queues(runs: Iterable[QueueIds]) -> frozenset[MessageQueue]:
    """Read queues from entries that each have a topic, a broker, and ids such as "0-3,8"."""
    return frozenset(map(MessageQueue._make, read_ids(runs)))


def write_queues(queues: Iterable[MessageQueue]) -> list[QueueIds]:
    """Write queues as `QueueIds`. Equal sets of queues are always written in the same way."""
    return [QueueIds(*source, ids) for source, ids in write_ids(queues).items()]


def show_queues(queues: Iterable[MessageQueue]) -> str:
    """Write queues for people: `orders@broker-a 0-3,8, orders@broker-b 1`."""
    return ", ".join(f"{run.topic}@{run.broker} {run.ids}" for run in write_queues(queues))
