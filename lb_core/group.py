"""Find which members of a group may own queues under a policy."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from lb_core import errors
from lb_core.model import Member, shorten, sort_texts
from lb_core.policy import Policy

id_of = attrgetter("id")


@dataclass(frozen=True, slots=True)
class Group:
    """
    The members of a group, divided by what they may do: get queues, only keep queues, or neither.

    `eligible` is in canonical order. `waiting` members are lost, but their grace is not over.
    `draining` members keep queues only until these can be moved.
    """

    members: Mapping[str, Member]
    eligible: list[str]
    waiting: list[str]
    draining: frozenset[str]
    keeping: frozenset[str]
    """The eligible and the waiting members. Their queues may stay with them."""
    capacities: list[float]
    """The capacities of the eligible members, in the same order."""


def sort_out(members: Iterable[Member], policy: Policy) -> Group:
    """Divide the members by what they may do under a policy. Refuse a repeated id."""
    members = list(members)
    strangers = set(map(type, members)) - {Member}
    if strangers:
        raise errors.BadRequestError(f"members: {strangers.pop().__name__} is not a Member")
    by_id = dict(zip(map(id_of, members), members, strict=True))
    if len(by_id) != len(members):
        twice = next(name for name, count in Counter(m.id for m in members).items() if count > 1)
        raise errors.DuplicateConsumerError(f"consumer {shorten(twice)} is listed twice")
    waiting, draining, eligible = [], [], []
    pinned = policy.pinned
    for name, member in by_id.items():
        if member.capacity == 0 or (pinned and name not in pinned):
            continue
        if member.lost_for_seconds is not None:
            if member.lost_for_seconds < policy.grace_seconds:
                waiting.append(name)
        elif member.draining:
            draining.append(name)
        else:
            eligible.append(name)
    if not eligible:
        eligible, draining = draining, []
    eligible = sort_texts(eligible)
    return Group(
        by_id,
        eligible,
        sort_texts(waiting),
        frozenset(draining),
        frozenset(eligible + waiting),
        [by_id[name].capacity for name in eligible],
    )
