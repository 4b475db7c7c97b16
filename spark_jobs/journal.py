"""
Offsets as JSON: `{"orders": {"broker-a": {"0": 23}}}`, in Spark's offset log and in options.

Spark compares offsets as texts, so the same offsets must always give the same text: all keys are
sorted.
"""

from collections.abc import Mapping
from typing import Any

from mq_client.values import Queue

Tree = dict[str, dict[str, dict[str, int]]]


def tree(offsets: Mapping[Queue, int]) -> Tree:
    """Write offsets."""
    found: Tree = {}
    for queue in sorted(offsets):
        found.setdefault(queue.topic, {}).setdefault(queue.broker, {})[str(queue.id)] = offsets[
            queue
        ]
    return {
        topic: {broker: dict(sorted(ids.items())) for broker, ids in brokers.items()}
        for topic, brokers in found.items()
    }


def offsets(written: Any, least: int = 0) -> dict[Queue, int]:
    """Read offsets; a `ValueError` says what they should look like."""
    found: dict[Queue, int] = {}
    try:
        for topic, brokers in written.items():
            for broker, ids in brokers.items():
                for number, offset in ids.items():
                    if type(offset) is not int or offset < least or not number.isdecimal():
                        raise ValueError
                    found[Queue(topic, broker, int(number))] = offset
    except (AttributeError, TypeError, ValueError):
        example = '{"topic": {"broker": {"0": 23}}}'
        raise ValueError(f"{written!r} are no offsets, as in {example}") from None
    return found
