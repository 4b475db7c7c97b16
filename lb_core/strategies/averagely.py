"""
AVG, RocketMQ's default: each consumer gets one block of consecutive queues.

For example, 128 queues over 12 consumers: 10 each, and the first 8 hold an eleventh.
"""

from lb_core.model import Queue
from lb_core.strategies import common, lists


def deal(queues: common.Queues, consumers: common.Consumers, _: common.Config) -> common.Assignment:
    """Cut the list into one block for each consumer."""
    queues, consumers = common.check_group(queues, consumers)
    share, extra = divmod(len(queues), len(consumers))
    return {
        consumer: queues[_find_block(share, extra, position)]
        for consumer, position in common.find_first_positions(consumers).items()
    }


def deal_one(
    caller: str | None, queues: common.Queues, consumers: common.Consumers, _: common.Config
) -> list[Queue]:
    """Return only the caller's block."""
    caller, queues, consumers = common.check_call(caller, queues, consumers)
    if caller not in consumers:
        return []
    share, extra = divmod(len(queues), len(consumers))
    return list(queues[_find_block(share, extra, consumers.index(caller))])


def _find_block(share: int, extra: int, position: int) -> slice:
    """Return a consumer's block. Each of the first `extra` blocks has one queue more."""
    start = position * share + min(position, extra)
    return slice(start, start + share + (position < extra))


STRATEGY = lists.make_strategy(
    common.Dealer("AVG", deal, deal_one),
    title="Averagely",
    describe=lambda _: "the sorted queues are cut into runs, one for each of the sorted consumers",
)
