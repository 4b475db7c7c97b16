"""Formats the results as a table, as figures with their targets, and as a page."""

import importlib.metadata
import platform
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import page, peers
from benchmarks.alloc import programs, scenarios
from benchmarks.alloc.programs import Program
from benchmarks.alloc.scenarios import MIDDLE, Size
from sandbox import go, jars

MEMORY_MIB = 500
STATUS_MS = 200


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement. If `ms` is None, a run took over `over` milliseconds and was stopped."""

    program: str
    size: Size
    event: str
    ms: float | None
    over: float = 0
    runs: int = 0
    moved: int = 0
    low: int = 0
    high: int = 0


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure and its target. `peer` may be a lower bound of the true value."""

    name: str
    ours: float
    peer: float | None
    limit: float
    strict: bool
    peer_is_bound: bool = False
    unit: str = "ms"

    @property
    def value(self) -> float:
        """The value to compare with the limit: a ratio if there is a peer."""
        return self.ours if self.peer is None else self.ours / self.peer

    @property
    def is_ok(self) -> bool:
        """Whether the target is met."""
        return self.value < self.limit if self.strict else self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Rival:
    """A peer, and the limit of our time as a multiple of the peer's time."""

    ours: Program
    peer: Program
    limit: float = 1
    strict: bool = True
    limit_of_full: float | None = None
    """The limit for the event FULL. A ratio that equals the limit meets the target."""


RIVALS = (
    Rival(programs.STICKY, programs.UNIFORM, limit=3, strict=False),
    Rival(programs.STICKY, programs.COOPERATIVE, limit_of_full=2),
    Rival(programs.STICKY, programs.FRANZ_GO),
    Rival(programs.STICKY, programs.KAFKA_PYTHON),
    Rival(programs.AVG, programs.ROCKETMQ_AVG),
    Rival(programs.CIRCLE, programs.ROCKETMQ_CIRCLE),
    Rival(programs.HASH, programs.ROCKETMQ_HASH),
)


def make_table(rows: Iterable[Row]) -> Iterator[str]:
    """Yield all rows, one block per size."""
    size = None
    for row in sorted(rows, key=lambda row: scenarios.SIZES.index(row.size)):
        if row.size != size:
            size = row.size
            yield ""
            yield f"{size.consumers:,} consumers x {size.queues:,} queues x {size.topics} topics"
            yield (
                f"  {'program':<24} {'event':<23} {'median ms':>9} {'runs':>4} "
                f"{'moved':>8} {'min load':>8} {'max load':>8}"
            )
        if row.ms is None:
            yield f"  {row.program:<24} {row.event:<23} {f'>{row.over:.0f}':>9}"
        else:
            yield (
                f"  {row.program:<24} {row.event:<23} {row.ms:>9.2f} {row.runs:>4} "
                f"{row.moved:>8,} {row.low:>8,} {row.high:>8,}"
            )


def list_figures(rows: Sequence[Row], memory_mib: float | None) -> Iterator[Figure]:
    """Compare our rows with those of each rival, for groups of 10,000 queues or more."""
    found = {(row.program, row.size, row.event): row for row in rows}
    for rival in RIVALS:
        for mine in rows:
            theirs = found.get((rival.peer.name, mine.size, mine.event))
            if mine.program == rival.ours.name and theirs and mine.size.queues >= MIDDLE.queues:
                yield _compare(rival, mine, theirs)
    for mine in rows:
        if mine.program == programs.STATUS.name and mine.ms is not None:
            name = f"from status text to status text, {mine.size} {mine.event}"
            yield Figure(name, mine.ms, None, STATUS_MS, strict=True)
    if memory_mib is not None:
        name = f"peak memory of STICKY, {scenarios.HUGE} FULL and {scenarios.JOIN_ONE}"
        yield Figure(name, memory_mib, None, MEMORY_MIB, strict=True, unit="MiB")


def _compare(rival: Rival, mine: Row, theirs: Row) -> Figure:
    other = mine.event == scenarios.FULL and rival.limit_of_full
    return Figure(
        f"{rival.ours.name} / {rival.peer.name}, {mine.size} {mine.event}",
        mine.over if mine.ms is None else mine.ms,
        theirs.over if theirs.ms is None else theirs.ms,
        other or rival.limit,
        strict=rival.strict and not other,
        peer_is_bound=theirs.ms is None,
    )


def format_lines(figures: Iterable[Figure]) -> Iterator[str]:
    """Yield a line per figure for the terminal: name, ours, peer, ratio, target, ok or missed."""
    for name, ours, peer, ratio, target, result in map(format_cells, figures):
        yield f"{name:<78} {ours:>12} {peer:>13} {ratio:>8} {target:>9}  {result}"


def format_cells(figure: Figure) -> tuple[str, str, str, str, str, str]:
    """Return the cells of a row: name, ours, peer, ratio, target, and ok or missed."""
    bound = figure.peer_is_bound
    unit = f" {figure.unit}" if figure.peer is None else ""
    return (
        figure.name,
        f"{figure.ours:.2f} {figure.unit}",
        "-" if figure.peer is None else f"{'>' if bound else ''}{figure.peer:.2f} ms",
        "-" if figure.peer is None else f"{'<' if bound else ''}{figure.value:.3f}",
        f"{'<' if figure.strict else '<='} {figure.limit:g}{unit}",
        "ok" if figure.is_ok else "missed",
    )


def format_page(command: str, body: Sequence[str], compared: Iterable[Figure]) -> str:
    """Make the results page, which is committed."""
    return page.format_page(
        "The allocation engine compared with its peers",
        [*_list_versions(), f"`{command}`"],
        "Times are medians; each run plans the whole group. `scenarios.py` defines the events.\n"
        "*Moved* counts queues that had an owner and now have another owner or none.\n\n"
        "Further results: [the client](RESULTS-pull.md), [Spark](RESULTS-spark.md),\n"
        "[the handover](RESULTS-handover.md), [the operator](RESULTS-operator.md),\n"
        "[resource usage](RESULTS-footprint.md).",
        body,
        map(format_cells, compared),
    )


def _list_versions() -> Iterator[str]:
    yield f"Python {platform.python_version()}"
    yield f"Java: {page.ask_program(str(jars.find_java()), '-version')}, heap {programs.HEAP}"
    yield f"Go: {page.ask_program(go.find_toolchain(), 'version')}"
    module = Path(__file__).parent / "peers" / "franz_go" / "go.mod"
    versions = re.findall(r"twmb/franz-go v(\S+)", module.read_text(encoding="utf-8"))
    yield (
        f"Peers: {peers.ROCKETMQ}, {programs.KAFKA}, franz-go {versions[0]}, "
        f"kafka-python {importlib.metadata.version('kafka-python')}"
    )
