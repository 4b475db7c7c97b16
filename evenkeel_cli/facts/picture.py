"""
Draws all groups as a table, or one group with its consumers and a map of its queues. Pure.

In the map, each queue is one character: the number of digits of its lag. So the map is readable
without colours too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
from rich.text import Text

from contract.conditions import ConditionType
from contract.kinds.groups import Assigned
from evenkeel import planning
from evenkeel.control import conditions
from evenkeel.objects import ConsumerGroup
from evenkeel_cli.facts import words
from evenkeel_cli.facts.measured import Measured, MeasuredLane
from lb_core.assignment import format_ids
from lb_core.model import Queue
from mq_client import tables

NOTHING, UNKNOWN = "·", "?"
STYLES = ("dim", "green", "green", "yellow", "yellow")
"""Styles by the number of digits of a lag. Lags with more digits are red."""
WORST = "red"
OWNERS = ("consumer", "state", "queues", "map")
LEGEND = (
    f"each character is a queue: {NOTHING} no lag, 1 less than 10 messages, 2 less than 100, "
    f"3 less than 1000, and so on; {UNKNOWN} not known"
)
MOST_DIGITS = 9
Cell = str | int | None | Text
Row = Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a group at one time."""

    group: ConsumerGroup
    measured: Measured | None = None
    """The measurements of the job's driver; None if they are not known."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Rows per second, by consumer."""
    trouble: str = ""
    """Why there are no measurements."""


def draw_all(groups: Sequence[ConsumerGroup], *, everywhere: bool) -> list[Text]:
    """Draw one line per group."""
    columns = ["group", "queues", "consumers", "epoch", "moved", "imbalance", "lag", "ready", "why"]
    rows = [
        {
            "namespace": group.head.key.namespace,
            "group": group.head.key.name,
            "queues": group.status.queues,
            "consumers": group.status.consumers,
            "epoch": group.status.epoch,
            "moved": group.status.moved,
            "imbalance": group.status.imbalance,
            "lag": group.status.lag,
            **_describe_ready(group),
        }
        for group in groups
    ]
    return _align(["namespace", *columns] if everywhere else columns, rows)


def describe_group(group: ConsumerGroup) -> dict[str, object]:
    """Return a group's line as data."""
    status, ready = group.status, _describe_ready(group)
    return {
        "namespace": group.head.key.namespace,
        "group": group.head.key.name,
        "queues": status.queues,
        "consumers": status.consumers,
        "epoch": status.epoch,
        "adoptedEpoch": status.adopted_epoch,
        "moved": status.moved,
        "imbalance": status.imbalance,
        "lag": status.lag,
        "waiting": status.waiting and msgspec.structs.asdict(status.waiting),
        "deadLetters": status.dead_letters,
        "stores": {each.broker: each.store.value for each in status.stores},
        "ready": ready["ready"].plain,
        "reason": ready["why"].plain,
    }


def describe(look: Look) -> dict[str, object]:
    """Return the picture of one group as data."""
    return {
        **describe_group(look.group),
        "lag": _find_lag(look),
        "note": look.trouble,
        "assignments": [_describe_consumer(look, each) for each in look.group.status.assignments],
        "lanes": [
            {
                "lane": number,
                "batch": lane.batch,
                "seconds": round(lane.seconds, 1),
                "offsets": lane.offsets,
                "leftOut": sorted(lane.left_out),
            }
            for number, lane in _list_lanes(look)
        ],
    }


def _identify(assigned: Assigned) -> dict[str, str]:
    return {
        "consumer": assigned.consumer,
        "executor": assigned.executor,
        "pod": assigned.pod,
        "zone": assigned.zone,
    }


def _describe_consumer(look: Look, assigned: Assigned) -> dict[str, object]:
    rate = look.rates.get(assigned.consumer)
    return {
        **_identify(assigned),
        "state": _describe_state(look.group, assigned).plain,
        "lag": _sum_lag(look, assigned),
        "rowsPerSecond": None if rate is None else round(rate, 1),
        "queues": [
            {
                "topic": run.topic,
                "broker": run.broker,
                "ids": format_ids([run]),
                "lags": look.measured and [look.measured.lags.get(queue) for queue in run],
            }
            for run in planning.read_owned(assigned)
        ],
    }


def _find_lag(look: Look) -> int | None:
    """Return the lag from the driver's measurements or, without them, from the status."""
    return look.group.status.lag if look.measured is None else sum(look.measured.lags.values())


