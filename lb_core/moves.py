"""Who gave what to whom, and why, in words."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from lb_core.group import Group
from lb_core.inventory import SPAN, Inventory, Runs
from lb_core.model import QueueRange
from lb_core.outcome import Claimants, Outcome
from lb_core.policy import Zones

NEW_QUEUE = "new queue"
NOBODY = "nobody eligible"


class Move(NamedTuple):
    """
    Queues that change hands together.

    A move without a `source` is a queue's first owner and does not count as moved; one without a
    `target` leaves queues without an owner. `chosen` moves could have waited; the others could not.
    """

    inventory: Inventory
    runs: Runs
    source: str | None
    target: str | None
    reason: str
    chosen: bool

    @property
    def queues(self) -> tuple[QueueRange, ...]:
        """The queues by name."""
        return self.inventory.ranges(self.runs)

    @property
    def count(self) -> int:
        """How many queues."""
        return sum(map(len, self.runs))

    def __str__(self) -> str:
        """Say it in one line."""
        return f"{self.count} from {self.source} to {self.target}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Judge:
    """Knows why a queue moves. `before` are the consumers that the previous plan knew."""

    inventory: Inventory
    group: Group
    zones: Zones
    before: frozenset[str]

    def explain(self, outcome: Outcome) -> list[Move]:
        """Every change of owner in `outcome`, in the order of the receivers."""
        if not outcome.given:
            return [
                Move(self.inventory, runs, None, target, NEW_QUEUE, False)
                for target, runs in outcome.received
            ]
        moves: list[Move] = []
        for (source, target, *why), runs in self._gather(outcome).items():
            moves.append(Move(self.inventory, tuple(runs), source, target, *why))
        return moves

    def _gather(
        self, outcome: Outcome
    ) -> dict[tuple[str | None, str | None, str, bool], list[range]]:
        gathered: dict[tuple[str | None, str | None, str, bool], list[range]] = {}
        received = [*outcome.received, *([(None, outcome.unowned)] if outcome.unowned else [])]
        for run, giver, target in _pair_up(outcome.given, received):
            source = giver
            if isinstance(giver, tuple):
                if target in giver:
                    continue
                source = next((name for name in giver if name in self.group.members), giver[0])
            if source is not None or target is not None:
                reason, chosen = self._why(run, source, target)
                gathered.setdefault((source, target, reason, chosen), []).append(run)
        return gathered

    def _why(self, run: range, source: str | None, target: str | None) -> tuple[str, bool]:
        """The reason of one move, and whether it could have waited."""
        if source is None:
            return NEW_QUEUE, False
        if target is None:
            return NOBODY, False
        members = self.group.members
        if source not in self.group.staying:
            return self._why_it_lost_all(source, target), False
        if source in self.group.draining:
            return "draining", True
        zone = self.inventory.sources[run.start // SPAN].zone
        better = zone is not None and members[source].zone != zone == members[target].zone
        if better:
            return "zone", self.zones is not Zones.REQUIRE
        return ("balance" if target in self.before else "joined"), True

    def _why_it_lost_all(self, source: str, target: str) -> str:
        member = self.group.members.get(source)
        if member is None or member.lost_for_seconds is not None:
            return "left" if target in self.before else "replaced"
        return "no capacity" if member.capacity == 0 else "not pinned"


def _pair_up(
    given: Iterable[tuple[str | Claimants, Runs]], received: Iterable[tuple[str | None, Runs]]
) -> Iterator[tuple[range, str | Claimants | None, str | None]]:
    """Match what was received with who gave it; both cover each queue once at most."""
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
