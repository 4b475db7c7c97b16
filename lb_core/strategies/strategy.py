"""The one interface of all strategies: what a strategy can do, and what it may be asked."""

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
"""A plan over more queues, made in ranges, could take longer than some 2 s."""
MOST_SINGLE_QUEUES = 25_000
"""The same for strategies that deal queue by queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way to share out the queues of a group."""

    name: str
    """What policies and requests call it: "AVG"."""
    allocate: Allocate
    """Plan for the whole group, given who owned what."""
    describe: Callable[[Policy], str]
    """Say in a few words how queues are shared out under a policy."""
    title: str = ""
    """What a ConsumerGroup calls it: "Averagely". Empty: a ConsumerGroup cannot choose it."""
    dealer: Dealer | None = None
    """How it deals one list of queues; None if it works only on a whole group."""
    settings: tuple[str, ...] = ()
    """The names of its settings in a request's `config`."""
    is_sticky: bool = False
    """
    Whether it starts from who owned what.

    If so, each of its moves has its own reason, a lost consumer gets no new queues, and no queue
    is left out that a consumer may own. If not, it deals all queues anew, to lost consumers too
    while their grace lasts.
    """
    uses: frozenset[str] = frozenset()
    """The fields of `Policy` that it uses beside `config`, `pinned` and `grace_seconds`."""
    most_queues: int = MOST_QUEUES
    """A group with more queues is refused by the operator, as its plans would take too long."""


def refuse_unused(strategy: Strategy, policy: Policy) -> None:
    """Refuse limits that the strategy would ignore."""
    if {"max_moves", "weights"} <= strategy.uses:
        return
    if (policy.max_moves, policy.weights) != (None, None):
        raise errors.BadRequestError(
            f"max_moves and weights belong to STICKY; {shorten(strategy.name)} has neither"
        )
