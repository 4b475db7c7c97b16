"""
The last known move of each queue, read from Events and the status. Pure.

Both are sentences for people, and long ones are cut off. So only complete parts are read, and a
consumer whose name contains arrows or colons may be skipped.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from contract.kinds.groups import GroupStatus
from evenkeel.control.groups.group_status import MOST_TEXT
from lb_core.assignment import parse_ids
from lb_core.errors import AllocationError
from lb_core.model import Queue, QueueRange

REBALANCED = "Rebalanced"
"""The reason of Events about moves."""
MOST_OF_AN_EVENT = 1000
_EVENT = re.compile(r"epoch (\d+), (\w+): (.*)", re.DOTALL)
_MOVE = re.compile(r"(?P<source>.+) -> (?P<target>.+), (?P<reason>[^:]+): (?P<queues>.+)")


@dataclass(frozen=True, slots=True)
class Told:
    """One known move of a queue."""

    at: str
    epoch: int | None
    """None if it is no longer known."""
    trigger: str
    source: str
    target: str
    reason: str


class Past:
    """All moves that are known."""

    def __init__(self, status: GroupStatus, events: Iterable[Mapping[str, Any]] = ()) -> None:
        """Read the moves in a group's status and in the Events about it."""
        self.oldest = ""
        """The time of the first known move; empty if there is none."""
        self._moves: dict[tuple[str, str], list[tuple[QueueRange, Told]]] = {}
        for at, epoch, trigger, text in sorted(
            _read_texts(status, events), key=lambda each: each[0]
        ):
            self.oldest = self.oldest or at
            for move, ranges in _parse_moves(text):
                for each in ranges:
                    known = self._moves.setdefault((each.topic, each.broker), [])
                    known.append((each, Told(at, epoch, trigger, *move)))

    def find_newest(self, queue: Queue) -> Told | None:
        """Find the last known move of a queue."""
        for moved, told in reversed(self._moves.get((queue.topic, queue.broker), ())):
            if moved.start <= queue.id < moved.stop:
                return told
        return None


def _read_texts(
    status: GroupStatus, events: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[str, int | None, str, str]]:
    """Yield each text with its time; the status first, because Events also know the epoch."""
    last = status.last_rebalance
    if last is not None:
        yield last.at, None, last.trigger, _drop_cut_word(last.reason, MOST_TEXT, 0)
    for event in events:
        said = _EVENT.fullmatch(event.get("message") or "")
        if event.get("reason") == REBALANCED and said is not None:
            text = _drop_cut_word(said[3], MOST_OF_AN_EVENT, said.start(3))
            yield event.get("lastTimestamp") or "", int(said[1]), said[2], text


def _drop_cut_word(text: str, most: int, before: int) -> str:
    """Drop the last part of a text that was cut off, because it may be incomplete."""
    return text.rpartition(", ")[0] if before + len(text) >= most else text


def _parse_moves(text: str) -> Iterator[tuple[tuple[str, str, str], list[QueueRange]]]:
    for piece in text.split("; "):
        move = _MOVE.fullmatch(piece)
        if move is not None:
            ranges = [each for name in move["queues"].split(", ") for each in _parse_ranges(name)]
            yield (move["source"], move["target"], move["reason"]), ranges


def _parse_ranges(name: str) -> list[QueueRange]:
    """Parse `orders@broker-a 0-3`; return nothing for other texts."""
    source, _, ids = name.rpartition(" ")
    topic, _, broker = source.partition("@")
    try:
        return parse_ids(topic, broker, ids)
    except AllocationError:
        return []
