"""
Decide which queues move: take queues from consumers with too many, and deal them to the others.

The caller decides how many queues each consumer gives or gets. This module has two further aims,
but never moves an extra queue for them:

- Every consumer holds a similar share of every topic, so that a busy topic is spread over all
  consumers.
- A consumer's queues of one topic have consecutive ids, so that a status can say "0-9".
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain, groupby, pairwise

from lb_core import inventory
from lb_core.inventory import SPAN, Inventory, Runs
from lb_core.outcome import Outcome

Topics = Sequence[int]
"""The index of each source's topic, as in `Inventory.topic_of_source`."""

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
    Take each consumer's surplus, and deal these queues and `free` to consumers that lack queues.

    A consumer with a negative surplus gets that many queues. If only one kind of queue may move,
    `of_kind` selects the queues of that kind from a consumer's queues.
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

    The queues given away come from the topics of which the consumer holds the most queues. Of two
    such topics, the one with fewer queues in the pool (the queues to deal) comes first. So if many
    consumers give queues to a new consumer, it gets queues of every topic. `pooled` counts the
    queues of each topic in the pool; this function updates it.
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
    """Return how many queues to take from each topic. The largest topic that remains is minimal."""
    # Proof: every topic above a limit, the water line, is cut down to this line. Of all lines that
    # take at least `count` queues, the highest is used, so the largest topic that remains cannot be
    # smaller. If this line takes too many queues, the topics with the most queues in the pool get
    # one queue back each. So no topic is more than one queue above the line.
    if count == 1:
        return {max(sizes, key=lambda topic: (sizes[topic], -pooled[topic], -topic)): 1}
    height, rest = _find_waterline(list(sizes.values()), count)
    taken = {topic: size - height for topic, size in sizes.items() if size > height}
    largest = sorted(taken, key=lambda topic: (pooled[topic], topic), reverse=True)
    for topic in largest[:rest]:
        taken[topic] -= 1
    return {topic: number for topic, number in taken.items() if number}


def _find_waterline(sizes: list[int], count: int) -> tuple[int, int]:
    """Find the height to which sizes are cut, and how many queues above `count` this cut takes."""
    ordered = sorted(sizes, reverse=True)
    total = 0
    for number, (size, lower) in enumerate(pairwise([*ordered, 0]), start=1):
        total += size
        if total - number * lower >= count:
            height = (total - count) // number
            return height, total - number * height - count
    raise AssertionError(f"cannot take {count} queues from a consumer that has {total}")


def _cut(runs: list[range], count: int, topics: Topics, topic: int) -> list[range]:
    """Cut `count` queues of a topic out of `runs`: shortest runs first, so few runs remain."""
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
    Arrange the pool in lines. Each line is then cut into one block for each receiver.

    A topic with at least one queue for each receiver becomes a line. All smaller topics together
    are woven into one line: the first queue of each topic, then the second of each, and so on.
    """
    # Why: if a line is one topic, its blocks have consecutive ids. In the woven line two queues of
    # one topic are far apart, so a block has queues of as many topics as possible.
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
    """Whether the consumers' needs differ by at most one, with the larger ones first."""
    first, last = needs[0], needs[-1]
    return 0 <= first - last <= 1 and needs == [first] * (extra := needs.count(first)) + [last] * (
        len(needs) - extra
    )


def _spread_evenly(counts: Sequence[int], needs: Sequence[int]) -> Iterator[list[int]]:
    """
    Yield for each line how many queues each receiver gets, if `_is_level(needs)`.

    Each receiver gets an equal share of a line's queues. The rest go to consecutive receivers, one
    each. The next line continues with the next receiver, in a circle.
    """
    # Proof: the remainders of all lines are dealt one by one around the circle, starting at the
    # first receiver. So no receiver is ever two queues ahead of another. In the end, the first
    # receivers have one queue more than the others. The number of these receivers is the remainder
    # of the whole pool, as in `needs`.
    receivers, first = len(needs), 0
    for count in counts:
        each, over = divmod(count, receivers)
        sizes = [each + 1] * over + [each] * (receivers - over)
        yield sizes[receivers - first :] + sizes[: receivers - first]
        first = (first + over) % receivers


def _spread_by_need(counts: Sequence[int], needs: Sequence[int]) -> Iterator[list[int]]:
    """Yield for each line how many queues each receiver gets: proportional to needs, rounded."""
    # Proof: the positions of the cuts are rounded, not the sizes, so the sizes of a line add up to
    # the line's count. A size is at most the receiver's exact share, rounded up. This share is at
    # most the need, a whole number, so no receiver gets more than it needs. The last line has
    # exactly the queues that are still needed.
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
    Cut the runs, laid end to end, into one block for each receiver.

    A block that spans several runs is put into `crossing`. In the result, this block is empty.
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
