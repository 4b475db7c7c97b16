"""
Defer moves beyond `maxMoves`, so that a plan is carried out in rounds.

Forced moves do not count. Of the others, those off draining consumers go first, then those from the
most loaded consumer to its least loaded taker. What is held back stays with its owner until the
next round, which counts anew from there.

Why this is sound: only moves that could wait are held back, so the old owner may still own the
queue. Any part of them can be made: each queue has one owner, the old or the new one. Each round
with a limit above 0 makes at least one move of those that are left, so the rounds end.
"""

from collections import deque
from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heapreplace

from lb_core import inventory
from lb_core.group import Group
from lb_core.moves import Move
from lb_core.outcome import Outcome


def hold_back(
    moves: Sequence[Move], limit: float, outcome: Outcome, group: Group
) -> tuple[list[Move], list[Move]]:
    """Split moves into those to make and those to defer. `outcome` then has only the former."""
    chosen = [move for move in moves if move.chosen]
    if sum(move.size for move in chosen) <= limit:
        return list(moves), []
    # All are undone first, and the picked ones made again: picking needs the loads before any move.
    _shift(outcome, chosen, back=True)
    made, deferred = _pick(chosen, int(limit), outcome, group)
    _shift(outcome, made, back=False)
    return [*(move for move in moves if not move.chosen), *made], deferred


def _pick(
    chosen: Sequence[Move], limit: int, outcome: Outcome, group: Group
) -> tuple[list[Move], list[Move]]:
    """Pick single queues up to the limit: from the most loaded, to its least loaded taker."""
    loads = {name: outcome.scale.sum_load(runs) for name, runs in outcome.holdings.items()}

    def level(name: str | None) -> float:
        return loads.get(str(name), 0) / group.members[str(name)].capacity

    numbers = [deque(number for run in move.runs for number in run) for move in chosen]
    made: list[list[int]] = [[] for _ in chosen]
    moves_of: dict[str | None, list[tuple[float, int]]] = {}
    for place, move in enumerate(chosen):
        moves_of.setdefault(move.source, []).append((level(move.target), place))
    givers = [
        (name not in group.draining, -level(name), takers[0][1])
        for name, takers in moves_of.items()
    ]
    heapify(givers)
    for takers in moves_of.values():
        heapify(takers)
    while limit and givers:
        may_wait, _, first = givers[0]
        source = chosen[first].source
        takers = moves_of[source]
        # A taker's level in the heap may be out of date, but takers only grow, so it is too low at
        # most. When the first entry is up to date, no other can be lower: it is the least loaded.
        while (now := (level(chosen[takers[0][1]].target), takers[0][1])) > takers[0]:
            heapreplace(takers, now)
        place = takers[0][1]
        made[place].append(numbers[place].popleft())
        weight = outcome.scale.weigh(made[place][-1])
        loads[str(source)] = loads.get(str(source), 0) - weight
        loads[str(chosen[place].target)] = loads.get(str(chosen[place].target), 0) + weight
        limit -= 1
        if not numbers[place]:
            heappop(takers)
        # Only this giver has given, so only its entry must be renewed. A giver that also takes may
        # be a little too low in the heap: that changes the order of moves, not whether they fit.
        if takers:
            heapreplace(givers, (may_wait, -level(source), first))
        else:
            heappop(givers)
    return _cut_down(chosen, made), _cut_down(chosen, numbers)


def _cut_down(moves: Sequence[Move], numbers: Sequence[Collection[int]]) -> list[Move]:
    """Cut each move down to the queues listed for it; leave out moves without any."""
    return [
        move._replace(runs=inventory.merge(range(number, number + 1) for number in listed))
        for move, listed in zip(moves, numbers, strict=True)
        if listed
    ]


def _shift(outcome: Outcome, moves: Sequence[Move], *, back: bool) -> None:
    """Make moves, or undo them: first all that each consumer loses, then all that it gets."""
    lost: dict[str, list[range]] = {}
    got: dict[str, list[range]] = {}
    for move in moves:
        giver, taker = (move.target, move.source) if back else (move.source, move.target)
        lost.setdefault(str(giver), []).extend(move.runs)
        got.setdefault(str(taker), []).extend(move.runs)
    for name, runs in lost.items():
        outcome.remove(name, inventory.merge(runs))
    for name, runs in got.items():
        outcome.add(name, inventory.merge(runs))
