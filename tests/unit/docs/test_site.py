"""The documentation can be built, and its examples are true."""

import contextlib
import io
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from evenkeel import manifests

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
FETCHED = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*>")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built by the command of `make docs`."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_in_the_nav_and_every_link_leads_somewhere(site: Path) -> None:
    """A strict build checks the links; this test checks that no page is left out."""
    pages = {path.relative_to(DOCS) for path in DOCS.rglob("*.md")}
    for page in pages:
        built = page.parent if page.name == "index.md" else page.with_suffix("")
        assert (site / built / "index.html").is_file(), page


def test_files_beside_the_documentation_come_along(site: Path) -> None:
    for page in ("benchmarks/RESULTS-operator", "charts/evenkeel", "examples"):
        assert (site / page / "index.html").is_file()
    assert (site / "examples" / "sink.py").read_bytes() == (ROOT / "examples/sink.py").read_bytes()
    jobs = (site / "spark-jobs" / "index.html").read_text("utf-8")
    assert 'href="../benchmarks/RESULTS-handover/"' in jobs
    figures = (site / "benchmarks" / "RESULTS-operator" / "index.html").read_text("utf-8")
    assert 'href="../../design/0009-the-loop/"' in figures


def test_a_reader_fetches_nothing_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        page = path.read_text("utf-8")
        assert 'class="mermaid"' not in page  # browsers would download a script to draw it
        for tag in FETCHED.findall(page):
            assert "//" not in tag or 'rel="canonical"' in tag, f"{path.relative_to(site)}: {tag}"
    for path in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//", path.read_text("utf-8")), path


def test_a_link_that_leads_nowhere_ends_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A\n\n[there](../gone.md) [x](#gone)\n", "utf-8")
    config = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(config, "utf-8")
    (tmp_path / "docs" / "hooks.py").write_bytes((DOCS / "hooks.py").read_bytes())
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "../gone.md" in done.stderr
    assert "#gone" in done.stderr


def blocks(page: Path, language: str = r"\w+") -> list[tuple[str, str]]:
    """List the code blocks of a page, with their languages and texts."""
    return re.findall(rf"^```({language})\n(.*?)^```", page.read_text("utf-8"), re.S | re.M)


def test_the_programs_of_the_example_print_what_the_page_says() -> None:
    """The programs run one after the other, as a user would type them."""
    names: dict[str, Any] = {}
    found = [
        (program, shown)
        for (kind, program), (after, shown) in pairwise(blocks(DOCS / "sticky.md"))
        if (kind, after) == ("python", "text")
    ]
    assert len(found) == 7
    for program, shown in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, "sticky.md", "exec"), names)
        assert printed.getvalue() == shown


OURS = [
    (path.relative_to(DOCS).as_posix(), number, text)
    for path in sorted(DOCS.rglob("*.md"))
    for number, (_, text) in enumerate(blocks(path, "yaml"))
    if re.search(r"^apiVersion: evenkeel\.dev/", text, re.M)
]


@pytest.mark.parametrize(
    ("page", "number", "text"), OURS, ids=[f"{page} {number}" for page, number, _ in OURS]
)
def test_manifests_on_pages_are_understood(
    page: str, number: int, text: str, tmp_path: Path
) -> None:
    file = tmp_path / "shown.yaml"
    file.write_text(text, "utf-8")
    found = manifests.read(file)
    assert found.topics or found.groups
