"""Counts queues that moved by why they did, for metrics."""

from collections import Counter
from collections.abc import Mapping

from lb_core import moves
from lb_core.plan import Plan

OTHER = "strategy"
"""Of RocketMQ's strategies, which deal anew each time."""
REASONS = (
    "joined", "left", "replaced", "balance", "zone", "draining", "not pinned", "no capacity",
    moves.NOBODY, OTHER,
)  # fmt: skip


class Moved:
    """All that moved while this process led."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._counts = Counter(dict.fromkeys(REASONS, 0))

    def note(self, plan: Plan) -> None:
        """Count a plan that is published."""
        for move in plan.moves:
            if move.source is not None:
                self._counts[move.reason if move.reason in REASONS else OTHER] += move.size

    @property
    def counts(self) -> Mapping[str, int]:
        """Tell how many queues moved, by reason."""
        return self._counts
