"""
Measure the allocation engine against its peers: `python -m benchmarks.alloc`.

Prints the measurements, and each figure beside its target. Exits with 1 if a target is missed.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks import page, peers
from benchmarks.alloc import programs, report, scenarios
from benchmarks.alloc.programs import Program
from benchmarks.alloc.report import Row
from benchmarks.alloc.scenarios import Limits, Size
from sandbox import jars

RESULTS = Path(__file__).parents[1] / "RESULTS.md"
SHORT_WARM_UP = 0.2
"""The warm-up in seconds of programs without a just-in-time compiler."""
QUICK = (scenarios.SMALL, scenarios.MIDDLE)


def main() -> int:
    """Measure, print, compare."""
    options = _parse_options()
    sizes = QUICK if options.quick else scenarios.SIZES
    limits = Limits(warm_up_seconds=0.5) if options.quick else Limits()
    try:
        rows = [row for size in sizes for row in _measure(size, limits, options)]
        memory = None if options.quick else _memory(limits)
    except (jars.JarsError, peers.ProgramFailedError) as error:
        print(f"bench-alloc: {error}", file=sys.stderr)
        return 2
    figures = list(report.list_figures(rows, memory))
    body = list(report.make_table(rows))
    print("\n".join([*body, "", *report.format_lines(figures)]))
    if options.update:
        page.write(RESULTS, report.format_page("make bench-alloc", body, figures))
    return 0 if all(figure.is_ok for figure in figures) else 1


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alloc", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, fresh plans only")
    parser.add_argument("--update", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--only", help="only programs whose name contains this text, and STICKY")
    options = parser.parse_args()
    if options.update and (options.quick or options.only):
        parser.error("--update cannot be combined with --quick or --only")
    return options


def _measure(size: Size, limits: Limits, options: argparse.Namespace) -> Iterator[Row]:
    """Measure all programs at one size; the fast ones also with fragmented groups."""
    for program in programs.ALL:
        if options.only and options.only not in program.name and program != programs.STICKY:
            continue
        own = limits if program.is_jvm else replace(limits, warm_up_seconds=SHORT_WARM_UP)
        if size in program.sizes:
            script = scenarios.fresh(size, own, rehearse=program.rehearse)
            yield from _make_rows(program, size, script)
        if size in program.fragmented and not options.quick:
            script = scenarios.play_fragmented(size, own, rehearse=program.rehearse)
            yield from _make_rows(program, size, script)


def _make_rows(program: Program, size: Size, script: Iterator[str]) -> list[Row]:
    """Make a row per event. Later results replace those of a rehearsal."""
    rows: dict[str, Row] = {}
    for facts in programs.play(program, script):
        if "event" in facts:
            row = Row(program.name, size, **{"ms": None, **facts})
            rows[row.event] = row
            if sys.stderr.isatty():
                print(f"\r\033[K{size}: {program.name} {row.event}", end="", file=sys.stderr)
    return list(rows.values())


def _memory(limits: Limits) -> float:
    """Measure the peak memory of STICKY, in a new process."""
    script = scenarios.memory(scenarios.HUGE, limits)
    answers = list(programs.play(programs.STICKY, script))
    return float(answers[-1]["memory_mib"])


if __name__ == "__main__":
    sys.exit(main())
