"""
How many queues each consumer should own, before anybody asks which ones.

Think of each consumer as a glass as wide as its capacity. Queues are poured so that the highest
level, then the second highest, and so on, are as low as can be. Where the last queues fit several
glasses of one width equally well, that choice stays open (`Choice`), so that whoever picks the
owners can use it to save moves.

100 queues over 12 equal consumers: everyone gets 8, and the choice is which 4 hold a ninth.
Queues of a zone that must stay in it are poured first, into that zone's glasses alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heapify, heapreplace
from operator import truediv


@dataclass(frozen=True, slots=True)
class Choice:
    """Any `count` of these consumers get one queue more than their base."""

    consumers: Sequence[int]
    count: int


@dataclass(slots=True)
class Quota:
    """The queues that each consumer gets in any case, and the choices left open."""

    base: list[int]
    choices: list[Choice] = field(default_factory=list)

    def top(self, capacities: Sequence[float]) -> float:
        """The highest load divided by capacity that these quotas lead to."""
        levels = list(map(truediv, self.base, capacities))
        levels += [
            (self.base[choice.consumers[0]] + 1) / capacities[choice.consumers[0]]
            for choice in self.choices
            if choice.count
        ]
        return max(levels, default=0.0)


def level(capacities: Sequence[float], queues: int) -> Quota:
    """Pour `queues` over all consumers. Exact, also where capacities are fractions."""
    if not capacities:
        return Quota([])
    if capacities[0] == min(capacities) == max(capacities):
        each, over = divmod(queues, len(capacities))
        return Quota([each] * len(capacities), [Choice(range(len(capacities)), over)])
    if not queues:
        return Quota([0] * len(capacities))
    exact = [Fraction(capacity) for capacity in capacities]
    height = _height(exact, queues)
    base = [-(-height * width // 1) - 1 for width in exact]
    fitting = [place for place, width in enumerate(exact) if (height * width).denominator == 1]
    return _hand_out_rest(base, exact, fitting, queues - sum(base))


def level_by_zone(
    capacities: Sequence[float], bound: Sequence[tuple[Sequence[int], int]], queues: int
) -> Quota:
    """
    Pour `queues`, of which each `(consumers, count)` in `bound` must go to those consumers.

    A zone whose own queues stand above the common level is poured alone; the others share what is
    left, and that is looked at again until no zone stands out.
    """
    quota = Quota([0] * len(capacities))
    together = set(range(len(capacities)))
    zones = [(list(consumers), count) for consumers, count in bound]
    while True:
        shared = sorted(together)
        common = level([capacities[place] for place in shared], queues)
        above = _standing_out(zones, dict(zip(shared, common.base, strict=True)), common, shared)
        if not above:
            break
        for consumers, count in above:
            _add(quota, consumers, level([capacities[place] for place in consumers], count))
            together -= set(consumers)
            queues -= count
        zones = [zone for zone in zones if zone not in above]
    _add(quota, shared, common)
    return quota


def _height(widths: Sequence[Fraction], queues: int) -> Fraction:
    """How high the last queue stands: the `queues`-th smallest of all k / width."""
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
    Give the last queues, which all stand at one height, to the widest glasses that they fit.

    Whoever goes without is 1 / width lower, and the narrow ones fall lowest, which is more even.
    """
    quota = Quota(base)
    for width in sorted({widths[place] for place in fitting}, reverse=True):
        same = [place for place in fitting if widths[place] == width]
        if len(same) > rest:
            quota.choices.append(Choice(same, rest))
            break
        for place in same:
            base[place] += 1
        rest -= len(same)
    return quota


def _standing_out(
    zones: Sequence[tuple[list[int], int]],
    base: dict[int, int],
    common: Quota,
    shared: Sequence[int],
) -> list[tuple[list[int], int]]:
    """The zones whose own queues do not fit below the common level, even with every choice."""
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
    """Copy a part's quotas, which count consumers from 0, into the whole."""
    for place, base in zip(consumers, part.base, strict=True):
        quota.base[place] = base
    quota.choices += [
        Choice([consumers[place] for place in choice.consumers], choice.count)
        for choice in part.choices
    ]
