"""The table of docs/story.md: what a test does to a group on a real node, and what it expects."""

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
    """Bring the page's table up to date."""
    marks.write(root / PAGE, {"steps": make_table()})
