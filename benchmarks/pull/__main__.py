"""
Measure the client against its peers, on a real broker: `python -m benchmarks.pull`.

Prints the measurements, and each figure beside its target. Exits with 1 if a target is missed.
"""

import argparse
import contextlib
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import page, peers, progress, targets
from benchmarks.pull import following, messages, ours, programs, report, stage
from benchmarks.pull.player import Job
from benchmarks.pull.programs import Program, Running
from benchmarks.pull.report import Row, Scene
from benchmarks.targets import Figure
from sandbox import jars, process
from sandbox.rocketmq import RocketMq

RESULTS = Path(__file__).parents[1] / "RESULTS-pull.md"
MESSAGES, ROUNDS = 300_000, 5
"""To warm up a JVM, each program moves MESSAGES messages before a scene is measured."""
QUICK_MESSAGES, QUICK_ROUNDS = 64_000, 3
SENT = 400 * messages.A_BATCH
SOAK_MINUTES = 10
SOAK_ROUNDS = 50
"""The number of pulls for the warm-up, and the number compared at the start and at the end."""


def main() -> int:
    """Measure, print, compare."""
    options = _parse_options()
    try:
        rows, figures = _measure(options)
    except (jars.JarsError, process.SandboxError, peers.ProgramFailedError) as error:
        print(f"bench-pull: {error}", file=sys.stderr)
        return 2
    body = [
        *report.make_table(rows),
        "",
        f"ours sends with {messages.IN_FLIGHT} batches in flight, the Java producer with one",
    ]
    print("\n".join([*body, "", *targets.format_lines(figures)]))
    if options.update:
        command = f"make bench-pull ARGS='--soak {options.soak:g}'"
        page.write(RESULTS, report.format_page(command, body, figures))
    return 0 if all(figure.is_ok for figure in figures) else 1


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pull", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, fewer rounds")
    parser.add_argument(
        "--soak", type=float, default=0, metavar="MINUTES", help="watch memory for this long"
    )
    parser.add_argument("--update", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    if options.update and (options.quick or options.soak < SOAK_MINUTES):
        parser.error(f"--update needs --soak {SOAK_MINUTES} or more, and no --quick")
    return options


def _measure(options: argparse.Namespace) -> tuple[list[Row], list[Figure]]:
    count = QUICK_MESSAGES if options.quick else MESSAGES
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    layouts = [Job("one", 1, count), Job("eight", 8, count)]
    with stage.start() as mq:
        for job in layouts:
            progress.say(f"filling {job}")
            stage.fill(mq, job)
        with _start(programs.PULLERS, mq) as pullers:
            rows = list(_measure_pulls(layouts, pullers, rounds, is_raised=False))
            with _start(programs.FOLLOWERS, mq) as followers:
                rows.extend(_measure_followers(layouts[-1], followers, rounds))
            stage.raise_caps(mq)
            rows.extend(_measure_pulls(layouts, pullers, rounds, is_raised=True))
        job = Job(stage.SENT_TOPIC, stage.SENT_QUEUES, SENT)
        with _start(programs.SENDERS, mq) as senders:
            rows.extend(
                _make_rows(Scene(ours.SEND, job.queues, is_raised=True), job, senders, rounds)
            )
        figures = list(report.list_figures(rows))
        if options.soak:
            figures.append(_soak(mq, layouts[-1], options.soak))
    return rows, figures


@contextlib.contextmanager
def _start(chosen: Sequence[Program], mq: RocketMq) -> Iterator[list[Running]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(programs.start(each, mq)) for each in chosen]


def _measure_pulls(
    layouts: Sequence[Job], pullers: Sequence[Running], rounds: int, *, is_raised: bool
) -> Iterator[Row]:
    mine = [running for running in pullers if running.program == programs.OURS]
    yield from _make_rows(Scene(ours.DECODE, 1, is_raised), layouts[0], mine, rounds)
    for job in layouts:
        yield from _make_rows(Scene(ours.PULL, job.queues, is_raised), job, pullers, rounds)


def _measure_followers(job: Job, followers: Sequence[Running], rounds: int) -> Iterator[Row]:
    mine = [running for running in followers if running.program == programs.FOLLOWER]
    scene = Scene(following.HANDLE, job.queues, is_raised=False)
    yield from _make_rows(scene, job, followers, rounds)
    columns = Scene(following.HANDLE_COLUMNS, job.queues, is_raised=False)
    yield from _make_rows(columns, job, mine, rounds)


def _make_rows(
    scene: Scene, job: Job, all_running: Sequence[Running], rounds: int
) -> Iterator[Row]:
    """Run the job with all programs in turn. The first rounds are for warming up."""
    progress.say(str(scene))
    warm_up = math.ceil(MESSAGES / job.messages)
    seen = [
        [running.ask(scene.work, job) for running in all_running] for _ in range(warm_up + rounds)
    ]
    for running, measured in zip(all_running, zip(*seen, strict=True), strict=True):
        yield Row(measured[warm_up:], scene, running.program)


def _soak(mq: RocketMq, job: Job, minutes: float) -> Figure:
    """Pull the same data again and again."""
    progress.say(f"pulling for {minutes:g} minutes")
    with programs.start(programs.OURS, mq) as running:
        until = time.monotonic() + minutes * 60
        seen = [running.ask(ours.PULL, job) for _ in range(2 * SOAK_ROUNDS)]
        while time.monotonic() < until:
            seen.append(running.ask(ours.PULL, job))
    return report.memory(minutes, seen[SOAK_ROUNDS : 2 * SOAK_ROUNDS], seen[-SOAK_ROUNDS:])


if __name__ == "__main__":
    sys.exit(main())
