"""What a way of allocating hands back, before anybody has judged or explained it."""

from dataclasses import dataclass, field

from lb_core.inventory import Runs
from lb_core.previous import Holdings

Claimants = tuple[str, ...]


@dataclass(slots=True)
class Outcome:
    """
    New holdings, and what changed hands on the way.

    `given` lists who lost which queues, `received` who got which. What was received and given by
    nobody had no owner. Queues that several consumers claimed are given by all of them at once.
    """

    holdings: Holdings
    loads: dict[str, int]
    given: list[tuple[str | Claimants, Runs]] = field(default_factory=list)
    received: list[tuple[str, Runs]] = field(default_factory=list)
    unowned: Runs = ()
    best_top: float = 0.0
    """The highest load/capacity that any legal plan must have (or a lower bound of it)."""
