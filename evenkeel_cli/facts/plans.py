"""Formats a plan as text for people, or as data for programs. Pure."""

from collections.abc import Iterator, Sequence

from evenkeel_cli.facts.foresight import Foresight
from lb_core.assignment import format_ids
from lb_core.moves import Move
from mq_client import tables

COLUMNS = ("topic", "broker", "queues", "from", "to", "why")


def describe(foresight: Foresight) -> dict[str, object]:
    """Return the whole plan as data."""
    plan = foresight.plan
    return {
        "moved": plan.moved,
        "imbalance": f"{plan.imbalance:.2f}",
        "bestImbalance": f"{plan.best_imbalance:.2f}",
        "moves": list(_make_rows(plan.moves)),
        "deferred": list(_make_rows(plan.deferred)),
        "assignments": [
            {
                "consumer": consumer,
                "queues": [
                    {"topic": topic, "broker": broker, "ids": ids}
                    for (topic, broker), ids in plan.assignment.list_ids(consumer).items()
                ],
            }
            for consumer in plan.assignment
        ],
        "notes": list(foresight.notes),
    }


def format_plan(name: str, foresight: Foresight) -> str:
    """Write which queues of a group move, and how balanced the group is afterwards."""
    plan = foresight.plan
    rows = list(_make_rows(plan.moves))
    lines = [
        f"{name}: {plan.moved} queues move",
        *([tables.to_table(COLUMNS, rows)] if rows else []),
    ]
    if plan.deferred:
        later = sum(move.size for move in plan.deferred)
        lines.append(f"{later} more queues move later, because of maxMoves")
    if plan.unowned:
        count = sum(map(len, plan.unowned.queues))
        lines.append(f"{count} queues have no owner: {plan.unowned.reason}")
    lines.append(f"imbalance {plan.imbalance:.2f}, best possible {plan.best_imbalance:.2f}")
    lines += foresight.notes
    return "\n".join(lines)


def _make_rows(moves: Sequence[Move]) -> Iterator[dict[str, object]]:
    for move in moves:
        for queues in move.queues:
            yield {
                "topic": queues.topic,
                "broker": queues.broker,
                "queues": format_ids([queues]),
                "from": move.source,
                "to": move.target,
                "why": move.reason,
            }
