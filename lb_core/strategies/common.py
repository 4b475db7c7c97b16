"""
Common parts of strategies that deal lists: their type, RocketMQ's checks, errors about settings.

A dealer has two functions. `deal` deals to the whole group in one pass and returns a list for each
distinct consumer id. `deal_one` deals to one caller, and returns the result or raises the exception
of RocketMQ's class. Like RocketMQ's classes, both use the lists in the given order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lb_core import errors, model
from lb_core.model import Queue

Queues: TypeAlias = Sequence[Queue] | None
Consumers: TypeAlias = Sequence[str] | None
Config: TypeAlias = Mapping[str, object]
Assignment: TypeAlias = dict[str, list[Queue]]


def accept_any(config: Config) -> None:
    """Accept all settings. For strategies that read no settings."""


def never_null(consumers: Sequence[str], config: Config) -> bool:
    """Return False. For strategies that never answer with null."""
    return False


def count_one_point(config: Config) -> int:
    """Return 1. For strategies that visit each consumer once."""
    return 1


@dataclass(frozen=True, slots=True)
class Dealer:
    """Deals a list of queues to a list of consumers, as RocketMQ's strategies do."""

    name: str
    deal: Callable[[Queues, Consumers, Config], Assignment]
    """Deal to the whole group. Two consumers may get the same list object: do not change it."""
    deal_one: Callable[[str | None, Queues, Consumers, Config], list[Queue] | None]
    """Deal to one caller. None means null, which RocketMQ's rebalance loop reads as "no queues"."""
    check: Callable[[Config], None] = accept_any
    """Refuse bad settings before any list is read, as RocketMQ's constructor does."""
    deals_null: Callable[[Sequence[str], Config], bool] = never_null
    """Whether `deal_one` would answer null to any of these consumers."""
    count_points: Callable[[Config], int] = count_one_point
    """Count the points of one consumer on a hash ring, so that callers can limit the work."""
    takes_all_topics: bool = False
    """Whether it deals all topics in one call, and not one topic per call."""


def check_group(queues: Queues, consumers: Consumers) -> tuple[list[Queue], Sequence[str]]:
    """Return both lists. Refuse missing or empty lists, and blank consumer ids."""
    if consumers and "" in consumers:
        raise errors.IllegalArgumentException("currentCID is empty")
    if not queues:
        raise errors.IllegalArgumentException("mqAll is null or mqAll empty")
    if not consumers:
        raise errors.IllegalArgumentException("cidAll is null or cidAll empty")
    return list(queues), consumers


def check_call(
    caller: str | None, queues: Queues, consumers: Consumers
) -> tuple[str, Sequence[Queue], Sequence[str]]:
    """Check the caller and the lists in RocketMQ's order. The caller need not be in the list."""
    if not caller:
        raise errors.IllegalArgumentException("currentCID is empty")
    if not queues:
        raise errors.IllegalArgumentException("mqAll is null or mqAll empty")
    if not consumers:
        raise errors.IllegalArgumentException("cidAll is null or cidAll empty")
    return caller, queues, consumers


def find_first_positions(consumers: Sequence[str]) -> dict[str, int]:
    """
    Return the first position of each id in the list.

    RocketMQ finds a caller's position by its id. So if an id is listed several times, all consumers
    with this id get the queues of its first position, and no consumer gets the queues of the id's
    other positions.
    """
    positions: dict[str, int] = {}
    for position, consumer in enumerate(consumers):
        positions.setdefault(consumer, position)
    return positions


def refuse_setting(key: str, wanted: str, value: object) -> errors.BadRequestError:
    """Make the error for a setting that has the wrong type."""
    return errors.BadRequestError(f"config.{key} must be {wanted}, not {model.shorten(value)}")
