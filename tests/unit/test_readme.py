"""What the README shows is what happens."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)


def block_after(language: str) -> tuple[str, str]:
    """The first block in a language, and the one that shows its output."""
    place = next(at for at, (name, _) in enumerate(BLOCKS) if name == language)
    return BLOCKS[place][1], BLOCKS[place + 1][1]


def output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stdout


def test_the_readme_shows_what_the_filter_answers() -> None:
    script, shown = block_after("sh")
    found, expected = (
        json.loads(output("sh", "-c", script.replace("python3", sys.executable))),
        json.loads(shown),
    )
    for answer in (found, expected):
        assert answer.pop("planMs") >= 0
        assert answer.pop("elapsedMs") >= 0
    assert found == expected


def test_the_readme_shows_what_the_library_prints() -> None:
    program, shown = block_after("python")
    assert output(sys.executable, "-c", program) == shown
