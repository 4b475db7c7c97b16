"""
Reads the last known move of each queue from the status and from Events. Pure.

The status contains the last rebalance. Events contain earlier rebalances, as long as the cluster
keeps the Events. Both leave out some moves of very large rebalances, and earlier versions did not
record moves as data.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from contract import names
from contract.kinds.groups import GroupStatus, LastRebalance
from evenkeel import rebalances
from lb_core.model import Queue, QueueRange


@dataclass(frozen=True, slots=True)
class Told:
    """One known move of a queue."""

    at: str
    epoch: int | None
    """The epoch of the move; None if it is no longer known."""
    trigger: str
    source: str
    target: str
    reason: str


class Past:
    """All known moves of a group."""

    def __init__(self, status: GroupStatus, events: Iterable[Mapping[str, Any]] = ()) -> None:
        """Read the moves in a group's status and in the Events about it."""
        self.oldest = ""
        """The time since which all moves are known; empty if there is no such time."""
        self._moves: dict[tuple[str, str], list[tuple[QueueRange, Told]]] = {}
        for each in sorted(_read_rebalances(status, events), key=lambda each: each.at):
            self.oldest = (self.oldest or each.at) if rebalances.is_complete(each) else ""
            self._note(each)

    def find_newest(self, queue: Queue) -> Told | None:
        """Find the last known move of a queue."""
        for moved, told in reversed(self._moves.get((queue.topic, queue.broker), ())):
            if moved.start <= queue.id < moved.stop:
                return told
        return None

    def _note(self, rebalance: LastRebalance) -> None:
        at, epoch, trigger = rebalance.at, rebalance.epoch or None, rebalance.trigger
        for move in rebalance.moves:
            target, reason = move.target or "nobody", move.strategy or move.reason
            told = Told(at, epoch, trigger, move.source, target, reason)
            for run in rebalances.list_ranges(move):
                self._moves.setdefault((run.topic, run.broker), []).append((run, told))


def _read_rebalances(
    status: GroupStatus, events: Iterable[Mapping[str, Any]]
) -> Iterator[LastRebalance]:
    if status.last_rebalance is not None:
        yield status.last_rebalance
    for event in events:
        text = (event.get("metadata", {}).get("annotations") or {}).get(names.LAST_REBALANCE)
        try:
            yield msgspec.json.decode(text or "", type=LastRebalance)
        except msgspec.DecodeError:
            continue
