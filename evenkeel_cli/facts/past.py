"""
What is still known of moves: of each queue the newest one, as Events and the status tell it. Pure.

Both are sentences for people, and long ones are cut off. So only what is whole is read, and a
consumer whose name has arrows or colons in it may be passed over.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from contract.kinds.groups import GroupStatus
from evenkeel.control.groups import MOST_TEXT
from lb_core.assignment import parse_ids
from lb_core.errors import AllocationError
from lb_core.model import Queue, QueueRange

REBALANCED = "Rebalanced"
"""The reason of Events that tell of moves."""
MOST_OF_AN_EVENT = 1000
_EVENT = re.compile(r"epoch (\d+), (\w+): (.*)", re.DOTALL)
_MOVE = re.compile(r"(?P<source>.+) -> (?P<target>.+), (?P<reason>[^:]+): (?P<queues>.+)")


@dataclass(frozen=True, slots=True)
class Told:
    """A move of a queue."""

    at: str
    epoch: int | None
    """None: it is not known any more."""
    trigger: str
    source: str
    target: str
    reason: str


class Past:
    """All moves that are told."""

    def __init__(self, status: GroupStatus, events: Iterable[Mapping[str, Any]] = ()) -> None:
        """Read what a group's status and the Events about it tell."""
        self.oldest = ""
        """When the first of them was; empty if none is told."""
        self._moves: dict[tuple[str, str], list[tuple[QueueRange, Told]]] = {}
        for at, epoch, trigger, text in sorted(_texts(status, events), key=lambda each: each[0]):
            self.oldest = self.oldest or at
            for move, ranges in _moves(text):
                for each in ranges:
                    known = self._moves.setdefault((each.topic, each.broker), [])
                    known.append((each, Told(at, epoch, trigger, *move)))

    def newest(self, queue: Queue) -> Told | None:
        """Find the last move of a queue."""
        for moved, told in reversed(self._moves.get((queue.topic, queue.broker), ())):
            if moved.start <= queue.id < moved.stop:
                return told
        return None


def _texts(
    status: GroupStatus, events: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[str, int | None, str, str]]:
    """Give what is told, and when: the status first, for an Event of the same knows the epoch."""
    last = status.last_rebalance
    if last is not None:
        yield last.at, None, last.trigger, _whole(last.reason, MOST_TEXT, 0)
    for event in events:
        said = _EVENT.fullmatch(event.get("message") or "")
        if event.get("reason") == REBALANCED and said is not None:
            text = _whole(said[3], MOST_OF_AN_EVENT, said.start(3))
            yield event.get("lastTimestamp") or "", int(said[1]), said[2], text


def _whole(text: str, most: int, before: int) -> str:
    """Leave out the last word of what was cut off: it may be half of one."""
    return text.rpartition(", ")[0] if before + len(text) >= most else text


def _moves(text: str) -> Iterator[tuple[tuple[str, str, str], list[QueueRange]]]:
    for piece in text.split("; "):
        move = _MOVE.fullmatch(piece)
        if move is not None:
            ranges = [each for name in move["queues"].split(", ") for each in _ranges(name)]
            yield (move["source"], move["target"], move["reason"]), ranges


def _ranges(name: str) -> list[QueueRange]:
    """Read `orders@broker-a 0-3`; nothing if it is something else."""
    source, _, ids = name.rpartition(" ")
    topic, _, broker = source.partition("@")
    try:
        return parse_ids(topic, broker, ids)
    except AllocationError:
        return []
