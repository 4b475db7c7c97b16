"""Generates the table in README.md about benefits and costs from a benchmark's results."""

import re
from pathlib import Path

from generate import marks

PAGE = Path("README.md")
RESULTS = Path("benchmarks", "RESULTS-handover.md")
OURS, THEIRS = "Evenkeel", "DefaultMQPushConsumer"
HEAD = "| | Evenkeel | RocketMQ's own consumers |\n|---|---|---|"
GAINS = {
    "one is frozen": "a consumer hangs: a queue stands still for at most",
    "one is cut off": "a consumer is cut off from the network: a queue stands still for at most",
    "queues are added": "queues are added: a new queue is first read within",
}
TWICE = "messages read twice, in all events together"
COSTS = {
    "quiet": "cost: in quiet times a message waits for at most",
    "a broker is killed": "cost: a broker is killed: a queue stands still for at most",
}
_ROW = re.compile(r"^  (?P<side>\S+) +[\d,]+ +[\d,]+ +[\d.]+ +(?P<still>[\d.]+) ")
"""A side's row for an event: messages read twice, queues moved, median and worst standstill."""
_ROUND = re.compile(r"^(?P<side>\S+), round \d+: .* duplicated (?P<twice>[\d,]+)$", re.MULTILINE)


def make_table(results: str) -> str:
    """Make the table. Each cell is one number, and the better number is bold."""
    rows = [_standstill(results, event, label) for event, label in GAINS.items()]
    rows.append(_make_row(TWICE, _twice(results, OURS), _twice(results, THEIRS)))
    rows += [_standstill(results, event, label) for event, label in COSTS.items()]
    return "\n".join([HEAD, *rows])


def _standstill(results: str, event: str, label: str) -> str:
    """Make the row of an event: the longest standstill of each side, in its worst round."""
    heading = re.search(rf"^{event}(?: \(.*\))?\n", results, re.MULTILINE)
    after = results[heading.end() :] if heading else ""
    found = [_ROW.match(line) for line in after.splitlines()[:2]]
    still = {each["side"]: float(each["still"]) for each in found if each}
    if set(still) != {OURS, THEIRS}:
        raise ValueError(f"{RESULTS} has no rows of both sides for {event!r}")
    return _make_row(label, still[OURS], still[THEIRS], " s")


def _twice(results: str, side: str) -> int:
    """Read how many messages a side read twice, in its worst round."""
    counts = [each["twice"] for each in _ROUND.finditer(results) if each["side"] == side]
    if not counts:
        raise ValueError(f"{RESULTS} has no round of {side}")
    return max(int(each.replace(",", "")) for each in counts)


def _make_row(label: str, ours: float, theirs: float, unit: str = "") -> str:
    def cell(value: float, other: float) -> str:
        text = f"{value:,.1f}{unit}" if unit else f"{value:,}"
        return f"**{text}**" if value < other else text

    return f"| {label} | {cell(ours, theirs)} | {cell(theirs, ours)} |"


def write(root: Path) -> None:
    """Update the table in README.md."""
    marks.write(root / PAGE, {"handover": make_table((root / RESULTS).read_text(encoding="utf-8"))})
