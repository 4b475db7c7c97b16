"""
Measure how fast the operator is, on a real API server: `python -m benchmarks.operator`.

Prints the measurements, and each figure beside its target. Exits with 1 if a target is missed.
"""

import argparse
import asyncio
import sys
from pathlib import Path

from benchmarks import page, peers, progress, targets
from benchmarks.operator import play, report, sizes, theirs
from benchmarks.operator.play import Coordinated, Many, One
from sandbox import jars, process

RESULTS = Path(__file__).parents[1] / "RESULTS-operator.md"
IDLE_SECONDS, QUICK_IDLE_SECONDS = 300.0, 60.0


def main() -> int:
    """Measure, print, compare."""
    options = _parse_options()
    try:
        many, one, coordinated, beside = _measure(options)
    except (jars.JarsError, process.SandboxError, peers.ProgramFailedError) as error:
        print(f"bench-operator: {error}", file=sys.stderr)
        return 2
    figures = list(report.list_figures(many, one, coordinated))
    body = list(report.make_table(many, one, coordinated, beside))
    print("\n".join([*body, "", *targets.format_lines(figures)]))
    if options.update:
        page.write(RESULTS, report.format_page("make bench-operator", body, figures))
    return 0 if all(figure.is_ok for figure in figures) else 1


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operator", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="idle for one minute only, no freeze")
    parser.add_argument(
        "--groups", type=int, choices=[size.groups for size in sizes.MANY], metavar="N",
        help="measure only this number of groups, and nothing else: "
        + ", ".join(str(size.groups) for size in sizes.MANY),
    )  # fmt: skip
    parser.add_argument("--members", action="store_true", help="measure only the coordinator")
    parser.add_argument("--update", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    if options.update and (options.quick or options.groups or options.members):
        parser.error("--update cannot be combined with --quick, --groups or --members")
    return options


def _measure(
    options: argparse.Namespace,
) -> tuple[list[Many], One | None, Coordinated | None, dict[str, float]]:
    if options.members:
        return [], None, asyncio.run(play.coordinated(sizes.MEMBERS, progress.say)), {}
    idle_seconds = QUICK_IDLE_SECONDS if options.quick else IDLE_SECONDS
    many = [
        asyncio.run(play.many(size, idle_seconds, progress.say))
        for size in sizes.MANY
        if options.groups in (None, size.groups)
    ]
    if options.groups:
        return many, None, None, {}
    one = asyncio.run(play.one(sizes.ONE, progress.say))
    events = (theirs.KILLED,) if options.quick else (theirs.KILLED, theirs.FROZEN)
    coordinated = asyncio.run(play.coordinated(sizes.MEMBERS, progress.say))
    return many, one, coordinated, theirs.play_standstills(events, progress.say)


if __name__ == "__main__":
    sys.exit(main())
