"""
Measure pops against RocketMQ's own consumer in POP mode: `python -m benchmarks.messages`.

Prints the measurements, and each figure beside its target. Exits with 1 if a target is missed.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks import page, peers, progress, targets
from benchmarks.messages import popping, report, workers
from benchmarks.messages.report import Row
from benchmarks.messages.workers import Worked
from benchmarks.pull import programs, stage
from benchmarks.pull.player import Job
from benchmarks.pull.programs import Program, Running
from sandbox import jars, process, rocketmq
from sandbox.rocketmq import RocketMq

RESULTS = Path(__file__).parents[1] / "RESULTS-messages.md"
MESSAGES, QUEUES, ROUNDS, WARM_UP = 40_000, 8, 5, 2
QUICK_MESSAGES, QUICK_ROUNDS = 4_000, 1
WORKED, QUICK_WORKED = 6_400, 640
"""Messages for the workers."""


def main() -> int:
    """Measure, print, compare."""
    options = _parse_options()
    rows: list[Row] = []
    worked: dict[tuple[str, str], Worked] = {}
    try:
        for store in rocketmq.POP_STORES:
            with _start(store) as mq:
                rows += _measure_rates(mq, store, is_quick=options.quick)
                worked |= _measure_workers(mq, store, QUICK_WORKED if options.quick else WORKED)
    except (jars.JarsError, process.SandboxError, peers.ProgramFailedError) as error:
        print(f"bench-messages: {error}", file=sys.stderr)
        return 2
    body = [*report.make_table(rows), "", *report.make_workers_table(worked)]
    figures = list(report.list_figures(rows, worked))
    print("\n".join([*body, "", *targets.format_lines(figures)]))
    if options.update:
        page.write(RESULTS, report.format_page(body, figures))
    return 0 if all(figure.is_ok for figure in figures) else 1


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.messages", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, fewer rounds")
    parser.add_argument("--update", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    if options.update and options.quick:
        parser.error("--update needs a run without --quick")
    return options


def _start(store: str) -> AbstractContextManager[RocketMq]:
    return rocketmq.run(
        1,
        properties=rocketmq.POP_STORES[store],
        heap=stage.HEAP,
        java_options=(*stage.JAVA_OPTIONS, rocketmq.POP_MEMORY),
    )


def _measure_rates(mq: RocketMq, store: str, *, is_quick: bool) -> Iterator[Row]:
    """Let the programs pop all messages in turn. The first rounds are for warming up."""
    job = Job("popped", QUEUES, QUICK_MESSAGES if is_quick else MESSAGES)
    rounds = WARM_UP + (QUICK_ROUNDS if is_quick else ROUNDS)
    progress.say(f"{store}: filling {job}")
    stage.fill(mq, job)
    for number in range(rounds):
        popping.prepare_group(mq.name_server.address, f"bench-java-{number + 1}", job.topic)
    ours, java = _ours(), _java()
    with programs.start(ours, mq) as mine, programs.start(java, mq) as theirs:
        scenes: Sequence[tuple[str, Running]] = (
            (popping.POP, mine), (popping.HANDLE, mine), (popping.HANDLE, theirs)
        )  # fmt: skip
        seen = []
        for number in range(rounds):
            progress.say(f"{store}: round {number + 1} of {rounds}")
            seen.append([running.ask(work, job) for work, running in scenes])
    for (work, running), measured in zip(scenes, zip(*seen, strict=True), strict=True):
        yield Row(measured[WARM_UP:], store, work, running.program.name)


def _measure_workers(mq: RocketMq, store: str, messages: int) -> dict[tuple[str, str], Worked]:
    """Measure workers by message and by queue, on the same messages."""
    job = Job("worked", workers.QUEUES, messages)
    stage.fill(mq, job)
    name_server = mq.name_server.address
    progress.say(f"{store}: {workers.WORKERS} workers")
    popping.prepare_group(name_server, "bench-workers", job.topic)
    by_message = workers.work_by_message(name_server, "bench-workers", job.topic, messages)
    by_queue = workers.work_by_queue(name_server, "bench-readers", job.topic, messages)
    return {
        (store, report.BY_MESSAGE): asyncio.run(by_message),
        (store, report.BY_QUEUE): asyncio.run(by_queue),
    }


def _ours() -> Program:
    def command(mq: RocketMq) -> list[str]:
        return [sys.executable, "-m", "benchmarks.messages.popping", mq.name_server.address]

    return Program(report.OURS, command)


def _java() -> Program:
    return Program(report.JAVA, programs.jvm("Pop", popping.BATCH))


if __name__ == "__main__":
    sys.exit(main())
