"""
Hold back moves beyond `maxMoves`, so that a plan changes hands in rounds.

Forced moves are free. Of the chosen ones those off draining consumers go first, then whichever
lowers the most loaded giver most. What is held back stays with its owner until the next round,
which counts again from there: every round leaves fewer moves to make, so the rounds end.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace

from lb_core import inventory
from lb_core.group import Group
from lb_core.moves import Move
from lb_core.outcome import Outcome


def hold_back(
    moves: Sequence[Move], limit: float, outcome: Outcome, group: Group
) -> tuple[list[Move], list[Move]]:
    """Split moves into those to make and those to defer; deferred ones are undone in `outcome`."""
    chosen = [move for move in moves if move.chosen]
    if sum(move.size for move in chosen) <= limit:
        return list(moves), []
    for move in chosen:
        _shift(outcome, move, back=True)
    made, deferred = _pick(chosen, int(limit), outcome, group)
    for move in made:
        _shift(outcome, move, back=False)
    return [*(move for move in moves if not move.chosen), *made], deferred


def _pick(
    chosen: Sequence[Move], limit: int, outcome: Outcome, group: Group
) -> tuple[list[Move], list[Move]]:
    """
    Choose single queues, the most urgent first, until the limit is reached.

    Urgency is looked up again when a move's turn comes, as earlier ones may have met its need.
    """
    loads = {name: outcome.scale.load(runs) for name, runs in outcome.holdings.items()}

    def level(name: str) -> float:
        return loads.get(name, 0) / group.members[name].capacity

    def urgency(place: int) -> tuple[bool, float, int]:
        source, target = str(chosen[place].source), str(chosen[place].target)
        return source not in group.draining, level(target) - level(source), place

    waiting = [urgency(place) for place in range(len(chosen))]
    heapify(waiting)
    numbers = [[number for run in move.runs for number in run] for move in chosen]
    taken = [0] * len(chosen)
    while limit and waiting:
        place = waiting[0][2]
        now = urgency(place)
        if now > waiting[0]:
            heapreplace(waiting, now)
            continue
        weight = outcome.scale.weight(numbers[place][taken[place]])
        loads[str(chosen[place].source)] = loads.get(str(chosen[place].source), 0) - weight
        loads[str(chosen[place].target)] = loads.get(str(chosen[place].target), 0) + weight
        taken[place] += 1
        limit -= 1
        if taken[place] == len(numbers[place]):
            heappop(waiting)
        else:
            heapreplace(waiting, urgency(place))
    made = [_part(chosen[i], numbers[i][: taken[i]]) for i in range(len(chosen)) if taken[i]]
    deferred = [
        _part(chosen[i], numbers[i][taken[i] :])
        for i in range(len(chosen))
        if taken[i] < len(numbers[i])
    ]
    return made, deferred


def _part(move: Move, numbers: Sequence[int]) -> Move:
    return move._replace(runs=inventory.merge(range(number, number + 1) for number in numbers))


def _shift(outcome: Outcome, move: Move, *, back: bool) -> None:
    giver, taker = (move.target, move.source) if back else (move.source, move.target)
    outcome.remove(str(giver), move.runs)
    outcome.add(str(taker), move.runs)
