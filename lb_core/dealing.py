"""
Decide which queues move: take some from consumers that have too many, deal them to the others.

How many each gives and gets is decided elsewhere. Here two smaller aims are met where they cost no
move. Every consumer holds a similar share of every topic, so that a busy topic is spread over all.
And a consumer's queues of one topic are neighbours, so that a status can say "0-9".
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain, groupby, pairwise

from lb_core import inventory
from lb_core.inventory import SPAN, Inventory, Runs
from lb_core.outcome import Outcome

Topics = Sequence[int]
"""For each source the index of its topic, as in `Inventory.topic_of_source`."""

NOTHING = range(0)


def redistribute(
    outcome: Outcome,
    queues: Inventory,
    names: Sequence[str],
    surplus: Sequence[int],
    free: Runs,
    of_kind: Callable[[Runs], Runs] = tuple,
) -> None:
    """
    Take from each consumer its surplus, and deal that and `free` to those with a negative surplus.

    If only one kind of queue may move, `of_kind` picks that kind out of what a consumer holds.
    """
    if not any(surplus):
        return
    topics, pooled = queues.topic_of_source, Counter[int]()
    pool = list(free)
    for name, count in zip(names, surplus, strict=True):
        if count > 0:
            held = outcome.holdings[name]
            touched = of_kind(held)
            kept, given = take(touched, count, topics, pooled)
            if len(touched) < len(held):
                kept = inventory.merge(chain(kept, inventory.subtract(held, touched)))
            outcome.give(name, kept, given)
            pool += given
    needs = {name: -count for name, count in zip(names, surplus, strict=True) if count < 0}
    if needs:
        dealt = deal(inventory.merge(pool), list(needs.values()), topics)
        for name, runs in zip(needs, dealt, strict=True):
            outcome.receive(name, runs)


def take(held: Runs, count: int, topics: Topics, pooled: Counter[int]) -> tuple[Runs, Runs]:
    """
    Split what a consumer holds into what it keeps and the `count` queues it gives away.

    They come from the topics that it holds most of and, among equals, those that the pool has least
    of. So a newcomer that many consumers give to gets some of every topic. `pooled` is updated.
    """
    sizes: dict[int, int] = {}
    for run in held:
        topic = topics[run.start // SPAN]
        sizes[topic] = sizes.get(topic, 0) + len(run)
    kept, given = list(held), list[range]()
    for topic, number in _shave(sizes, count, pooled).items():
        pooled[topic] += number
        given += _cut(kept, number, topics, topic)
    return tuple(kept), tuple(given)


def _shave(sizes: dict[int, int], count: int, pooled: Counter[int]) -> dict[int, int]:
    """Return how many to take from each topic so that the largest rest is as small as possible."""
    # Sound: every topic above the water line is cut down to it. The line is the lowest that takes
    # at least `count`, so a lower largest rest would take more. What the line takes too much goes
    # back to topics of which the pool has most, one each; no topic can then be more than one above.
    if count == 1:
        return {max(sizes, key=lambda topic: (sizes[topic], -pooled[topic], -topic)): 1}
    height, rest = _find_waterline(list(sizes.values()), count)
    taken = {topic: size - height for topic, size in sizes.items() if size > height}
    largest = sorted(taken, key=lambda topic: (pooled[topic], topic), reverse=True)
    for topic in largest[:rest]:
        taken[topic] -= 1
    return {topic: number for topic, number in taken.items() if number}


def _find_waterline(sizes: list[int], count: int) -> tuple[int, int]:
    """Cut sizes down to one height. Return it, and how many more than `count` that takes."""
    ordered = sorted(sizes, reverse=True)
    total = 0
    for number, (size, lower) in enumerate(pairwise([*ordered, 0]), start=1):
        total += size
        if total - number * lower >= count:
            height = (total - count) // number
            return height, total - number * height - count
    raise AssertionError(f"{count} queues wanted of {total}")


def _cut(runs: list[range], count: int, topics: Topics, topic: int) -> list[range]:
    """Cut queues of one topic out of `runs`: the shortest runs first, so that few runs are left."""
    given: list[range] = []
    left: dict[int, range] = {}
    of_topic = (run for run in runs if topics[run.start // SPAN] == topic)
    for run in sorted(of_topic, key=lambda run: (len(run), -run.start)):
        split = max(run.start, run.stop - count)
        given.append(range(split, run.stop))
        left[run.start] = range(run.start, split)
        count -= run.stop - split
        if not count:
            break
    runs[:] = filter(None, [left.get(run.start, run) for run in runs])
    return given


def deal(pool: Runs, needs: Sequence[int], topics: Topics) -> list[Runs]:
    """Deal the whole pool: receiver i gets `needs[i]` queues, and a similar share of each topic."""
    if len(needs) == 1:
        return [pool]
    large, woven = _lay_lines(pool, len(needs), topics)
    lines = [*large, woven] if woven else large
    counts = [inventory.count(runs) for runs in lines]
    spread = _spread_evenly if _is_level(needs) else _spread_by_need
    crossing: dict[int, list[range]] = {}
    columns = [
        _cut_blocks(sizes, runs, crossing)
        for sizes, runs in zip(spread(counts, needs), lines, strict=True)
    ]
    dealt = [tuple(filter(None, row)) for row in zip(*columns, strict=True)]
    for receiver in range(len(needs)) if woven else crossing:
        dealt[receiver] = inventory.merge((*dealt[receiver], *crossing.get(receiver, ())))
    return dealt


def _lay_lines(pool: Runs, receivers: int, topics: Topics) -> tuple[list[list[range]], list[range]]:
    """
    Lay the pool out in lines, each to be cut into one block for each receiver.

    A topic with at least one queue for each receiver is a line. All smaller topics are woven into
    one line: the first queue of each, the second of each, and so on.
    """
    # Sound: a block of a line that is one topic is a run of neighbours. In the woven line two
    # queues of one topic are far apart, so a block has queues of as many topics as possible.
    large: list[list[range]] = []
    small: list[tuple[int, int]] = []
    for _, runs in groupby(pool, key=lambda run: topics[run.start // SPAN]):
        line = list(runs)
        if inventory.count(line) >= receivers:
            large.append(line)
        else:
            small += enumerate(chain.from_iterable(line))
    return large, [range(number, number + 1) for _, number in sorted(small)]


def _is_level(needs: Sequence[int]) -> bool:
    """Whether needs differ by at most one, the larger ones first."""
    first, last = needs[0], needs[-1]
    return 0 <= first - last <= 1 and needs == [first] * (extra := needs.count(first)) + [last] * (
        len(needs) - extra
    )


def _spread_evenly(counts: Sequence[int], needs: Sequence[int]) -> Iterator[list[int]]:
    """
    For each line give how many each receiver gets, if all need the same or the first ones one more.

    What a line has beyond an even share goes to consecutive receivers. The next line goes on from
    there, round and round.
    """
    # Sound: the extras of all lines together are dealt one by one around the circle, starting at
    # the first receiver. So no receiver is ever two ahead of another, and in the end the first ones
    # are one ahead, by as many as the pool has beyond an even share. That is what `needs` says.
    receivers, first = len(needs), 0
    for count in counts:
        each, over = divmod(count, receivers)
        sizes = [each + 1] * over + [each] * (receivers - over)
        yield sizes[receivers - first :] + sizes[: receivers - first]
        first = (first + over) % receivers


def _spread_by_need(counts: Sequence[int], needs: Sequence[int]) -> Iterator[list[int]]:
    """For each line give how many each receiver gets: its part of what all still need, rounded."""
    # Sound: the cuts are rounded, not the sizes, so the sizes of a line add up to its count. A size
    # is at most its exact part rounded up. The part is at most the need, a whole number, so no
    # receiver gets more than it needs. The last line has all that is still needed, so it fits.
    left = list(needs)
    total = sum(left)
    for count in counts:
        cuts = [done * count // total for done in accumulate(left, initial=0)]
        sizes = [stop - start for start, stop in pairwise(cuts)]
        yield sizes
        left = [need - size for need, size in zip(left, sizes, strict=True)]
        total -= count


def _cut_blocks(
    sizes: Sequence[int], runs: Sequence[range], crossing: dict[int, list[range]]
) -> list[range]:
    """
    Cut runs, end to end, into one block for each receiver.

    A block that spans several runs goes to `crossing`, and its own place stays empty.
    """
    if len(runs) == 1:
        cuts = list(accumulate(sizes, initial=runs[0].start))
        return list(map(range, cuts, cuts[1:]))
    blocks = [NOTHING] * len(sizes)
    place, start = 0, runs[0].start
    for receiver, size in enumerate(sizes):
        while size:
            stop = min(start + size, runs[place].stop)
            if len(block := range(start, stop)) == sizes[receiver]:
                blocks[receiver] = block
            else:
                crossing.setdefault(receiver, []).append(block)
            size -= stop - start
            start = stop
            if start == runs[place].stop and place + 1 < len(runs):
                place += 1
                start = runs[place].start
    return blocks
