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
        """Return the highest value of an event in all rounds."""
        return max(self._list_all(event, read))

    def median(self, event: str, read: Value) -> float:
        """Return the median value of an event in all rounds."""
        return statistics.median(self._list_all(event, read))

    def find_worst(self, event: str, read: Callable[[Effect], float | None]) -> float | None:
        """Return the highest known value of an event in all rounds; None if no value is known."""
        found = [read(each.effects[event]) for each in self.outcomes]
        return max((value for value in found if value is not None), default=None)

    def find_highest(self, read: Callable[[Outcome], int]) -> int:
        """Read one value of each whole round, and return the highest."""
        return max(map(read, self.outcomes))

    def _list_all(self, event: str, read: Value) -> list[float]:
        return [read(each.effects[event]) for each in self.outcomes]
