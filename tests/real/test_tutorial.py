"""The tutorial's commands run unchanged, in one shell, and print what the page shows."""

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from sandbox import go, jars, kubernetes, programs

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^<!-- run -->\n```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.S | re.M)
"""A block to run, and its output, if the page shows it."""
BETWEEN = "=== the next block ==="
PATIENCE_SECONDS = 600.0


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout without generated files. The builds of the page are already done."""
    if jars.find_java() is None:
        pytest.skip("NO TUTORIAL: there is no Java")
    try:
        kubernetes.build()
    except jars.JarsError as error:
        pytest.skip(f"NO REAL KUBERNETES: {error}")
    for each in ROOT.iterdir():
        if each.name != "build":
            (tmp_path / each.name).symlink_to(each)
    asked = subprocess.run(["make", "-q", "setup"], cwd=tmp_path, capture_output=True, check=False)
    if asked.returncode:
        pytest.skip("NO TUTORIAL: `make setup` would make .venv anew, which runs this test")
    return tmp_path


def run(script: str, folder: Path) -> tuple[int, str, str]:
    """Run a script in its own shell; end all processes that it leaves behind."""
    kubectl = go.build(programs.KUBECTL).parent
    errors = folder / "errors"
    with errors.open("w") as into:
        shell = subprocess.Popen(
            ["bash", "-e", "-c", script], cwd=folder, text=True, stdout=subprocess.PIPE,
            stderr=into, start_new_session=True,
            env={**os.environ, "PATH": f"{kubectl}:{os.environ['PATH']}"},
        )  # fmt: skip
        try:
            shown, _ = shell.communicate(timeout=PATIENCE_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)
            shell.wait()
    return shell.returncode, shown, errors.read_text()


def is_as_shown(printed: str, shown: str) -> bool:
    """Compare output with the page: `...` matches anything, and spaces match any spaces."""
    parts = [re.escape(" ".join(part.split())) for part in shown.split("...")]
    return re.fullmatch(".*".join(parts), " ".join(printed.split())) is not None


def test_the_tutorial_prints_what_it_says(checkout: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert len(blocks) == PAGE.read_text("utf-8").count("<!-- run -->") > 10
    script = f"echo '{BETWEEN}'\n".join(commands for commands, _ in blocks)
    code, printed, errors = run(script, checkout)
    assert code == 0, f"{printed}\n{errors}"
    parts = printed.split(f"{BETWEEN}\n")
    for (commands, shown), part in zip(blocks, parts, strict=True):
        assert not shown or is_as_shown(part, shown), f"{commands}\n{part}\n{errors}"
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("shown", "is_right"),
    [
        ("a  b\n", True),
        ("a ... c\n", False),
        ("...\n", True),
        ("a b\n...\n", True),
        ("a ...\n", True),
        ("b\n", False),
    ],
)
def test_a_text_of_the_page_is_compared_but_for_what_it_leaves_out(
    shown: str, is_right: bool
) -> None:
    assert is_as_shown("a b\n", shown) is is_right
