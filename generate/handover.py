"""README.md's table of what an event does to a group, from the page of the benchmark."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from generate import marks

PAGE = Path("README.md")
RESULTS = Path("benchmarks", "RESULTS-handover.md")
HEAD = (
    "| | longest standstill, s | messages that come twice | queues that move "
    "| backlog at most | all queues have their new readers after, s |\n|---|---|---|---|---|---|\n"
)
_ROW = re.compile(
    r"^  (?P<side>\S+) +(?P<twice>[\d,]+) +(?P<moved>[\d,]+) +[\d.]+ +(?P<still>[\d.]+)"
    r" +[\d.]+ +[\d.]+ +(?P<backlog>[\d,]+) +(?P<taken>-|[\d.]+)",
    re.MULTILINE,
)
_EVENT = re.compile(r"^(?P<event>[a-z][a-z ]*)\n(?P<rows>(?:  .*\n)+)", re.MULTILINE)
_OURS = "Evenkeel"


class _Row(NamedTuple):
    side: str
    still: str
    twice: str
    moved: str
    backlog: str
    taken: str


def table(results: str) -> str:
    """Make a line of each event; what is ours is bold, and the other side's stands behind it."""
    return HEAD + "\n".join(
        f"| {found['event']} | {' | '.join(_cells(list(_rows(found['rows']))))} |"
        for found in _EVENT.finditer(results)
    )


def _rows(text: str) -> Iterator[_Row]:
    for found in _ROW.finditer(text):
        yield _Row(*(found[name] for name in _Row._fields))


def _cells(rows: list[_Row]) -> Iterator[str]:
    """Put both sides into one cell; what befalls only a driver has one side."""
    for values in list(zip(*rows, strict=True))[1:]:
        bold = (
            f"**{value}**" if row.side == _OURS else value
            for row, value in zip(rows, values, strict=True)
        )
        yield " / ".join(bold)


def write(root: Path) -> None:
    """Bring the page's table up to date."""
    marks.write(root / PAGE, {"handover": table((root / RESULTS).read_text(encoding="utf-8"))})
