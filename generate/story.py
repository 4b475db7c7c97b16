"""Generates the table of docs/story.md: the steps of a test on a real node."""

from pathlib import Path

from generate import marks
from tests.e2e.story import STEPS

PAGE = Path("docs", "story.md")


def make_table() -> str:
    """Make one row per step."""
    lines = ["| | what happens | what is expected |", "|---|---|---|"]
    lines += [
        f"| {number} | {step.title} | {step.expected} |"
        for number, step in enumerate(STEPS, start=1)
    ]
    return "\n".join(lines)


def write(root: Path) -> None:
    """Update the table on the page."""
    marks.write(root / PAGE, {"steps": make_table()})
