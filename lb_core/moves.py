"""The moves of a plan: which consumer loses queues, which one gets them, and why."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from lb_core import inventory
from lb_core.group import Group
from lb_core.inventory import SPAN, Inventory, Runs
from lb_core.model import QueueRange
from lb_core.outcome import Claimants, Outcome
from lb_core.policy import Zones
from lb_core.reasons import Reason
from lb_core.strategies import Strategy

Change = tuple[str | None, str | None, str, bool]
"""A move without its queues: old owner, new owner, reason, and `Move.chosen`."""


class Move(NamedTuple):
    """
    Queues that change from one owner to another for the same reason.

    If `source` is None, the queues get their first owner and do not count as moved. If `target` is
    None, the queues have no owner afterwards. A `chosen` move could wait; other moves are forced.
    """

    inventory: Inventory
    runs: Runs
    source: str | None
    target: str | None
    reason: str
    """The value of a `Reason`, or the name of a strategy other than STICKY."""
    chosen: bool

    @property
    def queues(self) -> tuple[QueueRange, ...]:
        """The queues, as ranges."""
        return self.inventory.list_ranges(self.runs)

    def __str__(self) -> str:
        """Describe the move in one line."""
        named = ", ".join(f"{q.topic}@{q.broker} {q.start}-{q.stop - 1}" for q in self.queues)
        return f"{self.source} -> {self.target}, {self.reason}: {named}"

    @property
    def size(self) -> int:
        """The number of queues."""
        return inventory.count(self.runs)


@dataclass(frozen=True, slots=True)
class Judge:
    """Finds out why queues move. `before` contains the ids of the previous plan's consumers."""

    inventory: Inventory
    group: Group
    zones: Zones
    before: frozenset[str]
    strategy: Strategy

    def explain(self, outcome: Outcome) -> list[Move]:
        """List every change of owner in `outcome`, in the order of the new owners."""
        if not outcome.given:
            reason = Reason.NEW_QUEUE.value
            return [
                Move(self.inventory, runs, None, target, reason, False)
                for target, runs in outcome.received
            ]
        gathered: dict[Change, list[range]] = {}
        for run, source, target in self._list_changes(outcome):
            reason, chosen = self._explain_move(run, source, target)
            gathered.setdefault((source, target, reason, chosen), []).append(run)
        return [Move(self.inventory, tuple(runs), *change) for change, runs in gathered.items()]

    def _list_changes(self, outcome: Outcome) -> Iterator[tuple[range, str | None, str | None]]:
        """Yield each change of owner. A disputed queue has not moved if a claimant got it."""
        received: list[tuple[str | None, Runs]] = [*outcome.received, (None, outcome.unowned)]
        for run, giver, target in _pair_up(outcome.given, received):
            if not isinstance(giver, tuple):
                if giver is not None or target is not None:
                    yield run, giver, target
            elif target not in giver:
                known = (name for name in giver if name in self.group.members)
                yield run, next(known, giver[0]), target

    def _explain_move(self, run: range, source: str | None, target: str | None) -> tuple[str, bool]:
        """Find the reason of one move, and whether the move could have waited."""
        if source is None:
            return Reason.NEW_QUEUE.value, False
        if target is None:
            if self.strategy.is_sticky:
                return Reason.NOBODY_ELIGIBLE.value, False
            return f"{self.strategy.name} left it out", False
        members = self.group.members
        if source in self.group.draining:
            return Reason.DRAINING.value, True
        if source not in self.group.keeping:
            return self._explain_loss(source, target).value, False
        if not self.strategy.is_sticky:
            return self.strategy.name, True
        zone = self.inventory.sources[run.start // SPAN].zone
        better = zone is not None and members[source].zone != zone == members[target].zone
        if better and self.zones is not Zones.IGNORE:
            return Reason.ZONE.value, self.zones is not Zones.REQUIRE
        return (Reason.BALANCE if target in self.before else Reason.JOINED).value, True

    def _explain_loss(self, source: str, target: str) -> Reason:
        member = self.group.members.get(source)
        if member is None or member.lost_for_seconds is not None:
            return Reason.LEFT if target in self.before else Reason.REPLACED
        return Reason.NO_CAPACITY if member.capacity == 0 else Reason.NOT_PINNED


def _pair_up(
    given: Iterable[tuple[str | Claimants, Runs]], received: Iterable[tuple[str | None, Runs]]
) -> Iterator[tuple[range, str | Claimants | None, str | None]]:
    """Match received queues with their old owners. A queue occurs at most once in each argument."""
    givers = sorted((run.start, run.stop, giver) for giver, runs in given for run in runs)
    place = 0
    takers = [(run.start, run.stop, taker) for taker, runs in received for run in runs]
    for start, stop, taker in sorted(takers, key=lambda taken: taken[0]):
        while start < stop:
            while place < len(givers) and givers[place][1] <= start:
                place += 1
            if place == len(givers) or givers[place][0] >= stop:
                yield range(start, stop), None, taker
                break
            first, last, giver = givers[place]
            if first > start:
                yield range(start, first), None, taker
                start = first
            end = min(last, stop)
            yield range(start, end), giver, taker
            start = end
