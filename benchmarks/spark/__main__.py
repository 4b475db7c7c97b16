"""
Measure the data source and the pinned job, on a real broker: `python -m benchmarks.spark`.

Prints the measurements, and each figure beside its target. Exits with 1 if a target is missed.
"""

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import page, peers, progress, targets
from benchmarks.pull import programs as clients
from benchmarks.pull import stage
from benchmarks.pull.player import Job
from benchmarks.spark import engines, many_slots, memory, pinned, processes, programs, reads, report
from benchmarks.spark.memory import Held
from benchmarks.spark.pinned import Load
from benchmarks.spark.processes import Kind
from benchmarks.spark.report import Row, Scene
from benchmarks.targets import Figure
from contract.kinds.jobs import JobEngine
from mq_client.blocking import Client
from sandbox import jars, process
from sandbox.rocketmq import RocketMq

RESULTS = Path(__file__).parents[1] / "RESULTS-spark.md"
QUEUES, MANY_QUEUES = 8, 1000
LIGHT, STEADY = Load(1000, 1), Load(5000, 50)
"""The load while planning is measured, and the load while memory is watched."""
SETTLE_SECONDS = 15
SOAK_MINUTES = 10


@dataclass(frozen=True, slots=True)
class Size:
    """How much to measure."""

    messages: int
    warm_up_rounds: int
    rounds: int
    planned_batches: int
    adoptions: int
    idle_seconds: int
    backlog: int
    rounds_of_engines: int


WHOLE = Size(640_000, 2, 5, 30, 6, 60, 1_600_000, 3)
QUICK = Size(256_000, 2, 3, 10, 3, 20, 800_000, 1)


def main() -> int:
    """Measure, print, compare."""
    options = _parse_options()
    try:
        body, figures = _measure(options)
    except (jars.JarsError, process.SandboxError, peers.ProgramFailedError) as error:
        print(f"bench-spark: {error}", file=sys.stderr)
        return 2
    print("\n".join([*body, "", *targets.format_lines(figures)]))
    if options.update:
        command = f"make bench-spark ARGS='--soak {options.soak:g}'"
        page.write(RESULTS, report.format_page(command, body, figures))
    return 0 if all(figure.is_ok for figure in figures) else 1


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, fewer rounds")
    parser.add_argument(
        "--soak", type=float, default=0, metavar="MINUTES", help="watch memory for this long"
    )
    parser.add_argument("--update", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    shortest = memory.WARM_UP_MINUTES + 1
    if options.soak and options.soak < shortest:
        parser.error(f"--soak must be at least {shortest} minutes")
    if options.update and (options.quick or options.soak < SOAK_MINUTES):
        parser.error(f"--update needs --soak {SOAK_MINUTES} or more, and no --quick")
    return options


def _measure(options: argparse.Namespace) -> tuple[list[str], list[Figure]]:
    size = QUICK if options.quick else WHOLE
    with stage.start() as mq, Client(mq.name_server.address) as client:
        rows = list(_throughput(mq, size))
        body, figures = list(report.make_table(rows)), list(report.throughput(rows))
        figures += _compare_engines(mq, client, size, rows)
        with pinned.start(mq, client, "planned", QUEUES) as job:
            progress.say(f"planning batches of {QUEUES} queues")
            with pinned.send_load(LIGHT, mq, "planned"):
                figures.append(report.planning(QUEUES, job.planning(size.planned_batches)))
            percent = _measure_idle(job.pid, size)
            progress.say("publishing assignments")
            with pinned.send_load(LIGHT, mq, "planned"):
                numbers = range(QUEUES + 1, QUEUES + 1 + size.adoptions)
                changes = [job.adopt(queues) for queues in numbers]
        with pinned.start(mq, client, "many", MANY_QUEUES) as job:
            progress.say(f"planning batches of {MANY_QUEUES} queues")
            with pinned.send_load(LIGHT, mq, "many"):
                figures.append(report.planning(MANY_QUEUES, job.planning(size.planned_batches)))
        figures.append(report.adoption(changes))
        with programs.run_idle(mq, "planned") as pid:
            figures.append(report.compare_idle("stream", _measure_idle(pid, size)))
        figures.append(report.compare_idle("pinned job", percent))
        if options.soak:
            held = _soak(mq, client, options.soak)
            body += report.memory_table(held)
            figures += report.memory(held, options.soak)
    seconds = statistics.median(each.seconds for each in changes)
    body += ["", f"a new assignment is reported as adopted after {seconds:.1f} s, the median"]
    return body, figures


def _throughput(mq: RocketMq, size: Size) -> Iterator[Row]:
    """Run all readers in turn. The first rounds are for warming up."""
    job = Job("eight", QUEUES, size.messages)
    progress.say(f"filling {job}")
    stage.fill(mq, job)
    stage.raise_caps(mq)
    for master in programs.MASTERS:
        with contextlib.ExitStack() as stack:
            readers = [
                stack.enter_context(clients.start(each, mq))
                for each in programs.list_readers(master)
            ]
            for sink in (reads.NOOP, reads.AGGREGATE):
                progress.say(f"{sink}, {master}")
                seen = [
                    [reader.ask(sink, job) for reader in readers]
                    for _ in range(size.warm_up_rounds + size.rounds)
                ]
                for reader, rounds in zip(readers, zip(*seen, strict=True), strict=True):
                    measured = rounds[size.warm_up_rounds :]
                    yield Row(measured, Scene(master, sink), reader.program.name)


def _compare_engines(
    mq: RocketMq, client: Client, size: Size, rows: Sequence[Row]
) -> Iterator[Figure]:
    """Compare a flow with a job of batches, and with the fastest reader of RocketMQ."""
    job = Job("backlog", QUEUES, size.backlog)
    progress.say(f"filling {job}")
    stage.fill(mq, job)
    rates, costs = {}, {}
    for engine in JobEngine:
        progress.say(f"reading {job} with engine {engine.value}")
        rates[engine] = engines.measure_rate(mq, client, engine, job, size.rounds_of_engines)
        progress.say(f"few messages, engine {engine.value}")
        costs[engine] = engines.measure_cost(mq, client, engine, size.idle_seconds)
    yield from report.compare_engines(rates, costs, rows)
    progress.say(f"one driver with {many_slots.SLOTS} tasks")
    yield report.coordination(many_slots.measure(size.idle_seconds))


def _measure_idle(pid: int, size: Size) -> float:
    """Measure the percentage of one core that an idle application uses."""
    progress.say(f"idle for {size.idle_seconds} s")
    time.sleep(SETTLE_SECONDS)
    return processes.cpu_used(pid, size.idle_seconds) / size.idle_seconds * 100


def _soak(mq: RocketMq, client: Client, minutes: float) -> Mapping[Kind, Held]:
    """Watch the memory of a pinned job under a steady load."""
    with pinned.start(mq, client, "soak", QUEUES) as job, pinned.send_load(STEADY, mq, "soak"):
        progress.say(f"watching the memory for {minutes:g} minutes")
        return memory.watch(job.pid, minutes)


if __name__ == "__main__":
    sys.exit(main())
