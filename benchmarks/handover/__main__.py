"""
Measure handovers of queues, Evenkeel's and RocketMQ's own: `python -m benchmarks.handover`.

Prints the measurements, and each figure beside its target. Exits with 1 if a target is missed. Runs
on a real node, which needs root.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from benchmarks import page, peers, targets
from benchmarks.handover import report
from benchmarks.handover.effects import Outcome
from benchmarks.handover.rounds import Rounds
from benchmarks.handover.sides import SIDES, list_figures
from sandbox import jars, process
from sandbox.node import shop

RESULTS = Path(__file__).parents[1] / "RESULTS-handover.md"


def main() -> int:
    """Measure, print, compare."""
    options = _parse_options()
    try:
        played = _measure(options.sides, options.rounds)
    except (jars.JarsError, process.SandboxError, peers.ProgramFailedError) as error:
        print(f"bench-handover: {error}", file=sys.stderr)
        return 2
    figures = list(list_figures(played))
    body = list(report.make_tables(played))
    print("\n".join([*body, "", *targets.format_lines(figures)]))
    if options.update:
        command = f"make bench-handover ARGS='--rounds {options.rounds}'"
        page.write(RESULTS, report.format_page(command, played, body, figures))
    return 0 if all(figure.is_ok for figure in figures) else 1


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.handover", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=1, metavar="N", help="rounds of Evenkeel's sides (1)"
    )
    parser.add_argument(
        "--sides", nargs="+", choices=SIDES, default=[*SIDES], metavar="SIDE",
        help=f"some of {', '.join(SIDES)} (all)",
    )  # fmt: skip
    parser.add_argument("--update", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: at least one is needed")
    if options.update and {*options.sides} != {*SIDES}:
        parser.error("--update needs all sides")
    return options


def _measure(chosen: list[str], rounds: int) -> Mapping[str, Rounds]:
    played: dict[str, list[Outcome]] = defaultdict(list)
    with shop.open_shop("--set", "members.enabled=true") as on:
        for number in range(1, rounds + 1):
            for name, side in SIDES.items():
                if name in chosen and (number == 1 or side.list_figures is not None):
                    if played:
                        on.renew_brokers()
                    played[name].append(side.play(on, f"{name}-{number}"))
    return {name: Rounds(SIDES[name].name, found) for name, found in played.items()}


if __name__ == "__main__":
    sys.exit(main())
