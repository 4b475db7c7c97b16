"""Compares STICKY with algorithms that are too slow for production."""

import random

import pytest

from lb_core import Member, Policy, QueueRange, Zones, plan
from tests import groups
from tests.property import flow, oracle

GROUPS = 10_000


def owners_by_queue(case: oracle.Case, made: plan.Plan) -> list[Member | None]:
    by_id = {member.id: member for member in case.members}
    names = [made.assignment.find_owner(queue) for queue in groups.spell_out(case)[0]]
    return [by_id[name] if name is not None else None for name in names]


@pytest.mark.parametrize("unequal", [False, True], ids=["equal capacities", "unequal capacities"])
def test_no_way_to_hand_out_queues_beats_sticky(seed: int, unequal: bool) -> None:
    """Balance, zones and moves are optimal in 10,000 small, unusual groups."""
    for number in range(GROUPS):
        case = groups.random_case(random.Random(f"{seed}/{number}"), unequal=unequal)
        _, claims = groups.spell_out(case)
        made = groups.plan_case(case, claims, None)
        owners = owners_by_queue(case, made)
        for owner, allowed in zip(owners, oracle.options(case), strict=True):
            assert owner in allowed or (owner is None and not allowed), f"{number}: {case}"
        people = oracle.eligible(case) + oracle.waiting(case)
        score, best = oracle.score(case, people, owners), oracle.best(case)
        assert score == best, f"seed={seed}/{number}: {score}, best {best}, {case}"
        assert made.moved == score[2], f"seed={seed}/{number}: said {made.moved}, {case}"


def test_the_oracle_agrees_with_trying_everything(seed: int) -> None:
    for number in range(300):
        case = groups.random_case(random.Random(f"{seed}/{number}"), unequal=number % 2 > 0)
        small = oracle.Case(case.queues[:5], case.members, case.zones, case.pinned, case.grace)
        assert oracle.best(small) == oracle.brute_force(small), f"seed={seed}/{number}: {small}"


def test_the_order_of_the_lists_does_not_matter(seed: int) -> None:
    for number in range(500):
        rng = random.Random(f"{seed}/{number}")
        case = groups.random_case(rng, unequal=True)
        _, claims = groups.spell_out(case)
        limits: list[int | str | None] = [None, 1, "30%"]
        limit = rng.choice(limits)
        order = rng.sample(range(len(case.queues)), len(case.queues))
        mixed = list(claims.items())
        rng.shuffle(mixed)
        people = rng.sample(case.members, len(case.members))
        policy = Policy(
            zones=case.zones, pinned=case.pinned, grace_seconds=case.grace, max_moves=limit
        )
        singles = [
            QueueRange(q.topic, q.broker, q.id, q.id + 1, q.zone) for q in groups.spell_out(case)[0]
        ]
        shuffled = plan.plan(dict(mixed), [singles[place] for place in order], people, policy)
        straight = groups.plan_case(case, claims, limit)
        assert groups.holdings(shuffled) == groups.holdings(straight), f"seed={seed}/{number}"


def test_a_plan_and_its_text_lead_to_the_same_next_plan(seed: int) -> None:
    """The text has everything that the next plan needs. Without a change, nothing moves."""
    for number in range(500):
        case = groups.random_case(random.Random(f"{seed}/{number}"), unequal=True)
        _, claims = groups.spell_out(case)
        first = groups.plan_case(case, claims, None)
        from_plan = groups.plan_case(case, first, None)
        from_text = groups.plan_case(case, groups.holdings(first), None)
        assert not from_plan.moved
        assert groups.holdings(from_plan) == groups.holdings(from_text) == groups.holdings(first)


def test_rounds_under_max_moves_end_in_the_uncapped_plan(seed: int) -> None:
    """Each plan leaves exactly the deferred moves. The last plan is as good as without a limit."""
    for number in range(1_000):
        rng = random.Random(f"{seed}/{number}")
        case = groups.random_case(rng)
        _, claims = groups.spell_out(case)
        limits: list[int | str] = [1, 2, "10%", "50%"]
        limit = rng.choice(limits)
        made = groups.plan_case(case, claims, limit)
        while made.deferred:
            left = sum(move.size for move in made.deferred)
            assert groups.plan_case(case, made, None).moved == left, f"seed={seed}/{number}"
            made = groups.plan_case(case, made, limit)
            chosen = sum(move.size for move in made.moves if move.chosen)
            assert 0 < chosen <= Policy(max_moves=limit).limit_moves(len(case.queues))
        people = oracle.eligible(case) + oracle.waiting(case)
        score = oracle.score(case, people, owners_by_queue(case, made))
        assert score[:2] == oracle.best(case)[:2], f"seed={seed}/{number}: {case}"


