"""The result of an allocation, before it is checked and explained."""

from dataclasses import dataclass, field

from lb_core import inventory
from lb_core.inventory import Runs
from lb_core.previous import Holdings
from lb_core.scale import Scale

Claimants = tuple[str, ...]
COUNT = Scale()


@dataclass(slots=True)
class Outcome:
    """
    The queues of each consumer, and the changes that led to this result.

    `given` lists the queues that each consumer lost, `received` those that each consumer got. A
    queue in `received` that is not in `given` had no owner. If several consumers claimed a queue,
    one entry of `given` names all of them.
    """

    holdings: Holdings
    loads: dict[str, int]
    given: list[tuple[str | Claimants, Runs]] = field(default_factory=list)
    received: list[tuple[str, Runs]] = field(default_factory=list)
    unowned: Runs = ()
    best_top: float = 0.0
    """The highest load/capacity of the best legal plan, or a lower bound of it."""
    scale: Scale = COUNT
    """The weights of the queues."""

    def give_up(self, name: str) -> None:
        """Take all queues from a consumer that may not keep any."""
        self.given.append((name, self.holdings.pop(name)))
        del self.loads[name]

    def give(self, name: str, kept: Runs, given: Runs) -> None:
        """Let a consumer keep `kept`, and take `given` from it."""
        self.given.append((name, given))
        self.holdings[name] = kept
        self.loads[name] -= inventory.count(given)

    def receive(self, name: str, runs: Runs) -> None:
        """Add queues to a consumer, and record this in `received`."""
        self.received.append((name, runs))
        self.add(name, runs)

    def add(self, name: str, runs: Runs) -> None:
        """Add queues to a consumer, but record no change."""
        held = self.holdings.get(name)
        self.holdings[name] = inventory.join(held, runs) if held else runs
        self.loads[name] = self.loads.get(name, 0) + inventory.count(runs)

    def remove(self, name: str, runs: Runs) -> None:
        """Remove queues from a consumer, but record no change."""
        self.holdings[name] = inventory.subtract(self.holdings[name], runs)
        self.loads[name] -= inventory.count(runs)
