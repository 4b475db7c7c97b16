"""Generates the table of benefits and costs in README.md from the results of a benchmark."""

import re
from collections.abc import Mapping
from pathlib import Path

from generate import marks

PAGE = Path("README.md")
RESULTS = Path("benchmarks", "RESULTS-handover.md")
SIDES = {
    "Spark job": "a Spark job with Evenkeel",
    "Spark flow": "the same job as a flow",
    "Python follower": "Evenkeel's Python follower",
    "Java follower": "RocketMQ's consumers with Evenkeel",
    "DefaultMQPushConsumer": "RocketMQ's consumers alone",
}
"""The heading of a side's column, by the side's name in the results. Other sides get no column."""
STILL = {
    "one is frozen": "a consumer hangs: a queue is not read for at most",
    "one is cut off": "a consumer is cut off from the network: a queue is not read for at most",
    "queues are added": "queues are added: a new queue is first read within",
}
TWICE = "messages read twice, in all events together"
STILL_TOO = {
    "quiet": "in quiet times: the longest time between two reads of a queue",
    "a broker is killed": "a broker is killed: a queue is not read for at most",
}
_ROW = re.compile(r"^  (?P<side>\S.*?) +[\d,]+ +[\d,]+ +[\d.]+ +(?P<still>[\d.]+) ")
"""A side's row for an event: messages read twice, queues moved, median and worst standstill."""
_ROUND = re.compile(r"^(?P<side>\S.*), round \d+: .* duplicated (?P<twice>[\d,]+)$", re.MULTILINE)


def make_table(results: str) -> str:
    """Make the table. Each cell is one number, and the best number of a row is bold."""
    twice = _find_twice(results)
    if len(twice) < 2:
        raise ValueError(f"{RESULTS} must contain at least two sides to compare")
    rows = [_make_row(label, _find_still(results, event, twice)) for event, label in STILL.items()]
    rows.append(_make_row(TWICE, twice))
    rows += [
        _make_row(label, _find_still(results, event, twice)) for event, label in STILL_TOO.items()
    ]
    head = " | ".join(SIDES[side] for side in twice)
    return "\n".join([f"| | {head} |", f"|---{'|---' * len(twice)}|", *rows])


def _find_still(results: str, event: str, sides: Mapping[str, int]) -> dict[str, float]:
    """Read the longest standstill of each side in an event, in the worst round of that side."""
    heading = re.search(rf"^{event}\n", results, re.MULTILINE)
    after = results[heading.end() :] if heading else ""
    found = [_ROW.match(line) for line in after.splitlines()[: len(sides)]]
    still = {each["side"]: float(each["still"]) for each in found if each}
    if still.keys() != sides.keys():
        raise ValueError(f"{RESULTS} lacks the row of a side for the event {event!r}")
    return still


def _find_twice(results: str) -> dict[str, int]:
    """Read how many messages each side read twice, in the worst round of that side."""
    twice: dict[str, int] = {}
    for each in _ROUND.finditer(results):
        count = int(each["twice"].replace(",", ""))
        twice[each["side"]] = max(count, twice.get(each["side"], 0))
    return {side: twice[side] for side in SIDES if side in twice}


def _make_row(label: str, values: Mapping[str, float]) -> str:
    best = min(values.values())
    cells = [
        f"**{_format(value)}**" if value == best < max(values.values()) else _format(value)
        for value in values.values()
    ]
    return f"| {label} | {' | '.join(cells)} |"


def _format(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f} s"


def write(root: Path) -> None:
    """Update the table in README.md."""
    marks.write(root / PAGE, {"handover": make_table((root / RESULTS).read_text(encoding="utf-8"))})