def test_large_groups_meet_the_closed_form(seed: int) -> None:
    """
    Without zones the fewest moves can be computed: each consumer gives away what exceeds its share.

    With q queues and n consumers, a share is q div n, and q mod n consumers may keep one more.
    """
    rng = random.Random(seed)
    made: plan.Plan | None = None
    names = [f"c-{number:04}" for number in range(200)]
    stock = [QueueRange(f"topic-{number}", "broker-a", 0, 400) for number in range(5)]
    for step in range(60):
        before = dict(made.assignment.loads) if made else {}
        for name in rng.sample(names, rng.randint(0, 3)):
            names.remove(name)
        names += [f"n-{step}-{number}" for number in range(rng.randint(0, 3))]
        made = plan.plan(made, stock, groups.members(*names))
        share, extra = divmod(2_000, len(names))
        kept = [min(before.get(name, 0), share) for name in names]
        over = sum(before.get(name, 0) > share for name in names)
        fewest = 2_000 - sum(kept) - min(over, extra) if before else 0
        assert made.moved == fewest, f"seed={seed}, step {step}"
        assert sorted(set(made.assignment.loads.values())) in ([share], [share, share + 1])


def larger_case(rng: random.Random) -> oracle.Case:
    """Make a case with up to 60 queues and 10 equal consumers, all alive, some of them new."""
    zones = [None, "z1", "z2", "z3"][: rng.randint(1, 4)]
    people = tuple(
        Member(f"c{number}", rng.choice(zones), draining=rng.random() < 0.1)
        for number in range(rng.randint(1, 10))
    )
    names = [*(member.id for member in people[rng.randint(0, 1) :]), "gone"]
    stock = tuple(
        (rng.choice(zones), tuple(rng.sample(names, rng.random() < 0.9)))
        for _ in range(rng.randint(0, 60))
    )
    return oracle.Case(stock, people, rng.choice(list(Zones)))


def test_larger_groups_with_zones_meet_minimum_cost_flow(seed: int) -> None:
    for number in range(300):
        case = larger_case(random.Random(f"{seed}/{number}"))
        _, claims = groups.spell_out(case)
        made = groups.plan_case(case, claims, None)
        score = oracle.score(case, oracle.eligible(case), owners_by_queue(case, made))
        assert score == flow.best(case), f"seed={seed}/{number}: {case}"
        assert not groups.plan_case(case, made, None).moved


def test_minimum_cost_flow_agrees_with_the_first_oracle(seed: int) -> None:
    for number in range(200):
        case = larger_case(random.Random(f"{seed}/{number}"))
        small = oracle.Case(case.queues[:8], case.members[:4], case.zones)
        assert flow.best(small) == oracle.best(small), f"seed={seed}/{number}: {small}"


def test_every_consumer_gets_a_like_share_of_every_topic() -> None:
    """Loads are even in each topic, not only in total: all consumers share a busy topic."""
    stock = [QueueRange(f"topic-{number}", "broker-a", 0, 9 + number) for number in range(6)]
    made = plan.plan(None, stock, groups.members(*"abcdefg"))
    for name in made.assignment:
        held = dict.fromkeys((queues.topic for queues in stock), 0)
        for queues in made.assignment[name]:
            held[queues.topic] += len(queues)
        for queues in stock:
            assert len(queues) // 7 <= held[queues.topic] <= len(queues) // 7 + 1


def test_a_newcomer_fed_one_by_one_gets_some_of_every_topic() -> None:
    stock = [QueueRange(f"topic-{number}", "broker-a", 0, 27) for number in range(4)]
    first = plan.plan(None, stock, groups.members(*"abcdefghi"))
    made = plan.plan(first, stock, groups.members(*"abcdefghij"))
    held = [queues.topic for queues in made.assignment["j"] for _ in queues]
    assert sorted(held.count(topic) for topic in set(held)) == [2, 2, 3, 3]


def test_a_newcomer_gets_some_of_every_topic() -> None:
    stock = [QueueRange(f"topic-{number}", "broker-a", 0, 90) for number in range(3)]
    first = plan.plan(None, stock, groups.members(*"abcdefghi"))
    made = plan.plan(first, stock, groups.members(*"abcdefghij"))
    held = [queues.topic for queues in made.assignment["j"] for _ in queues]
    assert {topic: held.count(topic) for topic in set(held)} == {f"topic-{n}": 9 for n in range(3)}
