"""Formats the results as tables, as figures with their targets, and as a page."""

import importlib.metadata
import platform
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks import page, peers, targets
from benchmarks.pull import messages, stage
from benchmarks.pull import programs as clients
from benchmarks.pull.programs import Rounds
from benchmarks.spark import many_slots, pinned, programs
from benchmarks.spark.engines import FEW
from benchmarks.spark.memory import Held
from benchmarks.spark.peers import synthetic
from benchmarks.spark.pinned import Adoption
from benchmarks.spark.processes import Kind
from benchmarks.targets import Figure
from contract.kinds.jobs import JobEngine
from sandbox import jars, jobs, rocketmq

OF_CEILING, OF_LITE_PULL = 0.4, 2
MOONSHOT = 0.6
PLANNING_SECONDS = {8: 0.2, 1000: 1.0}
IDLE_PERCENT = 5
COORDINATION_PERCENT = 30
LATE_BATCHES = 1
MEMORY_RATIO = 1.1
FLOW_OF_BATCH, FLOW_OF_LITE_PULL, FLOW_COST = 1.2, 1, 0.2


@dataclass(frozen=True, slots=True)
class Scene:
    """Conditions that are the same for all programs."""

    master: str
    sink: str

    def __str__(self) -> str:
        """Name the scene, for example `noop, local[2]`."""
        return f"{self.sink}, {self.master}"


@dataclass(frozen=True, slots=True)
class Row(Rounds):
    """The result of one program in one scene."""

    scene: Scene
    program: str


def make_table(rows: Iterable[Row]) -> Iterator[str]:
    """Yield all rows, one block per scene."""
    scene = None
    for row in rows:
        if row.scene != scene:
            scene = row.scene
            yield ""
            yield str(scene)
            yield (
                f"  {'program':<24} {'rows/s':>12} {'MiB/s':>7} "
                f"{'rounds':>7} {'slowest/s':>12} {'fastest/s':>12}"
            )
        mib = row.rate * messages.BODY_BYTES / 2**20
        yield (
            f"  {row.program:<24} {row.rate:>12,.0f} {mib:>7.0f} "
            f"{len(row.rounds):>7} {row.rates[0]:>12,.0f} {row.rates[-1]:>12,.0f}"
        )


def memory_table(held: Mapping[Kind, Held]) -> Iterator[str]:
    """Yield the memory of each kind of process, and the heap limit of JVMs."""
    yield ""
    yield "memory of the pinned job under load"
    yield (
        f"  {'processes':<29} {'count':>5} {'warm, MiB':>10} {'last, MiB':>10} {'-Xmx of each':>13}"
    )
    for kind, each in held.items():
        yield (
            f"  {kind:<29} {each.processes:>5} {each.first_mib:>10.0f} {each.last_mib:>10.0f} "
            f"{each.heap:>13}"
        )


def throughput(rows: Sequence[Row]) -> Iterator[Figure]:
    """Compare ours with its peers in each scene."""
    for mine in rows:
        if mine.program == programs.OURS:
            theirs = {row.program: row for row in rows if row.scene == mine.scene}
            for peer, limit in (
                (programs.CEILING, OF_CEILING),
                (clients.LITE_PULL.name, OF_LITE_PULL),
            ):
                name = f"{mine.scene} / {peer}"
                yield Figure(name, mine.rate, theirs[peer].rate, limit)


def compare_engines(
    rates: Mapping[JobEngine, float], costs: Mapping[JobEngine, float], rows: Sequence[Row]
) -> Iterator[Figure]:
    """Compare a flow with batches, and with RocketMQ's reader in the same cluster."""
    lite = next(
        row.rate for row in rows
        if row.program == clients.LITE_PULL.name and row.scene.master == pinned.MASTER
    )  # fmt: skip
    flow, batch = rates[JobEngine.FLOW], rates[JobEngine.BATCH]
    yield Figure("a backlog: flow / batches", flow, batch, FLOW_OF_BATCH)
    yield Figure(f"a backlog: flow / {clients.LITE_PULL.name}", flow, lite, FLOW_OF_LITE_PULL)
    name = f"processor for a message, {FEW.a_second} a second: flow / batches"
    cost = costs[JobEngine.FLOW], costs[JobEngine.BATCH]
    yield Figure(name, *cost, FLOW_COST, "ms", at_least=False)


