"""
Measure pops against RocketMQ's own consumer in POP mode: `python -m benchmarks.messages`.

Prints the measurements, and each figure beside its target. Exits with 1 if a target is missed.
"""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import options, page, peers, progress, targets
from benchmarks.messages import popping, report, workers
from benchmarks.messages.report import Case, DelayCase, Row
from benchmarks.messages.workers import Delays, Place, Worked
from benchmarks.pull import programs, stage
from benchmarks.pull.player import Job
from benchmarks.pull.programs import Program, Running
from sandbox import jars, process, rocketmq
from sandbox.rocketmq import RocketMq

RESULTS = Path(__file__).parents[1] / "RESULTS-messages.md"
QUEUES, WARM_UP = 8, 1


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    messages: int
    rounds: int
    worked: int
    """Messages for the workers."""
    seconds: float
    """How long messages are sent whose delays are measured."""


WHOLE = Size(20_000, 3, 12_800, 20.0)
QUICK = Size(4_000, 1, 640, 3.0)


def main() -> int:
    """Measure, print, compare."""
    asked = options.parse("messages", __doc__, RESULTS)
    size = QUICK if asked.quick else WHOLE
    rows: list[Row] = []
    worked: dict[Case, Worked] = {}
    delays: dict[DelayCase, Delays] = {}
    try:
        for store in rocketmq.POP_STORES:
            with _start(store) as mq:
                rows += _measure_rates(mq, store, size)
                worked |= _measure_workers(mq, store, size)
                delays |= _measure_delays(mq, store, size)
    except (jars.JarsError, process.SandboxError, peers.ProgramFailedError) as error:
        print(f"bench-messages: {error}", file=sys.stderr)
        return 2
    body = [
        *report.make_table(rows), "", *report.make_workers_table(worked), "",
        *report.make_delays_table(delays),
    ]  # fmt: skip
    figures = list(report.list_figures(rows, worked, delays))
    print("\n".join([*body, "", *targets.format_lines(figures)]))
    if asked.update:
        page.write(RESULTS, report.format_page(body, figures))
    return 0 if all(figure.is_ok for figure in figures) else 1


def _start(store: str) -> AbstractContextManager[RocketMq]:
    return rocketmq.run(
        1,
        properties=rocketmq.POP_STORES[store],
        heap=stage.HEAP,
        java_options=(*stage.JAVA_OPTIONS, rocketmq.POP_MEMORY),
    )


def _measure_rates(mq: RocketMq, store: str, size: Size) -> Iterator[Row]:
    """Let the programs pop all messages in turn. The first rounds are for warming up."""
    job = Job("popped", QUEUES, size.messages)
    rounds = WARM_UP + size.rounds
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


def _measure_workers(mq: RocketMq, store: str, size: Size) -> Iterator[tuple[Case, Worked]]:
    """Measure workers by message and by queue, on the same messages."""
    job = Job("worked", workers.QUEUES, size.worked)
    stage.fill(mq, job)
    for balance, run in report.BALANCES.items():
        progress.say(f"{store}: {workers.WORKERS} workers {balance}")
        group = f"bench-workers-{balance.split()[-1]}"
        place = Place(mq.name_server.address, group, job.topic, job.queues)
        yield (store, balance), asyncio.run(workers.share(run, place, job.messages))


def _measure_delays(mq: RocketMq, store: str, size: Size) -> Iterator[tuple[DelayCase, Delays]]:
    """Measure how long messages wait: without work, with work, and with one slow worker."""
    for number, (scene, (slow, work)) in enumerate(report.SCENES.items()):
        for balance, run in report.BALANCES.items():
            progress.say(f"{store}: delays {balance}, {scene}")
            kind = balance.split()[-1]
            place = Place(
                mq.name_server.address, f"bench-{kind}-{number}", f"timed-{kind}-{number}",
                workers.FEW_WORKERS,
            )  # fmt: skip
            mq.create_topics({place.topic: place.queues})
            delays = workers.time_delays(run, place, slow, work, size.seconds)
            yield (store, balance, scene), asyncio.run(delays)


def _ours() -> Program:
    def command(mq: RocketMq) -> list[str]:
        return [sys.executable, "-m", "benchmarks.messages.popping", mq.name_server.address]

    return Program(report.OURS, command)


def _java() -> Program:
    return Program(report.JAVA, programs.jvm("Pop", popping.BATCH))


if __name__ == "__main__":
    sys.exit(main())
