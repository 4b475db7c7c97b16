"""What was measured, as a table, as figures with their targets, and as a page."""

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
    """One measurement. Without `ms` a run took over `over` milliseconds and was stopped."""

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
    """What we promise, beside what was seen. `peer` may be a lower bound of the truth."""

    name: str
    ours: float
    peer: float | None
    limit: float
    strict: bool
    peer_is_bound: bool = False
    unit: str = "ms"

    @property
    def value(self) -> float:
        """What the limit is compared with: a ratio where there is a peer."""
        return self.ours if self.peer is None else self.ours / self.peer

    @property
    def is_ok(self) -> bool:
        """Whether the promise holds."""
        return self.value < self.limit if self.strict else self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Rival:
    """A peer, and how many times its time ours may take."""

    ours: Program
    peer: Program
    limit: float = 1
    strict: bool = True
    limit_of_full: float | None = None
    """Another limit for the event FULL; it may be reached."""


RIVALS = (
    Rival(programs.STICKY, programs.UNIFORM, limit=3, strict=False),
    Rival(programs.STICKY, programs.COOPERATIVE, limit_of_full=2),
    Rival(programs.STICKY, programs.FRANZ_GO),
    Rival(programs.STICKY, programs.KAFKA_PYTHON),
    Rival(programs.AVG, programs.ROCKETMQ_AVG),
    Rival(programs.CIRCLE, programs.ROCKETMQ_CIRCLE),
    Rival(programs.HASH, programs.ROCKETMQ_HASH),
)


def table(rows: Iterable[Row]) -> Iterator[str]:
    """All rows, one block a size."""
    size = None
    for row in sorted(rows, key=lambda row: scenarios.SIZES.index(row.size)):
        if row.size != size:
            size = row.size
            yield ""
            yield f"{size.consumers:,} consumers x {size.queues:,} queues x {size.topics} topics"
            yield (
                f"  {'program':<26} {'event':<25} {'median ms':>10} {'runs':>4} "
                f"{'moved':>8} {'min load':>8} {'max load':>8}"
            )
        if row.ms is None:
            yield f"  {row.program:<26} {row.event:<25} {f'>{row.over:.0f}':>10}"
        else:
            yield (
                f"  {row.program:<26} {row.event:<25} {row.ms:>10.2f} {row.runs:>4} "
                f"{row.moved:>8,} {row.low:>8,} {row.high:>8,}"
            )


def figures(rows: Sequence[Row], memory_mib: float | None) -> Iterator[Figure]:
    """Compare each of our rows with each rival's, from 1,000 consumers on."""
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


def lines(figures: Iterable[Figure]) -> Iterator[str]:
    """One line a figure: name, ours, peer, ratio, target, ok or short."""
    for figure in figures:
        bound = figure.peer_is_bound
        peer = "-" if figure.peer is None else f"{'>' if bound else ''}{figure.peer:.2f} ms"
        ratio = "-" if figure.peer is None else f"{'<' if bound else ''}{figure.value:.3f}"
        unit = f" {figure.unit}" if figure.peer is None else ""
        target = f"{'<' if figure.strict else '<='} {figure.limit:g}{unit}"
        yield (
            f"{figure.name:<78} {f'{figure.ours:.2f} {figure.unit}':>12} {peer:>13} {ratio:>8} "
            f"{target:>9}  {'ok' if figure.is_ok else 'short'}"
        )


def text(command: str, body: Sequence[str]) -> str:
    """The page that is committed."""
    return page.text(
        "The allocation engine beside its peers",
        [*_versions(), f"`{command}`"],
        "Times are medians of whole-group plans; `scenarios.py` says what each event is.\n"
        "*Moved* counts queues that had an owner and now have another, or none.\n\n"
        "On pages of their own: [the client](RESULTS-pull.md), [Spark](RESULTS-spark.md),\n"
        "[the hand-over](RESULTS-handover.md), [the operator](RESULTS-operator.md).",
        body,
    )


def _versions() -> Iterator[str]:
    yield f"Python {platform.python_version()}"
    yield f"Java: {page.said(str(jars.java()), '-version')}, heap {programs.HEAP}"
    yield f"Go: {page.said(go.toolchain(), 'version')}"
    module = Path(__file__).parent / "peers" / "franz_go" / "go.mod"
    versions = re.findall(r"twmb/franz-go v(\S+)", module.read_text(encoding="utf-8"))
    yield (
        f"Peers: {peers.ROCKETMQ}, {programs.KAFKA}, franz-go {versions[0]}, "
        f"kafka-python {importlib.metadata.version('kafka-python')}"
    )
