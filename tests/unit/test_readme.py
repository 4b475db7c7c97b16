"""What the README shows is what happens."""

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from generate import handover

ROOT = Path(__file__).parents[2]


def blocks(name: str) -> list[tuple[str, str]]:
    """The code blocks of a page: their language and their text."""
    page = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(r"```(\w+)\n(.*?)```", page, re.S)


def shown_programs(name: str, language: str) -> list[tuple[str, str]]:
    """Each program in a language that is followed by its output, and that output."""
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
    assert handover.table(results) in (ROOT / handover.PAGE).read_text(encoding="utf-8"), (
        "run `make generate`"
    )


PAGE_OF_RESULTS = """
quiet
  Evenkeel                        0       0        1.42    9.99     11.4    11.4    1,080         -
  DefaultMQPushConsumer           0       0        0.21    9.99      1.5     1.5       55         -
one is frozen
  Evenkeel                        0       0       10.87   99.99     86.9    86.9    4,600     174.9
  DefaultMQPushConsumer           5       4      137.81  999.99    552.4   552.4   27,560     137.8
one is cut off
  Evenkeel                        0       0       10.13   99.99     81.1    81.1    4,200      40.0
  DefaultMQPushConsumer          17       4      116.45  999.99    466.4   466.4   23,280     116.4
queues are added
  Evenkeel                        0       0        1.86    9.99     17.4    17.4      680       1.9
  DefaultMQPushConsumer           0       0       37.33   99.99    111.1   111.1    2,446      37.3
a broker is killed
  Evenkeel                        0       0       45.23   99.99    542.8   542.8   18,675         -
  DefaultMQPushConsumer           0       0        8.33    9.99     51.3    51.3      240         -

Evenkeel, round 1: sent 217,720, lost 0, duplicated 0
Evenkeel, round 2: sent 217,720, lost 0, duplicated 3
DefaultMQPushConsumer, round 1: sent 188,640, lost 0, duplicated 56,483
DefaultMQPushConsumer, round 2: sent 188,640, lost 0, duplicated 1,000
"""


def test_the_table_of_the_readme_has_one_number_a_cell_and_the_worst_round_of_duplicates() -> None:
    cells = [line.split(" | ")[1:] for line in handover.table(PAGE_OF_RESULTS).splitlines()[2:]]
    assert cells == [
        ["**10.9 s**", "137.8 s |"],
        ["**10.1 s**", "116.5 s |"],
        ["**1.9 s**", "37.3 s |"],
        ["**3**", "56,483 |"],
        ["1.4 s", "**0.2 s** |"],
        ["45.2 s", "**8.3 s** |"],
    ]


def test_a_page_of_results_without_an_event_is_an_error() -> None:
    without = PAGE_OF_RESULTS.replace("one is frozen", "one is thawed")
    with pytest.raises(ValueError, match="one is frozen"):
        handover.table(without)
