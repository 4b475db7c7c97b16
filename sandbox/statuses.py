"""Reads what the status of a group or a topic says."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from lb_core.assignment import parse_ids

Document = dict[str, Any]
Queue = tuple[str, int]
"""Broker and number of a queue of the one topic that a group reads here."""


def condition(status: Document, kind: str) -> tuple[str, str]:
    """Read status and reason of a condition; empty texts if it is not there."""
    for each in status.get("conditions") or ():
        if each["type"] == kind:
            return each["status"], each["reason"]
    return "", ""


def owned(status: Document) -> list[tuple[str, Queue]]:
    """List who owns which queue, one as often as it is owned."""
    return [
        (each["consumer"], (part["broker"], number))
        for each in status.get("assignments") or ()
        for part in each.get("queues") or ()
        for found in parse_ids(part["topic"], part["broker"], part["ids"])
        for number in range(found.start, found.stop)
    ]


def owners(status: Document) -> Mapping[Queue, str]:
    """Tell who owns each queue."""
    return {queue: owner for owner, queue in owned(status)}


def loads(status: Document) -> Mapping[str, int]:
    """Count the queues of each consumer."""
    consumers = [each["consumer"] for each in status.get("assignments") or ()]
    found = Counter(owner for owner, _ in owned(status))
    return {consumer: found[consumer] for consumer in consumers}


def moves(before: Document, after: Document) -> int:
    """Count the queues that had an owner and have another one now."""
    had, has = owners(before), owners(after)
    return sum(has[queue] != owner for queue, owner in had.items() if queue in has)
