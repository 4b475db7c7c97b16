"""
CONFIG: every consumer gets what the settings say. As in RocketMQ, nothing is checked.

`config["queues"]` is one list for all, so that all of them read the same queues, or a mapping from
consumer to its own list. Neither set: null, which RocketMQ reads as "no queues".
"""

from collections.abc import Mapping, Sequence

from lb_core import model
from lb_core.model import Queue
from lb_core.strategies import common, lists
from lb_core.strategies.strategy import MOST_SINGLE_QUEUES


def deal(_: common.Queues, consumers: common.Consumers, config: common.Config) -> common.Assignment:
    """Give each consumer its configured list; where none is set, an empty one."""
    lists = _read_lists(config)
    if isinstance(lists, Mapping):
        return {
            consumer: _read_queues(lists[consumer]) if lists.get(consumer) is not None else []
            for consumer in consumers or ()
        }
    same = _read_queues(lists) if lists is not None else []
    return dict.fromkeys(consumers or (), same)


def deal_one(
    caller: str | None, _: common.Queues, __: common.Consumers, config: common.Config
) -> list[Queue] | None:
    """Return the caller's configured list, or None where none is set."""
    lists = _read_lists(config)
    own = lists.get(caller) if isinstance(lists, Mapping) else lists
    return _read_queues(own) if own is not None else None


def deals_null(consumers: Sequence[str], config: common.Config) -> bool:
    """Whether one of these consumers would be answered with null."""
    lists = _read_lists(config)
    if isinstance(lists, Mapping):
        return any(lists.get(consumer) is None for consumer in consumers)
    return lists is None


def check(config: common.Config) -> None:
    """Refuse what is neither a list of queues nor a mapping to such lists."""
    lists = _read_lists(config)
    every = lists.values() if isinstance(lists, Mapping) else [lists]
    for one in every:
        if one is not None:
            _read_queues(one)


def _read_lists(config: common.Config) -> Sequence[object] | Mapping[object, object] | None:
    lists = config.get("queues")
    if lists is None or isinstance(lists, list | tuple | Mapping):
        return lists
    raise common.refuse_setting("queues", "a list of queues, or one for each consumer", lists)


def _read_queues(values: object) -> list[Queue]:
    if not isinstance(values, list | tuple):
        raise common.refuse_setting("queues", "lists of queues", values)
    return [value if isinstance(value, Queue) else _read_queue(value) for value in values]


def _read_queue(value: object) -> Queue:
    """Read `[topic, broker, id]`, with a zone as fourth where there is one."""
    match value:
        case [str(topic), str(broker), int(number)] if _is_id(number):
            return Queue(topic, broker, number)
        case [str(topic), str(broker), int(number), (str() | None) as zone] if _is_id(number):
            return Queue(topic, broker, number, zone)
    raise common.refuse_setting("queues", "made of [topic, broker, id] each", value)


def _is_id(number: int) -> bool:
    """Whether it fits a queue id. Negative ones are RocketMQ's too: -1 is "any queue"."""
    return not isinstance(number, bool) and abs(number) <= model.MAX_QUEUE_ID


STRATEGY = lists.make_strategy(
    common.Dealer("CONFIG", deal, deal_one, check, deals_null=deals_null, takes_all_topics=True),
    title="Config",
    describe=lambda _: "each consumer has what spec.strategy.config names",
    settings=("queues",),
    most_queues=MOST_SINGLE_QUEUES,
)
