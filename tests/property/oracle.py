"""
The slow, obvious answer with which STICKY is compared.

`best` assigns the queues one by one, and considers every consumer for each queue. Of all ways that
lead to the same loads, it keeps only the best by the later goals. `brute_force` tries every way. A
test compares it with `best`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from lb_core import Member, Zones

Claims = tuple[str, ...]
Score = tuple[list[Fraction], int, int]
"""Loads divided by capacity, highest first; queues outside their owner's zone; moves."""


@dataclass(frozen=True)
class Case:
    """A group so small that everything can be tried. A queue is its zone and its claimants' ids."""

    queues: tuple[tuple[str | None, Claims], ...]
    members: tuple[Member, ...]
    zones: Zones
    pinned: frozenset[str] = frozenset()
    grace: float = 0


def eligible(case: Case) -> list[Member]:
    """List the members that may get queues."""
    there = [
        member
        for member in case.members
        if member.capacity > 0
        and (not case.pinned or member.id in case.pinned)
        and member.lost_for_seconds is None
    ]
    return [member for member in there if not member.draining] or there


def waiting(case: Case) -> list[Member]:
    """List the lost members that keep their queues and get no others."""
    return [
        member
        for member in case.members
        if member.capacity > 0
        and (not case.pinned or member.id in case.pinned)
        and member.lost_for_seconds is not None
        and member.lost_for_seconds < case.grace
    ]


def options(case: Case) -> Iterator[list[Member]]:
    """Yield for each queue the members that may own it."""
    people, lost = eligible(case), waiting(case)
    for zone, claims in case.queues:
        keepers = sorted((member for member in lost if member.id in claims), key=lambda m: m.id)
        local = [member for member in people if zone is not None and member.zone == zone]
        if keepers:
            yield keepers[:1]
        elif case.zones is Zones.REQUIRE and local:
            yield local
        else:
            yield people


def cost(case: Case, queue: tuple[str | None, Claims], owner: Member | None) -> tuple[int, int]:
    """Compute what one owner adds to the queues outside their zone, and to the moves."""
    zone, claims = queue
    strange = case.zones is Zones.PREFER and zone is not None and owner is not None
    return (
        int(strange and owner is not None and owner.zone != zone),
        int(bool(claims) and (owner is None or owner.id not in claims)),
    )


def best(case: Case) -> Score:
    """Find the best score, by dynamic programming over the loads."""
    people = eligible(case) + waiting(case)
    places = {member.id: place for place, member in enumerate(people)}
    table: dict[tuple[int, ...], tuple[int, int]] = {(0,) * len(people): (0, 0)}
    for queue, owners in zip(case.queues, options(case), strict=True):
        after: dict[tuple[int, ...], tuple[int, int]] = {}
        for loads, (strangers, moves) in table.items():
            for owner in _or_nobody(owners):
                more = cost(case, queue, owner)
                place = -1 if owner is None else places[owner.id]
                key = tuple(load + (i == place) for i, load in enumerate(loads))
                value = (strangers + more[0], moves + more[1])
                after[key] = min(after.get(key, value), value)
        table = after
    return min((levels(loads, people), *rest) for loads, rest in table.items())


def brute_force(case: Case) -> Score:
    """Find the best score, by trying everything."""
    people = eligible(case) + waiting(case)
    choices = [_or_nobody(owners) for owners in options(case)]
    return min(score(case, people, owners) for owners in product(*choices))


def score(case: Case, people: Sequence[Member], owners: Sequence[Member | None]) -> Score:
    """Compute the score of one way to assign the queues."""
    costs = [cost(case, queue, owner) for queue, owner in zip(case.queues, owners, strict=True)]
    loads = [sum(owner is member for owner in owners) for member in people]
    return levels(loads, people), sum(c[0] for c in costs), sum(c[1] for c in costs)


def levels(loads: Sequence[int], people: Sequence[Member]) -> list[Fraction]:
    """List loads divided by capacity, highest first."""
    return sorted(
        (
            Fraction(load) / Fraction(member.capacity)
            for load, member in zip(loads, people, strict=True)
        ),
        reverse=True,
    )


def _or_nobody(owners: list[Member]) -> Sequence[Member | None]:
    return owners or [None]
