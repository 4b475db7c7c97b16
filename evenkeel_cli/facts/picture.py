"""
Pictures of groups: all of them as a table, or one with its consumers and a map of its queues. Pure.

In the map each queue is a sign that says how many digits its lag has, so that it can be read
without colours too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.text import Text

from contract.kinds.groups import Assigned
from evenkeel import planning
from evenkeel.control import conditions
from evenkeel.objects import ConsumerGroup
from evenkeel_cli.facts import words
from evenkeel_cli.facts.measured import Measured
from lb_core.assignment import format_ids
from lb_core.model import Queue
from mq_client import tables

NOTHING, UNKNOWN = "·", "?"
STYLES = ("dim", "green", "green", "yellow", "yellow")
"""By the digits of a lag; longer ones are red."""
WORST = "red"
LEGEND = (
    f"each sign is a queue: {NOTHING} nothing waits, 1 less than 10 messages, 2 less than 100, "
    f"3 less than 1000, and so on; {UNKNOWN} not known"
)
MOST_DIGITS = 9
Cell = str | int | None | Text
Row = Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Look:
    """A group as it is seen at one time."""

    group: ConsumerGroup
    measured: Measured | None = None
    """By its job's driver; None where that does not tell."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Rows a second, by consumer."""
    trouble: str = ""
    """Why nothing is measured."""


def of_all(groups: Sequence[ConsumerGroup], *, everywhere: bool) -> list[Text]:
    """Draw a line for each group."""
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
            **_ready(group),
        }
        for group in groups
    ]
    return _aligned(["namespace", *columns] if everywhere else columns, rows)


def outline(group: ConsumerGroup) -> dict[str, object]:
    """Say to a program what a line says."""
    status, ready = group.status, _ready(group)
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
        "ready": ready["ready"].plain,
        "reason": ready["why"].plain,
    }


def facts(look: Look) -> dict[str, object]:
    """Say to a program what the picture of one group says."""
    return {
        **outline(look.group),
        "lag": _lag(look),
        "note": look.trouble,
        "assignments": [_consumer(look, each) for each in look.group.status.assignments],
    }


def _who(assigned: Assigned) -> dict[str, str]:
    return {
        "consumer": assigned.consumer,
        "executor": assigned.executor,
        "pod": assigned.pod,
        "zone": assigned.zone,
    }


def _consumer(look: Look, assigned: Assigned) -> dict[str, object]:
    rate = look.rates.get(assigned.consumer)
    return {
        **_who(assigned),
        "state": _state(look.group, assigned).plain,
        "lag": _lag_of(look, assigned),
        "rowsPerSecond": None if rate is None else round(rate, 1),
        "queues": [
            {
                "topic": run.topic,
                "broker": run.broker,
                "ids": format_ids([run]),
                "lags": look.measured and [look.measured.lags.get(queue) for queue in run],
            }
            for run in planning.owned(assigned)
        ],
    }


def _lag(look: Look) -> int | None:
    """Count what waits: as measured now, else as the status says."""
    return look.group.status.lag if look.measured is None else sum(look.measured.lags.values())


def of_one(look: Look) -> list[Text]:
    """Draw a group, its consumers, and a map of the queues that they have."""
    group, status = look.group, look.group.status
    lag, ready = _lag(look), _ready(group)
    facts = (
        f"epoch {status.epoch}",
        words.counted(status.queues, "queue"),
        words.counted(status.consumers, "consumer"),
        f"moved {status.moved}",
        f"lag {'-' if lag is None else lag}",
    )
    is_ready = Text.assemble("ready ", ready["ready"])
    name = Text(str(group.head.key), "bold")
    title = Text("  ").join([name, *map(Text, facts), is_ready, ready["why"]])
    columns = ["consumer", "state", "queues", "map"]
    if any(each.zone for each in status.assignments):
        columns.insert(1, "zone")
    if group.spec.job is not None:
        columns[1:1] = ["executor", "pod"]
    if look.measured is not None:
        columns[-1:-1] = ["lag", "rows/s"]
    lines = [title, *_aligned(columns, [_row(look, each) for each in status.assignments])]
    if look.measured is not None:
        lines.append(Text(LEGEND, "dim"))
    if look.trouble:
        lines.append(Text(look.trouble, "yellow"))
    return lines


def _row(look: Look, assigned: Assigned) -> Row:
    queues = _queues(assigned)
    rate = look.rates.get(assigned.consumer)
    return {
        **_who(assigned),
        "state": _state(look.group, assigned),
        "queues": len(queues),
        "lag": _lag_of(look, assigned),
        "rows/s": None if rate is None else round(rate),
        "map": Text(" ").join(_map(look, assigned)) if queues else "none",
    }


def _lag_of(look: Look, assigned: Assigned) -> int | None:
    """Count what waits for a consumer; None unless it is known of all its queues."""
    if look.measured is None:
        return None
    lags = [look.measured.lags.get(queue) for queue in _queues(assigned)]
    return None if None in lags else sum(each for each in lags if each is not None)


def _queues(assigned: Assigned) -> list[Queue]:
    return [queue for run in planning.owned(assigned) for queue in run]


def _state(group: ConsumerGroup, assigned: Assigned) -> Text:
    if assigned.empty_since or (group.spec.job is not None and not assigned.executor):
        return Text("empty", "yellow")
    return Text("draining", "yellow") if assigned.draining else Text("reads")


def _ready(group: ConsumerGroup) -> dict[str, Text]:
    found = conditions.find(group.status.conditions, "Ready")
    if found is None:
        return {"ready": Text("Unknown", "yellow"), "why": Text("no operator has seen it")}
    style = "green" if found.holds else "red"
    return {"ready": Text(found.status.value, style), "why": Text(found.reason)}


def _map(look: Look, assigned: Assigned) -> Iterator[Text]:
    """Draw the queues of each source: its name, their ids, and a sign for each."""
    for run in planning.owned(assigned):
        name = Text(tables.one_line(f"{run.topic}@{run.broker} {format_ids([run])}"))
        if look.measured is not None:
            name.append(" ")
            for queue in run:
                name.append(*sign(look.measured.lags.get(queue)))
        yield name


def sign(lag: int | None) -> tuple[str, str]:
    """Draw the lag of a queue: a sign, and how it is coloured."""
    if lag is None:
        return UNKNOWN, "dim"
    if lag <= 0:
        return NOTHING, "dim"
    digits = min(len(str(lag)), MOST_DIGITS)
    return str(digits), STYLES[digits] if digits < len(STYLES) else WORST


def _aligned(columns: Sequence[str], rows: Sequence[Row]) -> list[Text]:
    """Align columns under their names: numbers to the right, all else to the left."""
    texts = [[_cell(row[name]) for name in columns] for row in rows]
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


def _cell(value: Cell) -> Text:
    if isinstance(value, Text):
        return value
    return Text("-" if value in (None, "") else tables.one_line(value))
