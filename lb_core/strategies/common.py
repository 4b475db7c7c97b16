"""
What the strategies share: their shape, RocketMQ's checks, and the reading of their settings.

A strategy answers in two ways. `allocate` deals for the whole group in one pass and has a list for
each distinct consumer id. `allocate_one` is for one caller, and returns or raises what RocketMQ's
class does for it. Neither sorts: like RocketMQ's classes they take both lists as they are given.
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


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to deal the queues of a group."""

    name: str
    allocate: Callable[[Queues, Consumers, Config], Assignment]
    """The whole group. Two consumers may be given the same list object: do not change it."""
    allocate_one: Callable[[str | None, Queues, Consumers, Config], list[Queue] | None]
    """One caller. None stands for RocketMQ's null, which its loop reads as "no queues"."""
    check: Callable[[Config], None] = accept_any
    """Refuse bad settings, as RocketMQ's constructor does, before any list is looked at."""


def checked_group(queues: Queues, consumers: Consumers) -> tuple[list[Queue], Sequence[str]]:
    """Both lists, once neither is missing or empty and each consumer could be a caller."""
    if consumers and "" in consumers:
        raise errors.IllegalArgumentException("currentCID is empty")
    if not queues:
        raise errors.IllegalArgumentException("mqAll is null or mqAll empty")
    if not consumers:
        raise errors.IllegalArgumentException("cidAll is null or cidAll empty")
    return list(queues), consumers


def checked_call(
    caller: str | None, queues: Queues, consumers: Consumers
) -> tuple[str, Sequence[Queue], Sequence[str]]:
    """All three, in RocketMQ's order of refusal. The caller may still be unknown to the group."""
    if not caller:
        raise errors.IllegalArgumentException("currentCID is empty")
    if not queues:
        raise errors.IllegalArgumentException("mqAll is null or mqAll empty")
    if not consumers:
        raise errors.IllegalArgumentException("cidAll is null or cidAll empty")
    return caller, queues, consumers


def first_positions(consumers: Sequence[str]) -> dict[str, int]:
    """
    Where each id stands first in the list.

    RocketMQ looks a caller up by its id, so every holder of a repeated id gets the first one's
    queues, and nobody gets the second one's.
    """
    positions: dict[str, int] = {}
    for position, consumer in enumerate(consumers):
        positions.setdefault(consumer, position)
    return positions


def bad_setting(key: str, wanted: str, value: object) -> errors.BadRequestError:
    """Make the error for a setting that has the wrong type."""
    return errors.BadRequestError(f"config.{key} must be {wanted}, not {model.shorten(value)}")
