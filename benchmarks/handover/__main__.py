"""
Measure handovers of queues, ours and RocketMQ's own: `python -m benchmarks.handover`.

Prints the measurements, and each figure beside its target. Exits with 1 if a target is missed. Runs
on a real node, which needs root.
"""

import argparse
import sys
from pathlib import Path

from benchmarks import page, peers, targets
from benchmarks.handover import ours, report, scene, theirs
from benchmarks.handover.report import Side
from sandbox import jars, process
from sandbox.node import shop

RESULTS = Path(__file__).parents[1] / "RESULTS-handover.md"


def main() -> int:
    """Measure, print, compare."""
    options = _parse_options()
    try:
        mine, peer = _measure(options)
    except (jars.JarsError, process.SandboxError, peers.ProgramFailedError) as error:
        print(f"bench-handover: {error}", file=sys.stderr)
        return 2
    figures = list(report.list_figures(mine, peer))
    body = list(report.make_table(mine, peer))
    print("\n".join([*body, "", *targets.format_lines(figures)]))
    if options.update:
        command = f"make bench-handover ARGS='--rounds {options.rounds}'"
        page.write(RESULTS, report.format_page(command, body, figures))
    return 0 if all(figure.is_ok for figure in figures) else 1


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.handover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="rounds of Evenkeel (1)")
    parser.add_argument("--ours", action="store_true", help="leave out RocketMQ's consumers")
    parser.add_argument("--update", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: at least one is needed")
    if options.update and options.ours:
        parser.error("--update cannot be combined with --ours")
    return options


def _measure(options: argparse.Namespace) -> tuple[Side, Side | None]:
    with shop.open_shop() as on:
        peer = None
        if not options.ours:
            played = scene.play(on, "theirs", theirs.start, theirs.EVENTS)
            peer = Side(theirs.NAME, [played])
        mine = []
        for number in range(1, options.rounds + 1):
            on.renew_brokers()
            mine.append(scene.play(on, f"ours-{number}", ours.start, ours.EVENTS))
        return Side(ours.NAME, mine), peer


if __name__ == "__main__":
    sys.exit(main())