def draw_one(look: Look, now: datetime) -> list[Text]:
    """Draw a group, its consumers, and a map of their queues."""
    group, status = look.group, look.group.status
    lag, ready = _find_lag(look), _describe_ready(group)
    is_planned = not planning.explain_no_plan(group)
    facts = [words.count(status.queues, "queue"), words.count(status.consumers, "consumer")]
    if is_planned:
        facts = [f"epoch {status.epoch}", *facts, f"moved {status.moved}"]
    facts.append(f"lag {'-' if lag is None else lag}")
    is_ready = Text.assemble("ready ", ready["ready"])
    name = Text(str(group.head.key), "bold")
    title = Text("  ").join([name, *map(Text, facts), is_ready, ready["why"]])
    has_owners = planning.has_owners(group)
    columns = [*OWNERS] if has_owners else ["consumer"]
    if any(each.zone for each in status.assignments):
        columns.insert(1, "zone")
    if group.spec.job is not None:
        columns[1:1] = ["executor", "pod"] if has_owners else ["executor", "pod", "state"]
    if look.measured is not None:
        columns[-1:-1] = ["lag", "rows/s"] if has_owners else ["rows/s"]
    lines = [title, *_align(columns, [_make_row(look, each) for each in status.assignments])]
    if look.measured is not None and has_owners:
        lines.append(Text(LEGEND, "dim"))
    if lanes := _list_lanes(look):
        columns = ["lane", "batch", "running", "offsets", "left out"]
        lines += _align(columns, [_make_lane_row(number, lane) for number, lane in lanes])
    if waiting := words.describe_waiting(group, now):
        lines.append(Text(waiting))
    if dead := words.describe_dead_letters(group):
        lines.append(Text(dead))
    if look.trouble:
        lines.append(Text(look.trouble, "yellow"))
    return lines


def _make_row(look: Look, assigned: Assigned) -> Row:
    queues = _list_queues(assigned)
    rate = look.rates.get(assigned.consumer)
    return {
        **_identify(assigned),
        "state": _describe_state(look.group, assigned),
        "queues": len(queues),
        "lag": _sum_lag(look, assigned),
        "rows/s": None if rate is None else round(rate),
        "map": Text(" ").join(_draw_map(look, assigned)) if queues else "none",
    }


def _list_lanes(look: Look) -> list[tuple[int, MeasuredLane]]:
    """List the lanes of a job with batches, by number."""
    return sorted(look.measured.lanes.items()) if look.measured else []


def _make_lane_row(number: int, lane: MeasuredLane) -> Row:
    is_running = lane.batch is not None
    return {
        "lane": number,
        "batch": lane.batch,
        "running": f"{lane.seconds:.1f} s" if is_running else None,
        "offsets": lane.offsets if is_running else None,
        "left out": Text(tables.to_one_line(", ".join(sorted(lane.left_out))) or "-", "yellow"),
    }


def _sum_lag(look: Look, assigned: Assigned) -> int | None:
    """Sum the lag of a consumer; None unless it is known for all its queues."""
    if look.measured is None:
        return None
    lags = [look.measured.lags.get(queue) for queue in _list_queues(assigned)]
    return None if None in lags else sum(each for each in lags if each is not None)


def _list_queues(assigned: Assigned) -> list[Queue]:
    return [queue for run in planning.read_owned(assigned) for queue in run]


def _describe_state(group: ConsumerGroup, assigned: Assigned) -> Text:
    if assigned.empty_since or (group.spec.job is not None and not assigned.executor):
        return Text("empty", "yellow")
    return Text("draining", "yellow") if assigned.draining else Text("reads")


def _describe_ready(group: ConsumerGroup) -> dict[str, Text]:
    found = conditions.find(group.status.conditions, ConditionType.READY)
    if found is None:
        return {"ready": Text("Unknown", "yellow"), "why": Text("no operator has reconciled it")}
    style = "green" if found.holds else "red"
    return {"ready": Text(found.status.value, style), "why": Text(found.reason)}


def _draw_map(look: Look, assigned: Assigned) -> Iterator[Text]:
    """Draw a line per topic and broker: name, ids, and one character per queue."""
    for run in planning.read_owned(assigned):
        name = Text(tables.to_one_line(f"{run.topic}@{run.broker} {format_ids([run])}"))
        if look.measured is not None:
            name.append(" ")
            for queue in run:
                name.append(*draw_lag(look.measured.lags.get(queue)))
        yield name


def draw_lag(lag: int | None) -> tuple[str, str]:
    """Draw the lag of a queue as a character and its style."""
    if lag is None:
        return UNKNOWN, "dim"
    if lag <= 0:
        return NOTHING, "dim"
    digits = min(len(str(lag)), MOST_DIGITS)
    return str(digits), STYLES[digits] if digits < len(STYLES) else WORST


def _align(columns: Sequence[str], rows: Sequence[Row]) -> list[Text]:
    """Format a table with headings: numbers right-aligned, other cells left-aligned."""
    texts = [[_make_cell(row[name]) for name in columns] for row in rows]
    names = [Text(name.upper(), "bold") for name in columns]
    widths = [max(cell.cell_len for cell in column) for column in zip(names, *texts, strict=True)]
    right = [any(isinstance(row[name], int) for row in rows) for name in columns]
    lines = []
    for cells in (names, *texts):
        line = Text()
        for cell, width, is_right in zip(cells, widths, right, strict=True):
            pad = " " * (width - cell.cell_len)
            line.append_text(Text(pad) + cell if is_right else cell + Text(pad)).append("  ")
        line.rstrip()
        lines.append(line)
    return lines


def _make_cell(value: Cell) -> Text:
    if isinstance(value, Text):
        return value
    return Text("-" if value in (None, "") else tables.to_one_line(value))
