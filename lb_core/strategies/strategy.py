"""The interface of all strategies: what a strategy can do, and which settings it has."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from lb_core import errors
from lb_core.group import Group
from lb_core.inventory import Inventory
from lb_core.model import shorten
from lb_core.outcome import Outcome
from lb_core.policy import Policy
from lb_core.previous import Previous
from lb_core.strategies.common import Dealer

Allocate: TypeAlias = Callable[[Inventory, Group, Policy, Previous], Outcome]

MOST_QUEUES = 100_000
"""Maximum number of queues if a strategy plans in ranges. Such a plan takes about 2 s."""
MOST_SINGLE_QUEUES = 25_000
"""Maximum number of queues if a strategy deals queue by queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way to distribute the queues of a group."""

    name: str
    """Its name in policies and requests, such as "AVG"."""
    allocate: Allocate
    """Plan for the whole group, from the previous owners."""
    describe: Callable[[Policy], str]
    """Describe in a few words how queues are assigned under a policy."""
    title: str = ""
    """Its name in ConsumerGroups, such as "Averagely". Empty: ConsumerGroups cannot choose it."""
    dealer: Dealer | None = None
    """How it deals one list of queues; None if it works only on a whole group."""
    settings: tuple[str, ...] = ()
    """The names of its settings in a request's `config`."""
    is_sticky: bool = False
    """
    Whether the strategy starts from the previous owners.

    If so, each move has a reason of its own, a lost consumer gets no new queues, and every queue
    that a consumer may own has an owner. If not, the strategy deals all queues anew, also to lost
    consumers while their grace lasts.
    """
    uses: frozenset[str] = frozenset()
    """The fields of `Policy` that it uses besides `config`, `pinned` and `grace_seconds`."""
    most_queues: int = MOST_QUEUES
    """The operator refuses groups with more queues, because planning would take too long."""


def refuse_unused(strategy: Strategy, policy: Policy) -> None:
    """Refuse limits that the strategy would ignore."""
    if {"max_moves", "weights"} <= strategy.uses:
        return
    if (policy.max_moves, policy.weights) != (None, None):
        raise errors.BadRequestError(
            f"max_moves and weights belong to STICKY; {shorten(strategy.name)} has neither"
        )
