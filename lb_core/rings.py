"""
Decide how many queues of each kind each consumer gets, if there are several kinds.

Queues are of one kind if they have the same zone and the same claimants: for the counts, such
queues are interchangeable. The total number of queues of each consumer (its quota) is given. With
the best counts, as many queues as possible have an owner in their own zone. Among counts that are
equally good in this respect, the best leave the most queues with their old owner. Two steps find
the best counts:

1. A greedy step gives consumers queues of their own zone, then queues that they already have, then
  any queues.
2. Rings improve these counts. In a ring, one consumer gives a queue of kind A and takes one of kind
  B, the next gives B and takes C, and the last gives C and takes A. To *turn* a ring is to let all
  its consumers exchange queues this way. Rings are turned until no ring improves the counts.

Why this is correct: the problem is a minimum-cost flow. Kinds are the nodes, and a consumer that
gives one kind for another is an edge. A flow has the lowest cost if and only if no ring in it has a
negative cost (Klein 1967). So when no such ring is left, no better counts exist.

Each open choice of a quota (`QuotaChoice`) adds one more kind, a *void*. A consumer that takes a
void owns one queue less.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lb_core.quota import Quota

ZONE = 1_000
"""
One more queue in its owner's zone is worth this number of moves.

A ring has at most one step for each kind, and a step saves at most one move. So if there are fewer
kinds than this number, no ring takes a queue out of its owner's zone to save moves.
"""
NO_LIMIT = 1 << 60
NOBODY = -1
"""The `consumer` of an edge that leaves the hub: such an edge belongs to no consumer."""


@dataclass(frozen=True, slots=True)
class QueueKind:
    """Queues that are alike: how many there are, and which consumers are in their zone."""

    count: int
    home: frozenset[int]
    only_home: bool = False


@dataclass(frozen=True, slots=True)
class RingEdge:
    """`consumer` can exchange up to `amount` queues of one kind for another, at `cost` each."""

    cost: int
    give: int
    take: int
    consumer: int
    amount: int


Edges = dict[tuple[int, int], list[RingEdge]]


@dataclass(slots=True)
class Table:
    """
    How many queues of each kind each consumer has.

    The last kinds are voids, one for each `QuotaChoice`.
    """

    kinds: list[QueueKind]
    held: list[list[int]]
    """How many queues of each kind each consumer may keep without a move."""
    has: list[list[int]] = field(default_factory=list)
    voids: list[frozenset[int]] = field(default_factory=list)

    @property
    def width(self) -> int:
        """The number of kinds, including voids."""
        return len(self.kinds) + len(self.voids)

    # Costs are convex. A consumer gives the queues that it has taken from others at the lowest
    # cost, and takes its own old queues at the lowest cost. So a step within one price level costs
    # exactly what its edge states, and more expensive steps come after all cheaper ones.

    def price_giving(self, consumer: int, kind: int) -> tuple[int, int]:
        """Return the cost of giving a queue of this kind, and how many queues have this cost."""
        has = self.has[consumer][kind]
        if kind >= len(self.kinds):
            return 0, has
        home = ZONE if consumer in self.kinds[kind].home else 0
        spare = has - self.held[consumer][kind]
        return (home, spare) if spare > 0 else (home + 1, has)

    def price_taking(self, consumer: int, kind: int) -> tuple[int, int]:
        """Return the cost of taking a queue of this kind, and how many queues have this cost."""
        if kind >= len(self.kinds):
            free = consumer in self.voids[kind - len(self.kinds)]
            return 0, int(free and not self.has[consumer][kind])
        at_home = consumer in self.kinds[kind].home
        if self.kinds[kind].only_home and not at_home:
            return 0, 0
        home = ZONE if at_home else 0
        missing = self.held[consumer][kind] - self.has[consumer][kind]
        return (-home - 1, missing) if missing > 0 else (-home, NO_LIMIT)

    def list_open_voids(self, consumer: int) -> list[int]:
        """List the voids that a consumer could take."""
        voids = range(len(self.kinds), self.width)
        return [kind for kind in voids if self.price_taking(consumer, kind)[1]]


def settle(kinds: list[QueueKind], held: list[list[int]], quota: Quota) -> list[list[int]]:
    """Return for each consumer how many queues of each kind it gets."""
    table = Table(kinds, held)
    _start(table, quota)
    # Turning a ring changes no total of a consumer or of a kind, so the table stays legal. Each
    # turn lowers the total cost, an integer with a lower bound, so the loop ends.
    while ring := _find_ring(edges := _list_cheapest_edges(table), table.width + 1):
        _turn_rings(table, ring, edges)
    return [row[: len(kinds)] for row in table.has]


def _start(table: Table, quota: Quota) -> None:
    """Fill the table greedily. Bad counts here need more rings later; the result is the same."""
    kinds, held = table.kinds, table.held
    left = [kind.count for kind in kinds]
    room = list(quota.base)
    table.has = [[0] * (len(kinds) + len(quota.choices)) for _ in room]
    for place, choice in enumerate(quota.choices, start=len(kinds)):
        chosen = set(_guess(table, quota, choice.consumers, choice.count))
        table.voids.append(frozenset(choice.consumers))
        for consumer in choice.consumers:
            room[consumer] += consumer in chosen
            table.has[consumer][place] = int(consumer not in chosen)

    def fill(consumer: int, kind: int, most: int) -> None:
        count = max(0, min(most, room[consumer], left[kind]))
        table.has[consumer][kind] += count
        room[consumer] -= count
        left[kind] -= count

    everybody = range(len(room))
    homes = [
        (kind, consumer) for kind in range(len(kinds)) for consumer in sorted(kinds[kind].home)
    ]
    for kind, consumer in homes:
        fill(consumer, kind, held[consumer][kind])
    for kind, consumer in homes:
        elsewhere = sum(held[consumer]) - held[consumer][kind]
        fill(consumer, kind, room[consumer] - elsewhere)
    for kind, consumer in homes:
        fill(consumer, kind, room[consumer])
    anywhere = [
        (kind, consumer)
        for kind in range(len(kinds))
        for consumer in (() if kinds[kind].only_home else everybody)
    ]
    for kind, consumer in anywhere:
        fill(consumer, kind, held[consumer][kind] - table.has[consumer][kind])
    for kind, consumer in anywhere:
        fill(consumer, kind, room[consumer])


def _guess(table: Table, quota: Quota, consumers: Sequence[int], count: int) -> list[int]:
    """
    Pick `count` consumers that get one queue more.

    First, find the zones that have more queues than the bases of their consumers add up to. In each
    of them, pick as many consumers as there are queues beyond this sum. If queues must stay in
    their zone, a legal table needs these picks. Then pick the consumers that hold the most queues
    beyond their base.
    """
    chosen: list[int] = []
    by_holding = sorted(consumers, key=lambda place: quota.base[place] - sum(table.held[place]))
    homes: dict[frozenset[int], int] = {}
    for kind in table.kinds:
        if kind.home:
            homes[kind.home] = homes.get(kind.home, 0) + kind.count
    for home, queues in homes.items():
        wanted = queues - sum(quota.base[place] for place in home)
        local = [place for place in by_holding if place in home]
        chosen += local[: max(0, min(wanted, count - len(chosen)))]
    taken = set(chosen)
    chosen += [place for place in by_holding if place not in taken][: count - len(chosen)]
    return chosen


def _list_cheapest_edges(table: Table) -> Edges:
    """
    List for each pair of kinds all the cheapest steps that give one kind and take the other.

    Nearly every consumer can take nearly every kind at no cost. These steps are not listed one by
    one. Instead, an edge leads from the given kind to a node called the *hub*. From the hub, an
    edge without cost leads to each kind that any consumer may own.
    """
    # The cheapest edges are enough: if a ring through other edges has a negative cost, then the
    # same ring through the cheapest edges has a negative cost too. A path through the hub assumes
    # that taking costs 0. The real cost of taking is 0 or less, so the real cost of a ring that is
    # found is at most the computed cost.
    hub = table.width
    edges: Edges = {}
    for consumer, row in enumerate(table.has):
        takes = [(kind, *table.price_taking(consumer, kind)) for kind in range(len(table.kinds))]
        takes = [(kind, gain, most) for kind, gain, most in takes if gain and most]
        takes += [(kind, 0, 1) for kind in table.list_open_voids(consumer)]
        takes.append((hub, 0, NO_LIMIT))
        for give in (kind for kind in range(hub) if row[kind]):
            loss, has = table.price_giving(consumer, give)
            for take, gain, most in takes:
                edge = RingEdge(loss + gain, give, take, consumer, min(has, most))
                best = edges.setdefault((give, take), [edge])
                if best[0].cost > edge.cost:
                    edges[give, take] = [edge]
                elif best[0].cost == edge.cost and best[0] is not edge:
                    best.append(edge)
    for kind, facts in enumerate(table.kinds):
        if not facts.only_home:
            edges[hub, kind] = [RingEdge(0, hub, kind, NOBODY, NO_LIMIT)]
    return {pair: ways for pair, ways in edges.items() if pair[0] != pair[1]}


def _find_ring(edges: Edges, kinds: int) -> list[RingEdge]:
    """Find a ring of negative cost (Bellman-Ford algorithm). Return no edges if there is none."""
    # Without such a ring, the cheapest path to a kind passes each kind at most once, so costs are
    # final after as many rounds as there are kinds. If costs still fall in the last round, then
    # going back as many steps as there are kinds ends inside a ring of negative cost.
    cost = [0] * kinds
    into: dict[int, RingEdge] = {}
    last = None
    for _ in range(kinds):
        last = None
        for (give, take), ways in edges.items():
            if cost[give] + ways[0].cost < cost[take]:
                cost[take] = cost[give] + ways[0].cost
                into[take] = ways[0]
                last = take
        if last is None:
            return []
    assert last is not None
    for _ in range(kinds):
        last = into[last].give
    ring = [into[last]]
    while ring[-1].give != last:
        ring.append(into[ring[-1].give])
    return ring[::-1]


def _turn_rings(table: Table, ring: list[RingEdge], edges: Edges) -> None:
    """
    Turn a ring, then its parallel rings: the same exchanges by consumers that were not used before.

    It does no harm if a consumer is in a ring twice: no two steps of a ring give the same kind, and
    no two take the same kind. If one of the consumer's steps takes a kind and its other step gives
    that kind away, the two cancel out. The ring then costs no more than computed.
    """
    # The price of an edge depends only on what its own consumer has. So turning one ring does not
    # change the prices of other consumers, and parallel rings are still worth turning.
    busy: set[int] = set()
    _pass_on(table, _replace_hub(table, ring), busy)
    lanes = [iter(edges[edge.give, edge.take]) for edge in ring]
    while True:
        beside: list[RingEdge] = []
        for edge, lane in zip(ring, lanes, strict=True):
            if edge.consumer == NOBODY:
                beside.append(edge)
            elif (other := next((one for one in lane if one.consumer not in busy), None)) is None:
                return
            else:
                busy.add(other.consumer)
                beside.append(other)
        _pass_on(table, _replace_hub(table, beside), busy)


def _pass_on(table: Table, ring: list[RingEdge], busy: set[int]) -> None:
    # The smallest amount of all steps is exchanged. So each step stays within its price level, and
    # no count becomes negative.
    amount = min(edge.amount for edge in ring)
    for edge in ring:
        table.has[edge.consumer][edge.give] -= amount
        table.has[edge.consumer][edge.take] += amount
        busy.add(edge.consumer)


def _replace_hub(table: Table, ring: list[RingEdge]) -> list[RingEdge]:
    """Replace the step to the hub and the step from the hub by one direct step."""
    after = next((at for at, edge in enumerate(ring) if edge.consumer == NOBODY), None)
    if after is None:
        return ring
    step = _step_directly(table, ring[after - 1].consumer, ring[after - 1].give, ring[after].take)
    turned = ring[after:] + ring[:after]
    return [*step, *turned[1:-1]]


def _step_directly(table: Table, consumer: int, give: int, take: int) -> Iterator[RingEdge]:
    """Yield a consumer's step from one kind to another; no step if the kinds are the same."""
    if give != take:
        loss, has = table.price_giving(consumer, give)
        gain, most = table.price_taking(consumer, take)
        yield RingEdge(loss + gain, give, take, consumer, min(has, most))
