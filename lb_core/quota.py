"""
Decide how many queues each consumer should own, but not which ones.

Think of each consumer as a glass as wide as its capacity. Queues are poured into the glasses so
that the highest level is as low as possible, then the second highest, and so on. If the last queues
fit several glasses of one width equally well, the choice stays open (`QuotaChoice`). A later step
chooses so that the fewest queues move.

100 queues over 12 equal consumers: each gets 8, and the choice is which 4 hold a ninth.
Queues that must stay in their zone are poured only into that zone's glasses.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heapify, heapreplace
from operator import truediv


@dataclass(frozen=True, slots=True)
class QuotaChoice:
    """Any `count` of these consumers get one queue more than their base."""

    consumers: Sequence[int]
    count: int


@dataclass(slots=True)
class Quota:
    """The number of queues for each consumer, and the choices that stay open."""

    base: list[int]
    choices: list[QuotaChoice] = field(default_factory=list)

    def find_top(self, capacities: Sequence[float]) -> float:
        """Return the highest load divided by capacity under these quotas."""
        levels = list(map(truediv, self.base, capacities))
        levels += [
            (self.base[choice.consumers[0]] + 1) / capacities[choice.consumers[0]]
            for choice in self.choices
            if choice.count
        ]
        return max(levels, default=0.0)


def level(capacities: Sequence[float], queues: int) -> Quota:
    """Divide `queues` among all consumers. The result is exact, also with fractional capacities."""
    if not capacities:
        return Quota([])
    if capacities[0] == min(capacities) == max(capacities):
        each, over = divmod(queues, len(capacities))
        return Quota([each] * len(capacities), [QuotaChoice(range(len(capacities)), over)])
    if not queues:
        return Quota([0] * len(capacities))
    exact = [Fraction(capacity) for capacity in capacities]
    # Proof: the k-th queue of a glass has the height k / width. Sort all these heights, and fill
    # the first N of them, where N is the number of queues: then no level can be lower. `height` is
    # the highest filled one: each glass holds its queues below that height, and the queues exactly
    # at that height are handed out last.
    height = _find_height(exact, queues)
    base = [-(-height * width // 1) - 1 for width in exact]
    fitting = [place for place, width in enumerate(exact) if (height * width).denominator == 1]
    return _hand_out_rest(base, exact, fitting, queues - sum(base))


def level_by_zone(
    capacities: Sequence[float], bound: Sequence[tuple[Sequence[int], int]], queues: int
) -> Quota:
    """
    Divide `queues`, some of which must stay in their zone.

    For each `(consumers, count)` in `bound`, `count` queues must go to these consumers, which form
    a zone. If a zone's own queues would rise above the common level, they are poured into the
    zone's glasses alone. The other consumers share the other queues. This is repeated until no zone
    rises above the common level.
    """
    # Proof for equal capacities: a zone above the common level takes no queues of other zones, and
    # its own queues cannot leave. If its queues are poured into its own glasses alone, the level of
    # the other consumers falls, so the zone stays above that level. For unequal capacities there is
    # no proof; tests compare the result with brute force.
    quota = Quota([0] * len(capacities))
    together = set(range(len(capacities)))
    zones = [(list(consumers), count) for consumers, count in bound]
    while True:
        shared = sorted(together)
        common = level([capacities[place] for place in shared], queues)
        above = _list_standing_out(
            zones, dict(zip(shared, common.base, strict=True)), common, shared
        )
        if not above:
            break
        for consumers, count in above:
            _add(quota, consumers, level([capacities[place] for place in consumers], count))
            together -= set(consumers)
            queues -= count
        zones = [zone for zone in zones if zone not in above]
    _add(quota, shared, common)
    return quota


def _find_height(widths: Sequence[Fraction], queues: int) -> Fraction:
    """Return the height of the last queue: the `queues`-th smallest of all k / width."""
    # Proof: if queues were water, all glasses would be filled to the level `flat`. Up to this level
    # a glass holds `base` whole queues. The queues that are left are fewer than the glasses. One by
    # one, each goes to the place that is then the lowest free one.
    flat = Fraction(queues) / sum(widths)
    base = [flat * width // 1 for width in widths]
    height = max(
        (Fraction(load) / width for load, width in zip(base, widths, strict=True)),
        default=Fraction(0),
    )
    nexts = [((load + 1) / width, width) for load, width in zip(base, widths, strict=True)]
    heapify(nexts)
    for _ in range(queues - sum(base)):
        height, width = nexts[0]
        heapreplace(nexts, (height + 1 / width, width))
    return height


def _hand_out_rest(
    base: list[int], widths: Sequence[Fraction], fitting: Sequence[int], rest: int
) -> Quota:
    """
    Give the last queues, which all have the same height, to the widest glasses that they fit.

    A glass that gets none of these queues stays 1 / width below that height. Narrow glasses stay
    the furthest below. So if the narrow glasses get none, the levels below the highest are as low
    as possible.
    """
    quota = Quota(base)
    for width in sorted({widths[place] for place in fitting}, reverse=True):
        same = [place for place in fitting if widths[place] == width]
        if len(same) > rest:
            quota.choices.append(QuotaChoice(same, rest))
            break
        for place in same:
            base[place] += 1
        rest -= len(same)
    return quota


def _list_standing_out(
    zones: Sequence[tuple[list[int], int]],
    base: dict[int, int],
    common: Quota,
    shared: Sequence[int],
) -> list[tuple[list[int], int]]:
    """List the zones whose own queues do not fit below the common level under any choice."""
    most = dict(base)
    for choice in common.choices:
        for place in choice.consumers:
            most[shared[place]] += bool(choice.count)
    above = [zone for zone in zones if sum(most[place] for place in zone[0]) < zone[1]]
    if above:
        return above
    lacking = [zone for zone in zones if sum(base[place] for place in zone[0]) < zone[1]]
    wanted = sum(count - sum(base[place] for place in consumers) for consumers, count in lacking)
    return lacking if wanted > sum(choice.count for choice in common.choices) else []


def _add(quota: Quota, consumers: Sequence[int], part: Quota) -> None:
    """Copy the quotas of `part`, which numbers its consumers from 0, into `quota`."""
    for place, base in zip(consumers, part.base, strict=True):
        quota.base[place] = base
    quota.choices += [
        QuotaChoice([consumers[place] for place in choice.consumers], choice.count)
        for choice in part.choices
    ]
