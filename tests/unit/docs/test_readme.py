"""The README's programs have the output that it shows."""

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from generate import handover

ROOT = Path(__file__).parents[3]


def blocks(name: str) -> list[tuple[str, str]]:
    """List the code blocks of a page, with their languages and texts."""
    page = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(r"```(\w+)\n(.*?)```", page, re.S)


def shown_programs(name: str, language: str) -> list[tuple[str, str]]:
    """List the programs in a language that are followed by their output, with that output."""
    found = blocks(name)
    return [
        (program, output)
        for (kind, program), (after, output) in pairwise(found)
        if (kind, after) == (language, "text")
    ]


def output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stdout


def test_the_readme_shows_what_the_filter_answers() -> None:
    found_programs = shown_programs("README.md", "sh")
    [(script, shown)] = [each for each in found_programs if "lb_core" in each[0]]
    found = json.loads(output("sh", "-c", script.replace("python3", sys.executable)))
    expected = json.loads(shown)
    for answer in (found, expected):
        assert answer.pop("planMs") >= 0
        assert answer.pop("elapsedMs") >= 0
    assert found == expected


@pytest.mark.parametrize(("page", "programs"), [("README.md", 1), ("docs/python.md", 2)])
def test_the_pages_show_what_their_programs_print(page: str, programs: int) -> None:
    shown = shown_programs(page, "python")
    assert len(shown) == programs
    for program, expected in shown:
        assert output(sys.executable, "-c", program) == expected


def test_the_table_of_the_readme_is_made_from_the_page_of_the_benchmark() -> None:
    results = (ROOT / handover.RESULTS).read_text(encoding="utf-8")
    assert handover.make_table(results) in (ROOT / handover.PAGE).read_text(encoding="utf-8"), (
        "run `make generate`"
    )