def coordination(percent: float) -> Figure:
    """Compare what many tasks cost the driver of a flow with its target."""
    slots, queues = many_slots.SLOTS, many_slots.QUEUES
    name = f"a flow's driver, {slots} tasks with {queues:,} queues, CPU"
    return Figure(name, percent, None, COORDINATION_PERCENT, "%", at_least=False)


def planning(queues: int, seconds: Sequence[float]) -> Figure:
    """Compare the median batch with its target."""
    name = f"planning a batch, {queues:,} queues, median of {len(seconds)}"
    limit = PLANNING_SECONDS[queues]
    return Figure(name, statistics.median(seconds), None, limit, "s", at_least=False)


def adoption(seen: Sequence[Adoption]) -> Figure:
    """Compare the slowest adoption with its target."""
    name = f"batches that start with the old assignment, worst of {len(seen)} changes"
    late = max(each.late_batches for each in seen)
    return Figure(name, late, None, LATE_BATCHES, "batches", at_least=False)


def compare_idle(name: str, percent: float) -> Figure:
    """Compare the CPU usage of an idle application with its target."""
    return Figure(f"idle {name}, CPU", percent, None, IDLE_PERCENT, "%", at_least=False)


def memory(held: Mapping[Kind, Held], minutes: float) -> Iterator[Figure]:
    """Compare the memory of Python processes; a JVM uses whatever heap it has."""
    for kind, each in held.items():
        if not kind.is_jvm:
            name = f"memory after {minutes:g} minutes / after the warm-up, {kind}"
            yield Figure(name, each.last_mib, each.first_mib, MEMORY_RATIO, "MiB", at_least=False)


def format_page(command: str, body: Sequence[str], compared: Iterable[Figure]) -> str:
    """Make the results page, which is committed."""
    cluster, lite = pinned.MASTER, clients.LITE_PULL.name
    return page.format_page(
        "The data source and the pinned job in Spark",
        [*_list_versions(), f"`{command}`"],
        f"One broker on the same machine, 8 queues, bodies of {messages.BODY_BYTES:,} bytes.\n"
        "All data is in the page cache, and the broker's caps are raised. One query reads a\n"
        "whole topic with the columns of docs/spark.md; its planning is included.\n\n"
        f"- `{programs.CEILING}` is a Python source that reads from no broker and returns\n"
        f"  the same Arrow batch of {synthetic.A_BATCH:,} rows again and again: this is the\n"
        f"  most that Spark can process. `ours` must reach {OF_CEILING:.0%} of it; the ambition\n"
        f"  is {MOONSHOT:.0%}.\n"
        f"- {lite} only counts the messages that it receives.\n"
        "- `a backlog` is read by a new pinned job: with batches that drop their rows, or\n"
        "  by a flow whose function counts them. The second half of the topic counts.\n\n"
        "Programs take turns. Figures are medians of the rounds; warm-up rounds are dropped.\n"
        f"The pinned job runs in {cluster} with a batch every {pinned.TRIGGER_SECONDS} s\n"
        f"and drops its rows. The idle stream runs in {programs.LOCAL}. The CPU usage of an idle\n"
        "application includes all its processes, also the workers.",
        body,
        map(targets.format_cells, compared),
    )


def _list_versions() -> Iterator[str]:
    names = ("pyspark", "numpy", "pyarrow")
    libraries = [f"{name} {importlib.metadata.version(name)}" for name in names]
    yield f"Python {platform.python_version()}, {', '.join(libraries)}"
    java = page.ask_program(str(jars.find_java()), "-version")
    yield f"Java: {java}, executors {jobs.SPARK['spark.executor.memory']}"
    yield f"Broker: RocketMQ {rocketmq.VERSION}, {stage.HEAP}; peer: {peers.ROCKETMQ}"
