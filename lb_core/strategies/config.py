"""
CONFIG: every consumer gets what the settings say. As in RocketMQ, nothing is checked.

`config["queues"]` is either one list for all consumers, which then read the same queues, or a
mapping from consumers to lists. If it is missing, the result is null, which RocketMQ reads as "no
queues".
"""

from collections.abc import Mapping, Sequence

from lb_core import model
from lb_core.model import Queue
from lb_core.strategies import common, lists
from lb_core.strategies.strategy import MOST_SINGLE_QUEUES


def deal(_: common.Queues, consumers: common.Consumers, config: common.Config) -> common.Assignment:
    """Give each consumer its configured list, or an empty list."""
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
    """Return the caller's configured list, or None if there is none."""
    lists = _read_lists(config)
    own = lists.get(caller) if isinstance(lists, Mapping) else lists
    return _read_queues(own) if own is not None else None


def deals_null(consumers: Sequence[str], config: common.Config) -> bool:
    """Return whether the answer for any of these consumers would be null."""
    lists = _read_lists(config)
    if isinstance(lists, Mapping):
        return any(lists.get(consumer) is None for consumer in consumers)
    return lists is None


def check(config: common.Config) -> None:
    """Refuse settings that are neither a list of queues nor a mapping to such lists."""
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
    """Read `[topic, broker, id]` or `[topic, broker, id, zone]`."""
    match value:
        case [str(topic), str(broker), int(number)] if _is_id(number):
            return Queue(topic, broker, number)
        case [str(topic), str(broker), int(number), (str() | None) as zone] if _is_id(number):
            return Queue(topic, broker, number, zone)
    raise common.refuse_setting("queues", "lists of [topic, broker, id]", value)


def _is_id(number: int) -> bool:
    """Whether the number can be a queue id. RocketMQ also uses negative ids: -1 is "any queue"."""
    return not isinstance(number, bool) and abs(number) <= model.MAX_QUEUE_ID


STRATEGY = lists.make_strategy(
    common.Dealer("CONFIG", deal, deal_one, check, deals_null=deals_null, takes_all_topics=True),
    title="Config",
    describe=lambda _: "each consumer has what spec.strategy.config names",
    settings=("queues",),
    most_queues=MOST_SINGLE_QUEUES,
)
