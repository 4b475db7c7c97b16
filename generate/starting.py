"""Draws when each step of a driver's start is done, as a benchmark has measured it."""

import re
from collections.abc import Mapping
from pathlib import Path

from generate.drawing import FAINT, OWNERS, Drawing

RESULTS = Path(__file__).parents[1] / "benchmarks" / "RESULTS-footprint.md"
COLOURS = (*OWNERS, "#8fc9a8", FAINT)
LEFT, WIDTH, HEIGHT, ROW, TOP = 95, 700, 34, 74, 20
_START = re.compile(r"^start, (?P<of>[\w ]+): (?P<steps>.+)$", re.MULTILINE)
_STEP = re.compile(r"(\w+) ([\d.]+) s")

Starts = Mapping[str, Mapping[str, float]]
"""For each kind of job: when each step was done, in seconds."""


def read_starts(results: str) -> Starts:
    """Read the starts from a page of results."""
    found = {
        each["of"]: {step: float(at) for step, at in _STEP.findall(each["steps"])}
        for each in _START.finditer(results)
    }
    if not found:
        raise ValueError(f"{RESULTS} has no starts")
    return found


def draw(starts: Starts) -> str:
    """Draw a bar for each start, with a part for each step."""
    names = list(dict.fromkeys(step for steps in starts.values() for step in steps))
    scale = WIDTH / max(at for steps in starts.values() for at in steps.values())
    it = Drawing(860, TOP + ROW * len(starts) + 30)
    for row, (of, steps) in enumerate(starts.items()):
        y, before = TOP + ROW * row, 0.0
        it.write(15, y + 22, of, "title")
        for step, at in sorted(steps.items(), key=lambda each: each[1]):
            colour = COLOURS[names.index(step)]
            it.bar(LEFT + before * scale, y, (at - before) * scale, HEIGHT, colour)
            before = at
        told = ", ".join(f"{step} {at:g} s" for step, at in steps.items())
        it.write(LEFT, y + HEIGHT + 18, told, "small")
    bottom = TOP + ROW * len(starts)
    for number, name in enumerate(names):
        x = LEFT + 105 * number
        it.bar(x, bottom, 14, 14, COLOURS[number])
        it.write(x + 20, bottom + 12, name, "small")
    return it.svg()


def draw_starting() -> str:
    """Draw the starts of the benchmark's newest results."""
    return draw(read_starts(RESULTS.read_text(encoding="utf-8")))
