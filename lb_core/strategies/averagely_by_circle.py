"""AVG_BY_CIRCLE: queue j goes to consumer j mod n, as cards are dealt to n players."""

from lb_core.model import Queue
from lb_core.strategies import common, lists
from lb_core.strategies.strategy import MOST_SINGLE_QUEUES


def deal(queues: common.Queues, consumers: common.Consumers, _: common.Config) -> common.Assignment:
    """Deal the queues round the circle of consumers."""
    queues, consumers = common.check_group(queues, consumers)
    count = len(consumers)
    return {
        consumer: queues[position::count]
        for consumer, position in common.find_first_positions(consumers).items()
    }


def deal_one(
    caller: str | None, queues: common.Queues, consumers: common.Consumers, _: common.Config
) -> list[Queue]:
    """Return only the caller's queues."""
    caller, queues, consumers = common.check_call(caller, queues, consumers)
    if caller not in consumers:
        return []
    return list(queues[consumers.index(caller) :: len(consumers)])


STRATEGY = lists.make_strategy(
    common.Dealer("AVG_BY_CIRCLE", deal, deal_one),
    title="AveragelyByCircle",
    describe=lambda _: "the sorted queues are dealt one by one, around the sorted consumers",
    most_queues=MOST_SINGLE_QUEUES,
)
