"""
BROADCASTING: every consumer reads every queue.

RocketMQ asks no strategy in this message model and looks at no list of consumers, so nothing is
checked here: a caller gets all queues, known to the group or not.
"""

from lb_core.model import Queue
from lb_core.strategies import common


def allocate(
    queues: common.Queues, consumers: common.Consumers, _: common.Config
) -> common.Assignment:
    """Give everybody the same list: 10,000 consumers of 500,000 queues cost one list of them."""
    everything = list(queues or ())
    return dict.fromkeys(consumers or (), everything)


def allocate_one(
    _: str | None, queues: common.Queues, __: common.Consumers, ___: common.Config
) -> list[Queue]:
    """Return all queues."""
    return list(queues or ())


STRATEGY = common.Strategy("BROADCASTING", allocate, allocate_one)
