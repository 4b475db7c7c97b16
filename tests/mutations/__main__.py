"""
Breaks one line of the code at a time, in a copy, and checks that tests fail.

`make mutations` prints a line for each break, and exits with 1 if the tests pass despite a break.
The tests of the broken module run first: most breaks need no others.
The comparison with RocketMQ's classes is left out: the other tests must notice each break without
Java.
"""

import enum
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutations import (
    around,
    balance,
    batch,
    engine,
    flow,
    following,
    popping,
    strategies,
)

ROOT = Path(__file__).parents[2]
COPIED = ["contract", "coordinator", "crds", "docs", "follower", "lb_core", "mq_client",
          "operator", "sandbox", "spark_jobs", "tests", "pyproject.toml"]  # fmt: skip
PATIENCE = 4
"""Tests count as endless if they take this many times as long as with the unbroken code."""
ROOMS = {
    "strategies": strategies, "engine": engine, "around": around, "following": following,
    "popping": popping, "balance": balance, "flow": flow, "batch": batch,
}  # fmt: skip


class Verdict(enum.Enum):
    """What the tests say about a break."""

    NOTICED = "noticed"
    ENDLESS = "endless"
    """A test waits for ever, so the break was noticed too."""
    UNNOTICED = "UNNOTICED"


def main(names: Sequence[str]) -> int:
    tried = unnoticed = 0
    with tempfile.TemporaryDirectory(prefix="evenkeel-mutations-") as scratch:
        copy = Path(scratch)
        copy_checkout(copy)
        for name in names or ROOMS:
            room = ROOMS[name]
            begun = time.monotonic()
            if run_tests(copy, room.NOTICED_BY, None) is not Verdict.UNNOTICED:
                sys.stdout.write(f"{name}: the tests fail before anything is broken\n")
                return 1
            limit = PATIENCE * (time.monotonic() - begun)
            for file, before, after in room.MUTATIONS:
                found = try_break(copy, file, before, after, room.NOTICED_BY, limit)
                tried, unnoticed = tried + 1, unnoticed + (found is Verdict.UNNOTICED)
                sys.stdout.write(f"{found.value:9} {file}: {before!r} -> {after!r}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{tried} tried, {unnoticed} unnoticed\n")
    return 1 if unnoticed else 0


def copy_checkout(place: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place / name)


def try_break(
    copy: Path, name: str, before: str, after: str, tests: Sequence[str], limit: float
) -> Verdict:
    """Break a line, run the tests, and repair the line."""
    file = copy / name
    whole = file.read_text(encoding="utf-8")
    if before not in whole:
        raise LookupError(f"{name} has no {before!r} any more: bring the list up to date")
    file.write_text(whole.replace(before, after, 1), encoding="utf-8")
    try:
        found = Verdict.UNNOTICED
        if nearest := find_nearest_tests(name, tests):
            found = run_tests(copy, [nearest], limit)
        return run_tests(copy, tests, limit) if found is Verdict.UNNOTICED else found
    finally:
        file.write_text(whole, encoding="utf-8")


def find_nearest_tests(name: str, tests: Sequence[str]) -> str | None:
    """Return those of the tests that lie as the module or its package lies, if there are any."""
    module = Path(name)
    folder = Path("tests/unit") / module.parent
    for nearest in (folder / f"test_{module.name}", folder.with_name(f"test_{folder.name}.py")):
        if (ROOT / nearest).exists() and any(map(nearest.is_relative_to, tests)):
            return str(nearest)
    return None


def run_tests(copy: Path, tests: Sequence[str], limit: float | None) -> Verdict:
    # No bytecode: it would be outdated if a line is broken and repaired within one second.
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, cwd=copy, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return Verdict.ENDLESS
    return Verdict.NOTICED if done.returncode else Verdict.UNNOTICED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
