"""Builds queues, members and owners with defaults, for many tests."""

import random
from collections.abc import Iterable, Mapping, Sequence

from lb_core import Given, Member, Move, Plan, Policy, Queue, QueueRange, Zones, model, plan
from tests.property.oracle import Case


def queues(count: int, topic: str = "orders", broker: str = "broker-a") -> list[QueueRange]:
    """Make the queues 0 to count - 1 of one topic on one broker."""
    return [QueueRange(topic, broker, 0, count)] if count else []


def members(*names: str) -> list[Member]:
    """Make live members without a zone."""
    return [Member(name) for name in names]


def owners(topic: str = "orders", broker: str = "broker-a", **ids: Sequence[int]) -> Given:
    """Make the previous owners of queues, in the form that a plan takes."""
    return {
        name: [Queue(topic, broker, number) for number in numbers] for name, numbers in ids.items()
    }


def ids(made: Plan, consumer: str) -> list[int]:
    """List the ids that a consumer owns, of all topics."""
    return [queue.id for ranges in made.assignment[consumer] for queue in ranges]


def reasons(moves: Iterable[Move]) -> list[tuple[str | None, str | None, int, str]]:
    """List the moves without their queues, so that tests can compare them."""
    return sorted((m.source or "", m.target or "", m.size, m.reason) for m in moves)


def random_case(rng: random.Random, *, unequal: bool = False) -> Case:
    """Make a random group of at most 8 queues and 4 members, with unusual properties."""
    zones = [None, "z1", "z2", "z3"][: rng.randint(1, 4)]
    people = tuple(
        Member(
            f"c{number}",
            rng.choice(zones),
            rng.choice([1, 2, 0.5, 3]) if unequal else 1,
            rng.random() < 0.15,
            rng.choice([None] * 6 + [10, 60]),
        )
        for number in range(rng.choice([0] + [1, 2, 3, 4] * 5))
    )
    names = [member.id for member in people] + ["gone"]
    found = []
    for _ in range(rng.randint(0, 8)):
        claims = min(rng.choice([0, 1, 1, 1, 1, 1, 1, 2]), len(names))
        found.append((rng.choice(zones), tuple(sorted(rng.sample(names, claims)))))
    pinned = rng.sample(names, rng.randint(1, len(names))) if rng.random() < 0.1 else []
    return Case(
        tuple(found), people, rng.choice(list(Zones)), frozenset(pinned), rng.choice([0, 0, 30])
    )


def spell_out(case: Case) -> tuple[list[Queue], dict[str, list[Queue]]]:
    """List the queues of a case, in up to three topics, and the consumers that claim them."""
    named = [
        Queue(f"topic-{place % 3}", "broker-a", place, zone)
        for place, (zone, _) in enumerate(case.queues)
    ]
    claims: dict[str, list[Queue]] = {}
    for queue, (_, names) in zip(named, case.queues, strict=True):
        for name in names:
            claims.setdefault(name, []).append(queue)
    return named, claims


def plan_case(case: Case, last: Plan | Given, max_moves: int | str | None) -> Plan:
    """Plan a case as STICKY does."""
    policy = Policy(
        zones=case.zones, pinned=case.pinned, grace_seconds=case.grace, max_moves=max_moves
    )
    return plan.plan(last, model.make_ranges(spell_out(case)[0]), case.members, policy)


def holdings(made: Plan) -> Mapping[str, list[Queue]]:
    """List the queues of each owner, as plain lists."""
    return {
        name: [queue for ranges in made.assignment[name] for queue in ranges]
        for name in made.assignment
    }
