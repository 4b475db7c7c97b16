"""Counts queues that moved by why they did, for metrics."""

from collections import Counter
from collections.abc import Mapping

from lb_core import reasons
from lb_core.plan import Plan


class Moved:
    """All queues that moved while this process was the leader."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._counts = Counter({reason.value: 0 for reason in reasons.FOR_MOVES})

    def note(self, plan: Plan) -> None:
        """Count a plan that is published."""
        for move in plan.moves:
            if move.source is not None:
                self._counts[reasons.classify(move.reason).value] += move.size

    @property
    def counts(self) -> Mapping[str, int]:
        """How many queues moved, by reason."""
        return self._counts
