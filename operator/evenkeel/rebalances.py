"""
Records the moves of a rebalance as data for the status, and describes them in words. Pure.

The size of the data is limited, because each write of a status contains the data, and each reader
of the status receives the data. If one consumer joins or leaves the largest group (100,000 queues,
1,000 consumers), up to 100 queues move between this consumer and 100 other consumers. These are 100
moves of about 120 bytes, which fit. If nearly all queues move, only their number is of interest.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, islice

import msgspec

from contract.kinds.groups import (
    MOST_MOVED_ENTRIES,
    MOST_MOVES,
    LastRebalance,
    OwnedQueues,
    QueueMove,
)
from evenkeel import planning
from lb_core import reasons
from lb_core.assignment import format_ids, parse_ids
from lb_core.errors import AllocationError
from lb_core.model import QueueRange
from lb_core.moves import Move
from lb_core.plan import Plan
from lb_core.reasons import Reason

MOST_BYTES = 16 * 1024
"""Maximum size of all moves in a status, as JSON."""
MOST_WORDS = 4000
"""Maximum length of the description in a status."""


def record(plan: Plan, at: str, epoch: int, trigger: str) -> LastRebalance:
    """Record the moves of a published plan."""
    moves = list(_list_moves(plan))
    left_out = plan.moved - sum(map(_count, moves))
    words = _describe(moves, left_out, MOST_WORDS)
    return LastRebalance(at, trigger, plan.moved, words, epoch, moves, left_out)


def describe(rebalance: LastRebalance, most: int = MOST_WORDS) -> str:
    """Describe the moves in up to `most` characters: old owner, new owner, reason and queues."""
    if not rebalance.moves:  # an earlier version of the operator has written the status
        return rebalance.reason[:most]
    return _describe(rebalance.moves, rebalance.left_out, most)


def is_complete(rebalance: LastRebalance) -> bool:
    """Whether all moved queues are recorded."""
    return sum(map(_count, rebalance.moves)) == rebalance.moved


def list_ranges(move: QueueMove) -> list[QueueRange]:
    """List the queues of a move. Queues that cannot be parsed are left out."""
    return [run for each in move.queues for run in _parse(each)]


def _list_moves(plan: Plan) -> Iterator[QueueMove]:
    """List moves until the maximum size is reached."""
    room = MOST_BYTES
    moves = (each for each in plan.moves if each.source is not None)
    for move in islice(moves, MOST_MOVES):
        bare = _make_move(move)
        room -= _size(bare) + len(',"queues":[]')
        entries = []
        for entry in islice(_list_entries(move), MOST_MOVED_ENTRIES):
            room -= _size(entry)
            if room < 0:
                break
            entries.append(entry)
        if entries:
            yield msgspec.structs.replace(bare, queues=entries)
        if room < 0:
            return


def _make_move(move: Move) -> QueueMove:
    reason = reasons.classify(move.reason)
    strategy = move.reason if reason is Reason.STRATEGY else ""
    assert move.source is not None
    return QueueMove(move.source, reason.value, move.target or "", strategy)


def _list_entries(move: Move) -> Iterator[OwnedQueues]:
    for (topic, broker), runs in groupby(move.queues, lambda each: (each.topic, each.broker)):
        yield from planning.split_entries(topic, broker, format_ids(runs))


def _size(part: QueueMove | OwnedQueues) -> int:
    return len(msgspec.json.encode(part)) + 1  # with a comma


def _describe(moves: Sequence[QueueMove], left_out: int, most: int) -> str:
    """Describe moves with their queues. When the text is full, write only how many queues move."""
    parts: list[str] = []
    room = most - len("; 100000 more queues")
    for move in moves:
        change = f"{move.source} -> {move.target or 'nobody'}, {move.strategy or move.reason}"
        queues = ", ".join(f"{each.topic}@{each.broker} {each.ids}" for each in move.queues)
        for text in (f"{change}: {queues}", f"{change}: {_write_count(_count(move))}"):
            if len(text) + 2 <= room:
                parts.append(text)
                room -= len(text) + 2
                break
        else:
            left_out += _count(move)
    if left_out:
        parts.append(_write_count(left_out, "more " if parts else ""))
    return "; ".join(parts)


def _write_count(count: int, more: str = "") -> str:
    return f"{count} {more}queue{'' if count == 1 else 's'}"


def _count(move: QueueMove) -> int:
    return sum(map(len, list_ranges(move)))


def _parse(entry: OwnedQueues) -> list[QueueRange]:
    try:
        return parse_ids(entry.topic, entry.broker, entry.ids)
    except AllocationError:  # a user has edited the status
        return []
