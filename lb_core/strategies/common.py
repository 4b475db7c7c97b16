"""
What strategies that deal lists share: their shape, RocketMQ's checks, and errors about settings.

A dealer answers in two ways. `deal` serves the whole group in one pass and returns a list for each
distinct consumer id. `deal_one` serves one caller, and returns or raises what RocketMQ's class
does for it. Neither sorts: like RocketMQ's classes they take both lists as they are given.
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
    """Check nothing: for strategies that read no settings."""


def never_null(consumers: Sequence[str], config: Config) -> bool:
    """Return False: for strategies that never answer with null."""
    return False


def count_one_point(config: Config) -> int:
    """Count a consumer once: for strategies that look at each consumer once."""
    return 1


@dataclass(frozen=True, slots=True)
class Dealer:
    """Deals a list of queues to a list of consumers, as RocketMQ's strategies do."""

    name: str
    deal: Callable[[Queues, Consumers, Config], Assignment]
    """For the whole group. Two consumers may be given the same list object: do not change it."""
    deal_one: Callable[[str | None, Queues, Consumers, Config], list[Queue] | None]
    """For one caller. None stands for RocketMQ's null, which its loop reads as "no queues"."""
    check: Callable[[Config], None] = accept_any
    """Refuse bad settings, as RocketMQ's constructor does, before any list is looked at."""
    deals_null: Callable[[Sequence[str], Config], bool] = never_null
    """Whether `deal_one` would answer one of these consumers with null."""
    count_points: Callable[[Config], int] = count_one_point
    """How many points one consumer takes, for limits on the work."""
    takes_all_topics: bool = False
    """Whether it is asked once for all topics, and not topic by topic."""


def check_group(queues: Queues, consumers: Consumers) -> tuple[list[Queue], Sequence[str]]:
    """Return both lists, once neither is missing or empty and each consumer could be a caller."""
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
    """Return all three, checked in RocketMQ's order. The group may still not know the caller."""
    if not caller:
        raise errors.IllegalArgumentException("currentCID is empty")
    if not queues:
        raise errors.IllegalArgumentException("mqAll is null or mqAll empty")
    if not consumers:
        raise errors.IllegalArgumentException("cidAll is null or cidAll empty")
    return caller, queues, consumers


def find_first_positions(consumers: Sequence[str]) -> dict[str, int]:
    """
    Return where each id stands first in the list.

    RocketMQ looks a caller up by its id, so every holder of a repeated id gets the first one's
    queues, and nobody gets the second one's.
    """
    positions: dict[str, int] = {}
    for position, consumer in enumerate(consumers):
        positions.setdefault(consumer, position)
    return positions


def refuse_setting(key: str, wanted: str, value: object) -> errors.BadRequestError:
    """Make the error for a setting that has the wrong type."""
    return errors.BadRequestError(f"config.{key} must be {wanted}, not {model.shorten(value)}")
