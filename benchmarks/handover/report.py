"""What was measured, as a table, as figures with their targets, and as a page."""

import importlib.metadata
import platform
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from benchmarks import page, peers
from benchmarks.handover import scene, sender, theirs
from benchmarks.handover.effects import Outcome
from benchmarks.targets import Figure
from sandbox import jars, rocketmq

JOIN_SECONDS = LEAVE_SECONDS = 3.0
KILL_SECONDS = 5.0
FREEZE_RATIO = 1 / 6


@dataclass(frozen=True, slots=True)
class Side:
    """All rounds of one side."""

    name: str
    rounds: Sequence[Outcome]

    def worst(self, event: str, what: str) -> float:
        """Tell the highest of a field of `Effect`."""
        return max(self._all(event, what))

    def median(self, event: str, what: str) -> float:
        """Tell the one in the middle."""
        return statistics.median(self._all(event, what))

    def all_in_all(self, what: str) -> float:
        """Tell the highest of a field of `Outcome`."""
        found: list[int] = [attrgetter(what)(each) for each in self.rounds]
        return max(found)

    def _all(self, event: str, what: str) -> list[float]:
        return [attrgetter(what)(each.effects[event]) for each in self.rounds]


def table(mine: Side, peer: Side | None) -> Iterator[str]:
    """A block an event, a row a side; then what became of all messages."""
    sides = [mine, peer] if peer else [mine]
    yield (
        f"{'':<24} {'duplicates':>10} {'queues moved':>13} {'standstill s':>13} {'worst':>7} "
        f"{'queue-seconds':>14} {'worst':>7}"
    )
    for event in scene.EVENTS:
        yield event
        for side in sides:
            still, total = (side.median(event, what) for what in ("standstill", "queue_seconds"))
            yield (
                f"  {side.name:<22} {side.worst(event, 'duplicates'):>10,} "
                f"{side.worst(event, 'moved'):>13,} "
                f"{still:>13.2f} {side.worst(event, 'standstill'):>7.2f} "
                f"{total:>14.1f} {side.worst(event, 'queue_seconds'):>7.1f}"
                f"{_beside(mine, peer, event) if side is mine else ''}"
            )
    yield ""
    for side in sides:
        for number, each in enumerate(side.rounds, start=1):
            yield (
                f"{side.name}, round {number}: sent {each.sent:,}, lost {each.lost:,}, "
                f"duplicated {each.duplicates:,}"
            )


def _beside(mine: Side, peer: Side | None, event: str) -> str:
    """Say who stood still for longer, by how much."""
    if peer is None:
        return ""
    ratio = mine.median(event, "standstill") / peer.median(event, "standstill")
    return f"  {ratio:.1f}x slower" if ratio > 1 else f"  {1 / ratio:.1f}x faster"


def figures(mine: Side, peer: Side | None) -> Iterator[Figure]:
    """Compare our worst with the targets."""
    for name, what in (("lost", "lost"), ("consumed twice", "duplicates")):
        yield _at_most(f"messages {name}", mine.all_in_all(what), 0, "")
    for event in (scene.KILL, scene.FREEZE):
        yield _at_most(f"queues moved, {event}", mine.worst(event, "moved"), 0, "")
    for event, limit in (
        (scene.JOIN, JOIN_SECONDS),
        (scene.LEAVE, LEAVE_SECONDS),
        (scene.KILL, KILL_SECONDS),
    ):
        yield _at_most(f"longest standstill, {event}", mine.worst(event, "standstill"), limit, "s")
    if peer:
        still = [side.worst(scene.FREEZE, "standstill") for side in (mine, peer)]
        name = f"longest standstill, {scene.FREEZE} / {peer.name}"
        yield Figure(name, still[0], still[1], FREEZE_RATIO, "s", at_least=False)


def _at_most(name: str, value: float, limit: float, unit: str) -> Figure:
    return Figure(name, value, None, limit, unit, at_least=False)


def text(command: str, body: Sequence[str]) -> str:
    """Write the page that is committed."""
    return page.text(
        "How queues are handed over, beside RocketMQ's own consumers",
        [*_versions(), f"`{command}`"],
        f"{sender.A_SECOND} messages a second over {scene.QUEUES} queues of one broker on the\n"
        f"same machine, shared by {scene.CONSUMERS} consumers at first. Both sides have the same\n"
        "events, one after the other. Ours: a pinned job with executors in `local-cluster`, a\n"
        "batch a second, a sink of files; messages are consumed when their batch is complete.\n"
        f"Theirs: {theirs.NAME}, clustering, settings and averaging as they come;\n"
        "messages are consumed when the listener gets them. A standstill is the longest time\n"
        "between two moments at which messages of one queue were consumed; it counts for the\n"
        "event in which it ended. A new queue stands still from the begin of its event on.\n"
        "Queue-seconds: the longest standstill of each queue, added up. A consumer that replaces\n"
        "a killed one has its seat; a queue has moved when it is in another seat after the event.\n"
        "Where there are several rounds: the median, and the worst.",
        body,
    )


def _versions() -> Iterator[str]:
    yield f"Python {platform.python_version()}, pyspark {importlib.metadata.version('pyspark')}"
    java = page.said(str(jars.java()), "-version")
    yield f"Java: {java}, heap {theirs.HEAP}; broker: RocketMQ {rocketmq.VERSION}"
    yield f"Peer: {peers.ROCKETMQ}"
