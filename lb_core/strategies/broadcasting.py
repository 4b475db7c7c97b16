"""
BROADCASTING: every consumer reads every queue.

In this message model RocketMQ uses no strategy and no list of consumers. So nothing is checked
here: a caller gets all queues, even if it is not in the list of consumers.
"""

from lb_core import errors
from lb_core.group import Group
from lb_core.inventory import Inventory
from lb_core.model import Queue
from lb_core.outcome import Outcome
from lb_core.policy import Policy
from lb_core.previous import Previous
from lb_core.strategies import common
from lb_core.strategies.strategy import Strategy


def allocate(queues: Inventory, group: Group, policy: Policy, previous: Previous) -> Outcome:
    """Raise an error, because a plan has one owner for each queue."""
    raise errors.BadRequestError(
        "BROADCASTING gives every queue to every consumer, so there is nothing to plan"
    )


def deal(queues: common.Queues, consumers: common.Consumers, _: common.Config) -> common.Assignment:
    """Give every consumer the same list object, which saves memory in large groups."""
    everything = list(queues or ())
    return dict.fromkeys(consumers or (), everything)


def deal_one(
    _: str | None, queues: common.Queues, __: common.Consumers, ___: common.Config
) -> list[Queue]:
    """Return all queues."""
    return list(queues or ())


STRATEGY = Strategy(
    name="BROADCASTING",
    allocate=allocate,
    dealer=common.Dealer("BROADCASTING", deal, deal_one),
    describe=lambda _: "every consumer has every queue",
)
