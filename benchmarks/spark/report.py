"""What was measured, as tables, as figures with their targets, and as a page."""

import importlib.metadata
import platform
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks import page, peers
from benchmarks.pull import messages, stage
from benchmarks.pull import programs as clients
from benchmarks.pull.programs import Rounds
from benchmarks.spark import pinned, programs
from benchmarks.spark.memory import Held
from benchmarks.spark.peers import synthetic
from benchmarks.spark.pinned import Adoption
from benchmarks.spark.processes import Kind
from benchmarks.targets import Figure
from sandbox import jars, jobs, rocketmq

OF_CEILING, OF_LITE_PULL = 0.4, 2
MOONSHOT = 0.6
PLANNING_SECONDS = {8: 0.2, 1000: 1.0}
IDLE_PERCENT = 5
LATE_BATCHES = 1
MEMORY_RATIO = 1.1


@dataclass(frozen=True, slots=True)
class Scene:
    """Where everybody does the same."""

    master: str
    sink: str

    def __str__(self) -> str:
        """Name it as `noop, local[2]`."""
        return f"{self.sink}, {self.master}"


@dataclass(frozen=True, slots=True)
class Row(Rounds):
    """What a program did in a scene."""

    scene: Scene
    program: str


def table(rows: Iterable[Row]) -> Iterator[str]:
    """All rows, one block a scene."""
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
    """What each kind of process held, and the limit of the JVMs' heaps."""
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
    """Compare ours with its peers, scene by scene."""
    for mine in rows:
        if mine.program == programs.OURS:
            theirs = {row.program: row for row in rows if row.scene == mine.scene}
            for peer, limit in (
                (programs.CEILING, OF_CEILING),
                (clients.LITE_PULL.name, OF_LITE_PULL),
            ):
                name = f"{mine.scene} / {peer}"
                yield Figure(name, mine.rate, theirs[peer].rate, limit)


def planning(queues: int, seconds: Sequence[float]) -> Figure:
    """Judge the median batch."""
    name = f"planning a batch, {queues:,} queues, median of {len(seconds)}"
    limit = PLANNING_SECONDS[queues]
    return Figure(name, statistics.median(seconds), None, limit, "s", at_least=False)


def adoption(seen: Sequence[Adoption]) -> Figure:
    """Judge the latest."""
    name = f"batches that still begin by the old assignment, most of {len(seen)} changes"
    late = max(each.late_batches for each in seen)
    return Figure(name, late, None, LATE_BATCHES, "batches", at_least=False)


def idle(name: str, percent: float) -> Figure:
    """Judge what an application costs that has nothing to do."""
    return Figure(f"idle, {name}, of one core", percent, None, IDLE_PERCENT, "%", at_least=False)


def memory(held: Mapping[Kind, Held], minutes: float) -> Iterator[Figure]:
    """Judge the Python processes; a JVM takes what it is given."""
    for kind, each in held.items():
        if not kind.is_jvm:
            name = f"memory after {minutes:g} minutes / after the warm-up, {kind}"
            yield Figure(name, each.last_mib, each.first_mib, MEMORY_RATIO, "MiB", at_least=False)


def text(command: str, body: Sequence[str]) -> str:
    """Write the page that is committed."""
    cluster, lite = pinned.MASTER, clients.LITE_PULL.name
    return page.text(
        "The data source and the pinned job in Spark",
        [*_versions(), f"`{command}`"],
        f"One broker on the same machine, bodies of {messages.BODY_BYTES:,} bytes on 8 queues,\n"
        "data in the page cache, the caps of pulls raised. One query reads all of a topic, with\n"
        f"the columns of docs/spark.md, its planning included. `{programs.CEILING}` is a source\n"
        "in Python that talks to nobody and gives the same Arrow batch of\n"
        f"{synthetic.A_BATCH:,} rows again and again: the most that Spark takes. {lite}\n"
        f"only counts what it receives. Ours is to come to {OF_CEILING:.0%} of the former, and\n"
        f"would like to come to {MOONSHOT:.0%}. Medians of rounds in turn; the first rounds of\n"
        "each are thrown away.\n"
        "\n"
        f"The pinned job runs in {cluster} with a batch every {pinned.TRIGGER_SECONDS} s\n"
        f"and drops its rows; the idle stream runs in {programs.LOCAL}.\n"
        "What is idle costs the time of all processes of its application, the workers too.",
        body,
    )


def _versions() -> Iterator[str]:
    names = ("pyspark", "numpy", "pyarrow")
    libraries = [f"{name} {importlib.metadata.version(name)}" for name in names]
    yield f"Python {platform.python_version()}, {', '.join(libraries)}"
    java = page.said(str(jars.java()), "-version")
    yield f"Java: {java}, executors {jobs.SPARK['spark.executor.memory']}"
    yield f"Broker: RocketMQ {rocketmq.VERSION}, {stage.HEAP}; peer: {peers.ROCKETMQ}"
