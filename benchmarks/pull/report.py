"""Formats the results as a table, as figures with their targets, and as a page."""

import importlib.metadata
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks import page, peers, targets
from benchmarks.pull import following, messages, ours, programs, stage
from benchmarks.pull.programs import Measured, Program, Rounds
from benchmarks.targets import Figure
from mq_client import pulling
from sandbox import jars, rocketmq

DECODED_A_SECOND = 1_000_000
CPU_RATIO = 0.25
MEMORY_RATIO = 1.1
JAVA_PULLERS = (programs.RAW_PULL, programs.LITE_PULL)


@dataclass(frozen=True, slots=True)
class Scene:
    """Conditions that are the same for all programs."""

    work: str
    queues: int
    is_raised: bool

    def __str__(self) -> str:
        """Name the scene, for example `pull, 8 queues, caps raised`."""
        if self.work == ours.SEND:
            return f"send in batches of {messages.A_BATCH}"
        queues = "1 queue" if self.queues == 1 else f"{self.queues} queues"
        return f"{self.work}, {queues}, caps {'raised' if self.is_raised else 'default'}"


@dataclass(frozen=True, slots=True)
class Row(Rounds):
    """The result of one program in one scene."""

    scene: Scene
    program: Program


def make_table(rows: Iterable[Row]) -> Iterator[str]:
    """Yield all rows, one block per scene."""
    scene = None
    for row in rows:
        if row.scene != scene:
            scene = row.scene
            yield ""
            yield str(scene)
            yield (
                f"  {'program':<24} {'messages/s':>12} {'MiB/s':>6} {'CPU us':>7} "
                f"{'rounds':>7} {'slowest/s':>11} {'fastest/s':>11}"
            )
        mib = row.rate * messages.BODY_BYTES / 2**20
        yield (
            f"  {row.program.name:<24} {row.rate:>12,.0f} {mib:>6.0f} {row.cpu_us:>7.2f} "
            f"{len(row.rounds):>7} {row.rates[0]:>11,.0f} {row.rates[-1]:>11,.0f}"
        )


def list_figures(rows: Sequence[Row]) -> Iterator[Figure]:
    """Compare each of our rows with its targets."""
    for mine in rows:
        if mine.program in (programs.OURS, programs.FOLLOWER):
            theirs = {row.program: row for row in rows if row.scene == mine.scene}
            yield from _compare(mine, theirs)


def _compare(mine: Row, theirs: Mapping[Program, Row]) -> Iterator[Figure]:
    scene = mine.scene
    if scene.work == ours.DECODE and scene.is_raised:
        yield Figure(f"{scene}, per second of one core", 1e6 / mine.cpu_us, None, DECODED_A_SECOND)
    if scene.work == following.HANDLE:
        peer = theirs[programs.PUSH]
        yield _rate(mine, peer, 1)
        yield _cpu(mine, peer, 1)
    if scene.work == ours.SEND:
        yield _rate(mine, theirs[programs.BATCH_SEND], 1)
    if scene.work == ours.PULL:
        if scene.is_raised:
            yield _rate(mine, theirs[programs.CEILING], 0.75)
        yield _rate(mine, theirs[programs.RAW_PULL], 1.5 if scene.is_raised else 1)
        yield _rate(mine, theirs[programs.LITE_PULL], 3 if scene.is_raised else 1)
        for peer in (theirs[each] for each in JAVA_PULLERS):
            yield _cpu(mine, peer, CPU_RATIO)


def _rate(mine: Row, theirs: Row, limit: float) -> Figure:
    return Figure(f"{mine.scene} / {theirs.program.name}", mine.rate, theirs.rate, limit)


def _cpu(mine: Row, theirs: Row, limit: float) -> Figure:
    name = f"CPU per message, {mine.scene} / {theirs.program.name}"
    return Figure(name, mine.cpu_us, theirs.cpu_us, limit, "us", at_least=False)


def memory(minutes: float, first: Sequence[Measured], last: Sequence[Measured]) -> Figure:
    """Compare peak memory at the end of a long pull with peak memory after its warm-up."""
    name = f"memory after pulling for {minutes:g} minutes / after the warm-up"
    now, before = (max(each.rss_mib for each in rounds) for rounds in (last, first))
    return Figure(name, now, before, MEMORY_RATIO, "MiB", at_least=False)


def format_page(command: str, body: Sequence[str], compared: Iterable[Figure]) -> str:
    """Make the results page, which is committed."""
    return page.format_page(
        "The RocketMQ client compared with its peers",
        [*_list_versions(), f"`{command}`"],
        f"One broker on the same machine. Bodies have {messages.BODY_BYTES:,} bytes; all data\n"
        f"is in the page cache. Every client requests {pulling.MOST_MESSAGES:,} messages per\n"
        f"pull, with one pull in flight per queue; only {programs.LITE_PULL.name}\n"
        "decides itself how much it prefetches. By default the broker returns 32 messages per\n"
        "pull; with raised caps, as many as requested. `ours` converts messages to Arrow columns,\n"
        f"and sends with {messages.IN_FLIGHT} batches in flight; {programs.BATCH_SEND.name} sends\n"
        "with one.\n"
        "`frames only` is a socket that receives frames and decodes nothing. `handle` is an empty\n"
        f"handler of `follower` and an empty orderly listener of {programs.PUSH.name},\n"
        "both with their defaults, from start to the last message; `handle-columns` gets Arrow\n"
        "columns of up to 4,096 messages. `CPU us` is the client's CPU time per message.\n\n"
        "Programs take turns. Figures are medians of the rounds; warm-up rounds are dropped.",
        body,
        map(targets.format_cells, compared),
    )


def _list_versions() -> Iterator[str]:
    libraries = [f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "pyarrow")]
    yield f"Python {platform.python_version()}, {', '.join(libraries)}"
    java = page.ask_program(str(jars.find_java()), "-version")
    yield f"Java: {java}, heap {programs.HEAP}; broker: RocketMQ {rocketmq.VERSION}, {stage.HEAP}"
    yield f"Peers: {peers.ROCKETMQ}, and a socket that only receives"
