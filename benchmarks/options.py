"""Reads the options that benchmarks have in common."""

import argparse
from pathlib import Path


def parse(benchmark: str, about: str | None, results: Path) -> argparse.Namespace:
    """Read the options of a benchmark that can be quick, or update its page of results."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{benchmark}", description=about)
    parser.add_argument("--quick", action="store_true", help="less data, fewer rounds")
    parser.add_argument("--update", action="store_true", help=f"write {results.name}")
    found = parser.parse_args()
    if found.update and found.quick:
        parser.error("--update needs a run without --quick")
    return found
