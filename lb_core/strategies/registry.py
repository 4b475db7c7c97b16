"""
Finds strategies by name: the built-in ones, and those that users add.

A user's strategy is one function. It is called as `function(queues, consumers, config)`, with lists
that are not empty. It returns a mapping from consumers to queues; a consumer that is not in the
mapping gets no queues.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from lb_core import errors, model
from lb_core.model import Queue
from lb_core.strategies import common, lists
from lb_core.strategies.strategy import MOST_SINGLE_QUEUES, Strategy

UserFunction: TypeAlias = Callable[
    [Sequence[Queue], Sequence[str], common.Config], Mapping[str, Sequence[Queue]]
]

_built_in: dict[str, Strategy] = {}
_added: dict[str, Strategy] = {}


def find(name: str) -> Strategy:
    """Return the strategy of this name."""
    if not isinstance(name, str):
        raise errors.BadRequestError(
            f"a strategy's name must be a string, not {model.shorten(name)}"
        )
    found = _built_in.get(name) or _added.get(name)
    if found is None:
        raise errors.UnknownStrategyError(
            f"there is no strategy {model.shorten(name)}; the strategies are "
            f"{', '.join(list_names())}"
        )
    return found


def find_dealer(name: str) -> common.Dealer:
    """Return the part of a strategy that deals one list."""
    dealer = find(name).dealer
    if dealer is None:
        raise errors.UnknownStrategyError(
            f"{name} assigns all topics of a group together, so it cannot be an inner strategy"
        )
    return dealer


def find_by_title(title: str) -> Strategy:
    """Return the strategy with this name in ConsumerGroups."""
    found = next((each for each in _built_in.values() if title and each.title == title), None)
    if found is None:
        raise errors.UnknownStrategyError(f"no strategy has the title {model.shorten(title)}")
    return found


def list_names() -> list[str]:
    """Return the names of all strategies."""
    return [*_built_in, *sorted(_added)]


def list_built_in() -> list[Strategy]:
    """Return the strategies of this package."""
    return list(_built_in.values())


def register(name: str, function: UserFunction) -> None:
    """Add a user's strategy. It replaces a user's strategy of the same name."""
    if not isinstance(name, str) or not name or not callable(function):
        raise errors.BadRequestError("a strategy needs a name and a function")
    if name in _built_in:
        raise errors.BadRequestError(f"the name {name} belongs to a built-in strategy")
    _added[name] = lists.make_strategy(
        _guard(name, function),
        describe=lambda _: "a strategy of your own",
        most_queues=MOST_SINGLE_QUEUES,
    )


def unregister(name: str) -> None:
    """Remove the user's strategy of this name, if there is one."""
    _added.pop(name, None)


def build_in(*strategies: Strategy) -> None:
    """Add the strategies of this package."""
    _built_in.update({strategy.name: strategy for strategy in strategies})


def _guard(name: str, function: UserFunction) -> common.Dealer:
    """Make a dealer from a user's function. If the function fails, the error names the strategy."""

    def deal(
        queues: common.Queues, consumers: common.Consumers, config: common.Config
    ) -> common.Assignment:
        queues, consumers = common.check_group(queues, consumers)
        try:
            given = function(queues, list(consumers), config)
        except errors.AllocationError:
            raise
        except Exception as error:
            raise errors.StrategyFailedError(f"strategy {name} raised {error!r:.500}") from error
        return _check_answer(name, given, consumers)

    def deal_one(
        caller: str | None,
        queues: common.Queues,
        consumers: common.Consumers,
        config: common.Config,
    ) -> list[Queue]:
        caller, queues, consumers = common.check_call(caller, queues, consumers)
        return deal(queues, consumers, config)[caller] if caller in consumers else []

    return common.Dealer(name, deal, deal_one)


def _check_answer(name: str, given: object, consumers: Sequence[str]) -> common.Assignment:
    """Return a list for each consumer. `lb_core.check` checks the queues later."""
    if not isinstance(given, Mapping):
        raise errors.StrategyFailedError(f"strategy {name} did not return a mapping")
    owned: common.Assignment = {consumer: [] for consumer in consumers}
    for consumer, queues in given.items():
        if consumer not in owned:
            raise errors.ForeignConsumerError(
                f"strategy {name} named {model.shorten(consumer)}, which is not in the group"
            )
        if not isinstance(queues, list | tuple) or not all(isinstance(q, Queue) for q in queues):
            raise errors.StrategyFailedError(
                f"strategy {name} gave {model.shorten(consumer)} something other than a list of "
                f"Queue: {model.quote(queues)}"
            )
        owned[consumer] = list(queues)
    return owned
