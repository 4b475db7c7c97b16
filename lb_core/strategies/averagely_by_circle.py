"""AVG_BY_CIRCLE: queue j goes to consumer j mod n, as cards are dealt."""

from lb_core.model import Queue
from lb_core.strategies import common


def allocate(
    queues: common.Queues, consumers: common.Consumers, _: common.Config
) -> common.Assignment:
    """Deal the queues round the circle of consumers."""
    queues, consumers = common.checked_group(queues, consumers)
    count = len(consumers)
    return {
        consumer: queues[position::count]
        for consumer, position in common.first_positions(consumers).items()
    }


def allocate_one(
    caller: str | None, queues: common.Queues, consumers: common.Consumers, _: common.Config
) -> list[Queue]:
    """Pick what the circle deals to the caller."""
    caller, queues, consumers = common.checked_call(caller, queues, consumers)
    if caller not in consumers:
        return []
    return list(queues[consumers.index(caller) :: len(consumers)])


STRATEGY = common.Strategy("AVG_BY_CIRCLE", allocate, allocate_one)
