"""
Strategies by name: RocketMQ's, which stay as they are, and those that users add.

A user's strategy is one function, called as `function(queues, consumers, config)` with lists that
are not empty. It returns a mapping from consumer to queues; a consumer it leaves out gets none.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from lb_core import errors, model
from lb_core.model import Queue
from lb_core.strategies import common

UserFunction: TypeAlias = Callable[
    [Sequence[Queue], Sequence[str], common.Config], Mapping[str, Sequence[Queue]]
]

GROUP_WIDE = "STICKY"
"""Deals all topics of a group together, so it is no strategy for one list; its name is taken."""

_built_in: dict[str, common.Strategy] = {}
_added: dict[str, common.Strategy] = {}


def find(name: str) -> common.Strategy:
    """Return the strategy of this name."""
    if not isinstance(name, str):
        raise errors.BadRequestError(f"a strategy's name is a text, not {model.shorten(name)}")
    if name == GROUP_WIDE:
        raise errors.UnknownStrategyError(
            f"{GROUP_WIDE} deals all topics of a group together and cannot deal one list"
        )
    found = _built_in.get(name) or _added.get(name)
    if found is None:
        raise errors.UnknownStrategyError(
            f"no strategy is called {model.shorten(name)}; there are {', '.join(names())}"
        )
    return found


def names() -> list[str]:
    """Return all names that can be asked for, the group-wide strategy's included."""
    return [GROUP_WIDE, *_built_in, *sorted(_added)]


def register(name: str, function: UserFunction) -> None:
    """Add a user's strategy, in the place of an earlier one of theirs with the same name."""
    if not isinstance(name, str) or not name or not callable(function):
        raise errors.BadRequestError("a strategy needs a name and a function")
    if name == GROUP_WIDE or name in _built_in:
        raise errors.BadRequestError(f"the name {name} belongs to a built-in strategy")
    _added[name] = _guarded(name, function)


def unregister(name: str) -> None:
    """Forget a user's strategy; one that is unknown is forgotten already."""
    _added.pop(name, None)


def build_in(*strategies: common.Strategy) -> None:
    """Put the strategies of this package in their places."""
    _built_in.update({strategy.name: strategy for strategy in strategies})


def _guarded(name: str, function: UserFunction) -> common.Strategy:
    """Make a whole strategy of one function, and turn its mistakes into named errors."""

    def allocate(
        queues: common.Queues, consumers: common.Consumers, config: common.Config
    ) -> common.Assignment:
        queues, consumers = common.checked_group(queues, consumers)
        try:
            given = function(queues, list(consumers), config)
        except errors.AllocationError:
            raise
        except Exception as error:
            raise errors.StrategyFailedError(f"strategy {name} raised {error!r:.500}") from error
        return _checked_answer(name, given, consumers)

    def allocate_one(
        caller: str | None,
        queues: common.Queues,
        consumers: common.Consumers,
        config: common.Config,
    ) -> list[Queue]:
        caller, queues, consumers = common.checked_call(caller, queues, consumers)
        return allocate(queues, consumers, config)[caller] if caller in consumers else []

    return common.Strategy(name, allocate, allocate_one)


def _checked_answer(name: str, given: object, consumers: Sequence[str]) -> common.Assignment:
    """Return a list for each consumer. Whether the queues exist, `lb_core.check` sees later."""
    if not isinstance(given, Mapping):
        raise errors.StrategyFailedError(f"strategy {name} returned no mapping")
    owned: common.Assignment = {consumer: [] for consumer in consumers}
    for consumer, queues in given.items():
        if consumer not in owned:
            raise errors.ForeignConsumerError(
                f"strategy {name} named {model.shorten(consumer)}, who is not in the group"
            )
        if not isinstance(queues, list | tuple) or not all(isinstance(q, Queue) for q in queues):
            raise errors.StrategyFailedError(
                f"strategy {name} gave {model.shorten(consumer)} something else than a list of "
                f"Queue: {model.quote(queues)}"
            )
        owned[consumer] = list(queues)
    return owned
