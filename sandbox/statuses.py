"""Reads the status of a group or a topic."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from lb_core.assignment import parse_ids

Document = dict[str, Any]
Queue = tuple[str, int]
"""Broker and number of a queue. The topic is left out, because a group has only one here."""


def read_condition(status: Document, kind: str) -> tuple[str, str]:
    """Read the status and reason of a condition; empty strings if the condition does not exist."""
    for each in status.get("conditions") or ():
        if each["type"] == kind:
            return each["status"], each["reason"]
    return "", ""


def list_owned(status: Document) -> list[tuple[str, Queue]]:
    """List pairs of owner and queue; a queue with two owners appears twice."""
    return [
        (each["consumer"], (part["broker"], number))
        for each in status.get("assignments") or ()
        for part in each.get("queues") or ()
        for found in parse_ids(part["topic"], part["broker"], part["ids"])
        for number in range(found.start, found.stop)
    ]


def find_owners(status: Document) -> Mapping[Queue, str]:
    """Find the owner of each queue."""
    return {queue: owner for owner, queue in list_owned(status)}


def count_loads(status: Document) -> Mapping[str, int]:
    """Count the queues of each consumer."""
    consumers = [each["consumer"] for each in status.get("assignments") or ()]
    found = Counter(owner for owner, _ in list_owned(status))
    return {consumer: found[consumer] for consumer in consumers}


def count_moves(before: Document, after: Document) -> int:
    """Count the queues that had an owner and now have another one."""
    had, has = find_owners(before), find_owners(after)
    return sum(has[queue] != owner for queue, owner in had.items() if queue in has)
