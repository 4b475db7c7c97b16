"""
Allocate queues that weigh differently, for example by their measured message rate.

No fast algorithm for the best split of weights is known, so only a bound is promised. Queues are
dealt in order of weight, the heaviest first, each to the consumer whose load is then lowest. The
highest load is at most 4/3 of the optimum with equal capacities, and 5/3 otherwise (Graham 1969;
Gonzalez, Ibarra and Sahni 1977). Owners change only if the highest load falls enough. Three splits
are compared:

- *kept*: every consumer keeps the queues that it may own, and free queues are dealt;
- *fresh*: all queues are dealt;
- *repaired*: every consumer keeps the queues that it may own, but consumers above the highest load
  of the fresh split give queues away. These queues and the free ones are dealt.

The kept split is used unless the highest load of the fresh split is lower by at least `minGain`. In
that case the repaired split is used, unless its highest load is above that of the fresh split; then
the fresh split is used.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heapreplace

from lb_core import errors
from lb_core.group import Group
from lb_core.inventory import SPAN, Inventory
from lb_core.policy import Policy, Zones
from lb_core.scale import Scale

MOST_STEPS = 4_000_000
"""
Maximum product of the number of queues and the number of sets of equal consumers. Equal consumers
have the same capacity and zone. Real groups have few capacities and zones.
"""


@dataclass(slots=True)
class WeightedSplit:
    """The owner of each queue, and the load of each consumer."""

    owners: dict[int, int]
    loads: list[float]
    counts: list[int]

    def put(self, number: int, weight: float, place: int) -> None:
        """Give a queue to a consumer."""
        self.owners[number] = place
        self.loads[place] += weight
        self.counts[place] += 1

    def remove(self, number: int, weight: float) -> None:
        """Take a queue away from its owner."""
        place = self.owners.pop(number)
        self.loads[place] -= weight
        self.counts[place] -= 1


class Weigher:
    """Deals each queue to the consumer whose load is then lowest, among those that may own it."""

    def __init__(self, queues: Inventory, group: Group, policy: Policy, scale: Scale) -> None:
        """Group consumers by zone and capacity: only the least loaded one of each set matters."""
        members = [group.members[name] for name in group.eligible]
        self.weigh = scale.weigh
        self.capacities = group.capacities
        self.zones = [None if policy.zones is Zones.IGNORE else member.zone for member in members]
        self.equals: dict[tuple[str | None, float], list[int]] = {}
        for place, member in enumerate(members):
            self.equals.setdefault((self.zones[place], member.capacity), []).append(place)
        self.zone_of_source = [source.zone for source in queues.sources]
        bound = set(self.zones) - {None} if policy.zones is Zones.REQUIRE else set()
        self.bound_to = [zone if zone in bound else None for zone in self.zone_of_source]

    def make_empty(self) -> WeightedSplit:
        """Return a split in which no queue has an owner."""
        return WeightedSplit({}, [0.0] * len(self.capacities), [0] * len(self.capacities))

    def find_top(self, split: WeightedSplit) -> float:
        """Return the highest load/capacity."""
        levels = zip(split.loads, self.capacities, strict=True)
        return max(load / capacity for load, capacity in levels)

    def may_own(self, place: int, number: int) -> bool:
        """Return whether a consumer may own this queue."""
        zone = self.bound_to[number // SPAN]
        return zone is None or self.zones[place] == zone

    def deal(
        self, split: WeightedSplit, numbers: Iterable[int], had: dict[int, int]
    ) -> WeightedSplit:
        """
        Deal the queues, the heaviest first, each to the consumer whose load is then the lowest.

        Among equal loads, a consumer in the queue's zone is preferred, then the queue's old owner,
        then the consumer with fewer queues, then the first one.
        """
        heaps = {
            equal: [(split.loads[place], split.counts[place], place) for place in places]
            for equal, places in self.equals.items()
        }
        for heap in heaps.values():
            heapify(heap)
        ordered = sorted(numbers, key=lambda number: (-self.weigh(number), number))
        if len(heaps) * len(ordered) > MOST_STEPS:
            raise errors.BadRequestError(
                f"{len(heaps)} different capacities and zones times {len(ordered)} queues with "
                f"weights is more than {MOST_STEPS}, the maximum"
            )
        for number in ordered:
            places = [_find_lowest(heap, split) for heap in heaps.values()]
            places += [had[number]] if number in had else []
            best = min(
                (place for place in places if self.may_own(place, number)),
                key=lambda place: self._rank(split, place, number, had),
            )
            split.put(number, self.weigh(number), best)
        return split

    def _rank(
        self, split: WeightedSplit, place: int, number: int, had: dict[int, int]
    ) -> tuple[float, bool, bool, int, int]:
        return (
            (split.loads[place] + self.weigh(number)) / self.capacities[place],
            self.zones[place] is None or self.zones[place] != self.zone_of_source[number // SPAN],
            place != had.get(number),
            split.counts[place],
            place,
        )

    def shed(self, split: WeightedSplit, limit: float) -> list[int]:
        """Take as few queues as possible from all consumers above `limit`, and return them."""
        # Proof: as long as no single queue weighs as much as the excess, the heaviest is taken. No
        # k queues weigh more than the k heaviest, so fewer queues are never enough. The last queue
        # taken is the lightest one that covers the excess, so no more load moves than needed.
        owned: dict[int, list[int]] = {}
        for number, place in split.owners.items():
            if split.loads[place] / self.capacities[place] > limit:
                owned.setdefault(place, []).append(number)
        taken = []
        for place, numbers in owned.items():
            numbers.sort(key=lambda number: (self.weigh(number), -number))
            while numbers and split.loads[place] / self.capacities[place] > limit:
                excess = split.loads[place] - limit * self.capacities[place]
                first = bisect_left(numbers, excess, key=self.weigh)
                taken.append(numbers.pop(min(first, len(numbers) - 1)))
                split.remove(taken[-1], self.weigh(taken[-1]))
        return taken


def _find_lowest(heap: list[tuple[float, int, int]], split: WeightedSplit) -> int:
    """Return the least loaded consumer of a heap whose entries may be out of date."""
    # Proof: loads only grow while dealing, so an old entry is never too high. If the first entry is
    # up to date, no other consumer can be lower.
    while heap[0][:2] != (now := (split.loads[heap[0][2]], split.counts[heap[0][2]])):
        heapreplace(heap, (*now, heap[0][2]))
    return heap[0][2]


def choose_owners(
    queues: Inventory,
    group: Group,
    policy: Policy,
    scale: Scale,
    held: dict[int, int],
    free: Iterable[int],
) -> dict[int, int]:
    """
    Return for each queue the index of its owner among the eligible consumers.

    `held` contains the queues that have an owner. An owner that may not keep a queue loses it.
    """
    dealer = Weigher(queues, group, policy, scale)
    numbers = [*held, *free]
    stays = {number: place for number, place in held.items() if dealer.may_own(place, number)}
    loose = [number for number in numbers if number not in stays]
    kept = dealer.deal(_keep(dealer, stays), loose, {})
    fresh = dealer.deal(dealer.make_empty(), numbers, stays)
    limit = dealer.find_top(fresh)
    if limit > dealer.find_top(kept) * (1 - policy.min_gain) or limit >= dealer.find_top(kept):
        return kept.owners
    repaired = _keep(dealer, stays)
    shed = dealer.shed(repaired, limit)
    dealer.deal(repaired, [*loose, *shed], stays)
    return (repaired if dealer.find_top(repaired) <= limit else fresh).owners


def find_lower_bound(group: Group, scale: Scale, numbers: Iterable[int]) -> float:
    """Return a lower bound of the highest load/capacity: the mean, or the heaviest queue alone."""
    weights = [scale.weigh(number) for number in numbers]
    mean = sum(weights) / sum(group.capacities)
    return max(mean, max(weights, default=0) / max(group.capacities))


def _keep(dealer: Weigher, owners: dict[int, int]) -> WeightedSplit:
    split = dealer.make_empty()
    for number, place in owners.items():
        split.put(number, dealer.weigh(number), place)
    return split
