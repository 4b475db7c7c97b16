"""
How many queues of each kind each consumer gets, where queues are of several kinds.

Queues are of one kind when nothing tells them apart for counting: the same zone, and the same
claimants. Given how many queues each consumer owns in all (its quota), the counts that keep most
queues in their owner's zone and then most queues where they are follow from two steps:

1. a greedy start: fill the zones, keep what fits, fill the rest;
2. rings: while some consumers can pass kinds on in a ring (one gives an A for a B, the next a B for
   a C, the last a C for an A) and the whole gets better by it, they do.

No ring left means that no better counts exist: that is the optimality condition of minimum-cost
flow. A quota's open choice is one more kind, the *void*: whoever takes a void owns one queue less.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lb_core.quota import Quota

ZONE = 1_000
"""What a queue in its owner's zone is worth in moves: more than any one ring can save."""
NO_LIMIT = 1 << 60
NOBODY = -1


@dataclass(frozen=True, slots=True)
class Kind:
    """Queues that are alike: how many there are, who is at home there, and who may own them."""

    count: int
    home: frozenset[int]
    only_home: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """`consumer` gives `amount` queues of one kind for as many of another, at `cost` for each."""

    cost: int
    give: int
    take: int
    consumer: int
    amount: int


Edges = dict[tuple[int, int], list[Edge]]


@dataclass(slots=True)
class Table:
    """Who has how many of each kind. The voids are the last kinds, one for each open choice."""

    kinds: list[Kind]
    held: list[list[int]]
    """How many queues of a kind a consumer may keep without a move."""
    has: list[list[int]] = field(default_factory=list)
    voids: list[frozenset[int]] = field(default_factory=list)

    @property
    def width(self) -> int:
        """How many kinds there are, voids included."""
        return len(self.kinds) + len(self.voids)

    def giving(self, consumer: int, kind: int) -> tuple[int, int]:
        """The cost of giving one queue of a kind away, and for how many it holds."""
        has = self.has[consumer][kind]
        if kind >= len(self.kinds):
            return 0, has
        home = ZONE if consumer in self.kinds[kind].home else 0
        spare = has - self.held[consumer][kind]
        return (home, spare) if spare > 0 else (home + 1, has)

    def taking(self, consumer: int, kind: int) -> tuple[int, int]:
        """The cost of taking one queue of a kind, and for how many it holds."""
        if kind >= len(self.kinds):
            free = consumer in self.voids[kind - len(self.kinds)]
            return 0, int(free and not self.has[consumer][kind])
        at_home = consumer in self.kinds[kind].home
        if self.kinds[kind].only_home and not at_home:
            return 0, 0
        home = ZONE if at_home else 0
        missing = self.held[consumer][kind] - self.has[consumer][kind]
        return (-home - 1, missing) if missing > 0 else (-home, NO_LIMIT)

    def open_voids(self, consumer: int) -> list[int]:
        """The voids that a consumer could take."""
        voids = range(len(self.kinds), self.width)
        return [kind for kind in voids if self.taking(consumer, kind)[1]]


def settle(kinds: list[Kind], held: list[list[int]], quota: Quota) -> list[list[int]]:
    """Return for each consumer how many queues of each kind it gets."""
    table = Table(kinds, held)
    _start(table, quota)
    while ring := _find_ring(edges := _cheapest_edges(table), table.width + 1):
        _turn(table, ring, edges)
    return [row[: len(kinds)] for row in table.has]


def _start(table: Table, quota: Quota) -> None:
    """Fill the table greedily; what it gets wrong costs rings, never the result."""
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
    Pick who gets one queue more: first as many as each zone needs, then whoever holds more.

    A zone whose queues must stay in it needs them for the table to be possible at all.
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


def _cheapest_edges(table: Table) -> Edges:
    """
    For each pair of kinds all the cheapest ways to pass one for the other.

    Nearly everybody takes nearly every kind at no cost. Such steps are not listed one by one: who
    gives goes to the *hub*, and from the hub it costs nothing to any kind that may go anywhere.
    """
    hub = table.width
    edges: Edges = {}
    for consumer, row in enumerate(table.has):
        takes = [(kind, *table.taking(consumer, kind)) for kind in range(len(table.kinds))]
        takes = [(kind, gain, most) for kind, gain, most in takes if gain and most]
        takes += [(kind, 0, 1) for kind in table.open_voids(consumer)]
        takes.append((hub, 0, NO_LIMIT))
        for give in (kind for kind in range(hub) if row[kind]):
            loss, has = table.giving(consumer, give)
            for take, gain, most in takes:
                edge = Edge(loss + gain, give, take, consumer, min(has, most))
                best = edges.setdefault((give, take), [edge])
                if best[0].cost > edge.cost:
                    edges[give, take] = [edge]
                elif best[0].cost == edge.cost and best[0] is not edge:
                    best.append(edge)
    for kind, facts in enumerate(table.kinds):
        if not facts.only_home:
            edges[hub, kind] = [Edge(0, hub, kind, NOBODY, NO_LIMIT)]
    return {pair: ways for pair, ways in edges.items() if pair[0] != pair[1]}


def _find_ring(edges: Edges, kinds: int) -> list[Edge]:
    """Find a ring that costs less than nothing (Bellman and Ford), or return no edge."""
    cost = [0] * kinds
    into: dict[int, Edge] = {}
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


def _turn(table: Table, ring: list[Edge], edges: Edges) -> None:
    """
    Turn a ring, then the rings of equal cost beside it in which everybody is new.

    That one consumer stands in a ring twice does no harm: its steps concern different kinds, and
    where it would take a kind and give it on, it really does neither, which costs no more.
    """
    busy: set[int] = set()
    _pass_on(table, _without_hub(table, ring), busy)
    lanes = [iter(edges[edge.give, edge.take]) for edge in ring]
    while True:
        beside: list[Edge] = []
        for edge, lane in zip(ring, lanes, strict=True):
            if edge.consumer == NOBODY:
                beside.append(edge)
            elif (other := next((one for one in lane if one.consumer not in busy), None)) is None:
                return
            else:
                busy.add(other.consumer)
                beside.append(other)
        _pass_on(table, _without_hub(table, beside), busy)


def _pass_on(table: Table, ring: list[Edge], busy: set[int]) -> None:
    amount = min(edge.amount for edge in ring)
    for edge in ring:
        table.has[edge.consumer][edge.give] -= amount
        table.has[edge.consumer][edge.take] += amount
        busy.add(edge.consumer)


def _without_hub(table: Table, ring: list[Edge]) -> list[Edge]:
    """Make one step of the two that lead to the hub and on from there."""
    after = next((at for at, edge in enumerate(ring) if edge.consumer == NOBODY), None)
    if after is None:
        return ring
    step = _direct(table, ring[after - 1].consumer, ring[after - 1].give, ring[after].take)
    turned = ring[after:] + ring[:after]
    return [*step, *turned[1:-1]]


def _direct(table: Table, consumer: int, give: int, take: int) -> Iterator[Edge]:
    """One consumer's step from one kind to another; none at all where they are the same."""
    if give != take:
        loss, has = table.giving(consumer, give)
        gain, most = table.taking(consumer, take)
        yield Edge(loss + gain, give, take, consumer, min(has, most))
