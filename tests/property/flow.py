"""
The second oracle: minimum-cost flow, for groups that are too large to try everything.

Each queue flows to a consumer and on to the sink. Costs have three units. Any amount of a
smaller unit is less than one of the next larger unit. The k-th queue of a consumer costs 2k - 1 of
the largest unit, so that even loads are cheapest (the first k odd numbers sum up to k squared, and
the sum of squares is lowest if loads are even). A queue outside its zone costs one of the middle
unit, and a move one of the smallest. All consumers are equal.
"""

from lb_core import Member
from tests.property import oracle


def best(case: oracle.Case) -> oracle.Score:
    """Find the best score of a case whose consumers are equal; none of them is lost."""
    people = oracle.eligible(case)
    options = [[people.index(owner) for owner in owners] for owners in oracle.options(case)]
    count = len(case.queues) + 1
    strange, crowded = count, count * count
    prices = [
        {
            place: zone * strange + move
            for place in owners
            for zone, move in [oracle.cost(case, queue, people[place])]
        }
        for queue, owners in zip(case.queues, options, strict=True)
    ]
    owner_of: list[int | None] = [None] * len(prices)
    loads = [0] * len(people)
    for number in range(len(prices)):
        _augment(number, prices, owner_of, loads, crowded)
    owners: list[Member | None] = [None if at is None else people[at] for at in owner_of]
    return oracle.score(case, people, owners)


def _augment(
    number: int,
    prices: list[dict[int, int]],
    owner_of: list[int | None],
    loads: list[int],
    crowded: int,
) -> None:
    """Give one more queue an owner by the cheapest chain of hand-overs (Bellman and Ford)."""
    cost: dict[int, int] = dict(prices[number])
    reached_by: dict[int, int] = dict.fromkeys(prices[number], number)
    changed = True
    while changed:
        changed = False
        for queue, owner in enumerate(owner_of):
            if owner is None or owner not in cost:
                continue
            for place, price in prices[queue].items():
                total = cost[owner] - prices[queue][owner] + price
                if place != owner and total < cost.get(place, total + 1):
                    cost[place], reached_by[place] = total, queue
                    changed = True
    place = min(cost, key=lambda at: cost[at] + (2 * loads[at] + 1) * crowded)
    loads[place] += 1
    while True:
        queue = reached_by[place]
        owner_of[queue], left = place, owner_of[queue]
        if left is None:
            return
        place = left
