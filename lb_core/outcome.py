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
    The new holdings, and the changes that led to them.

    `given` lists the queues that each consumer lost, `received` those that each consumer got.
    Queues that are received but not given had no owner. If several consumers claimed a queue, all
    of them give it.
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
        """Take everything from a consumer that may not keep it."""
        self.given.append((name, self.holdings.pop(name)))
        del self.loads[name]

    def give(self, name: str, kept: Runs, given: Runs) -> None:
        """Let a consumer keep `kept`, and take `given` from it."""
        self.given.append((name, given))
        self.holdings[name] = kept
        self.loads[name] -= inventory.count(given)

    def receive(self, name: str, runs: Runs) -> None:
        """Hand queues to a consumer."""
        self.received.append((name, runs))
        self.add(name, runs)

    def add(self, name: str, runs: Runs) -> None:
        """Let a consumer hold more queues than before."""
        held = self.holdings.get(name)
        self.holdings[name] = inventory.join(held, runs) if held else runs
        self.loads[name] = self.loads.get(name, 0) + inventory.count(runs)

    def remove(self, name: str, runs: Runs) -> None:
        """Let a consumer hold fewer queues than before."""
        self.holdings[name] = inventory.subtract(self.holdings[name], runs)
        self.loads[name] -= inventory.count(runs)
