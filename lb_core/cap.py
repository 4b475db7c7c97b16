"""
Defer the moves beyond `maxMoves` to later plans.

Forced moves do not count. Of the other moves, those that empty draining consumers are made first.
The rest are made queue by queue. Each time, the most loaded of the consumers that give queues gives
one queue. The queue goes to the least loaded of the consumers that take queues from this giver. A
deferred queue stays with its owner until the next plan, which has a limit of its own.

Why this is correct: only moves that can wait are deferred, so the old owner may keep the queue for
now. Any subset of the moves can be made: each queue then has one owner, either the old or the new
one. Each plan with a limit above 0 makes at least one of the remaining moves, so in the end none
remains.
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
    """Return the moves to make now and the moves to defer. Undo the deferred ones in `outcome`."""
    chosen = [move for move in moves if move.chosen]
    if sum(move.size for move in chosen) <= limit:
        return list(moves), []
    # Undo all chosen moves first, because `_pick` needs the loads before these moves. Then make the
    # picked moves again.
    _shift(outcome, chosen, back=True)
    made, deferred = _pick(chosen, int(limit), outcome, group)
    _shift(outcome, made, back=False)
    return [*(move for move in moves if not move.chosen), *made], deferred


def _pick(
    chosen: Sequence[Move], limit: int, outcome: Outcome, group: Group
) -> tuple[list[Move], list[Move]]:
    """Pick queues up to the limit, each from the most loaded giver to its least loaded taker."""
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
        # A taker's level in the heap may be out of date. Levels of takers grow, so an old entry is
        # never too high: if the first entry is up to date, no other taker has a lower level. The
        # level of a taker can fall only if it also gives queues. It may then get a queue later
        # than it could.
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
        # Only this giver has given a queue, so only its entry is updated. If another giver has got
        # a queue, its entry shows a level that is a little too low. That changes only the order of
        # the moves.
        if takers:
            heapreplace(givers, (may_wait, -level(source), first))
        else:
            heappop(givers)
    return _cut_down(chosen, made), _cut_down(chosen, numbers)


def _cut_down(moves: Sequence[Move], numbers: Sequence[Collection[int]]) -> list[Move]:
    """Reduce each move to the queues that `numbers` lists for it. Omit moves without queues."""
    return [
        move._replace(runs=inventory.merge(range(number, number + 1) for number in listed))
        for move, listed in zip(moves, numbers, strict=True)
        if listed
    ]


def _shift(outcome: Outcome, moves: Sequence[Move], *, back: bool) -> None:
    """Make moves, or undo them. Remove all queues from their owners before adding any to others."""
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
