"""All rounds that one side has played."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.handover.effects import Effect, Outcome

Value = Callable[[Effect], float]
"""Reads one value of an effect."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """All rounds of one side."""

    name: str
    outcomes: Sequence[Outcome]

    def list_events(self) -> Sequence[str]:
        """List the events of the rounds."""
        return list(self.outcomes[0].effects)

    def worst(self, event: str, read: Value) -> float:
        """Return the highest value."""
        return max(self._list_all(event, read))

    def median(self, event: str, read: Value) -> float:
        """Return the median value."""
        return statistics.median(self._list_all(event, read))

    def find_worst(self, event: str, read: Callable[[Effect], float | None]) -> float | None:
        """Return the highest value that is known, if there is one."""
        found = [read(each.effects[event]) for each in self.outcomes]
        return max((value for value in found if value is not None), default=None)

    def find_highest(self, read: Callable[[Outcome], int]) -> int:
        """Return the highest value of a whole round."""
        return max(map(read, self.outcomes))

    def _list_all(self, event: str, read: Value) -> list[float]:
        return [read(each.effects[event]) for each in self.outcomes]
