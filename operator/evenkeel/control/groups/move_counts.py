"""Counts moved queues by reason, for metrics."""

from collections import Counter
from collections.abc import Mapping

from lb_core import reasons
from lb_core.plan import Plan


class MoveCounts:
    """Queues that have moved since this process became the leader."""

    def __init__(self) -> None:
        """Begin at zero for each reason."""
        self._counts = Counter({reason.value: 0 for reason in reasons.FOR_MOVES})

    def note(self, plan: Plan) -> None:
        """Count the moves of a published plan."""
        for move in plan.moves:
            if move.source is not None:
                self._counts[reasons.classify(move.reason).value] += move.size

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of moved queues by reason."""
        return self._counts
