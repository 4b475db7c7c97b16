"""The weights of queues, by queue number."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from lb_core import inventory
from lb_core.inventory import Inventory
from lb_core.policy import Policy


@dataclass(frozen=True, slots=True)
class Scale:
    """The weights of queues. Without weights, each queue weighs 1."""

    weights: dict[int, float] = field(default_factory=dict)

    def weigh(self, number: int) -> float:
        """Return the weight of one queue."""
        return self.weights.get(number, 1)

    def sum_load(self, runs: Iterable[range]) -> float:
        """Return the total weight of these queues."""
        if not self.weights:
            return inventory.count(runs)
        return sum(self.weigh(number) for run in runs for number in run)


def read(queues: Inventory, policy: Policy) -> Scale:
    """Read the policy's weights. Weights of queues that do not exist are ignored."""
    found = ((queues.find(queue), weight) for queue, weight in (policy.weights or {}).items())
    return Scale({number: float(weight) for number, weight in found if number is not None})
