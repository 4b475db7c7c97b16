"""The pages for contributors name files, functions and types that exist."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests import tracked_files

ROOT = Path(__file__).parents[3]
PAGES = sorted(ROOT.glob("docs/howto/*.md"))
ADDED = {
    "add-a-strategy.md": {"lb_core/strategies/by_topic.py", "by_topic", "byTopic", "ByTopic"},
    "add-a-metric.md": {
        "_messages",
        "_bytes",
        "is_refusing",
        "EvenkeelAssignmentRefused",
        "docs/runbooks/evenkeel-assignment-refused.md",
    },
    "change-a-driver.md": {"max_failures", "maxFailures"},
    "add-a-field.md": {"stop_timeout", "stopTimeout"},
}
"""For each page, the names that its example adds. An entry may be only the end of a name."""


@cache
def files() -> list[str]:
    """List the files of the checkout, each with a slash before it."""
    return [f"/{path.relative_to(ROOT).as_posix()}" for path in tracked_files.tracked(ROOT)]


@cache
def words() -> frozenset[str]:
    """Collect the words of all code except this file."""
    code = [file for file in files() if file.endswith(".py") and ROOT / file[1:] != Path(__file__)]
    return frozenset(
        word for file in code for word in re.findall(r"\w+", (ROOT / file[1:]).read_text("utf-8"))
    )


def quoted(page: Path, pattern: str) -> set[str]:
    """Collect the matches in the quoted parts of the text, but not in blocks of code."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.S | re.M)
    parts = " ".join(re.findall(r"`([^`]+)`", text))
    return set(re.findall(pattern, parts)) - ADDED.get(page.name, set())


def exists(path: str) -> bool:
    return any(file.endswith(f"/{path}") or f"/{path.rstrip('/')}/" in file for file in files())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_only_files_that_exist(page: Path) -> None:
    paths = quoted(page, r"\b(?:\w+/)+[\w-]*(?:\.\w+)?(?![\w<-])|\b\w+\.(?:py|md|yaml)\b")
    assert paths
    assert {each for each in paths if not exists(each)} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_only_functions_and_types_that_exist(page: Path) -> None:
    names = quoted(page, r"\b(?:\w*_\w+|[A-Za-z]+[a-z][A-Z]\w*)\b(?!/|\.py)")
    assert names
    assert names - words() == set()
