"""What was measured, as a table, as figures with their targets, and as a page."""

import platform
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from benchmarks import page, peers
from benchmarks.handover import ours, scene, sender
from benchmarks.handover.effects import Outcome
from benchmarks.targets import Figure
from sandbox import kubernetes, rocketmq

PLANNED_SECONDS = 3.0
KILL_SECONDS = 5.0
DRIVER_SECONDS = 60.0
HANG_RATIO = 1 / 6
FEWEST_MOVES = {scene.JOIN: 2, scene.LEAVE: 2}
"""Eight queues of two consumers, of three, and of two again."""


@dataclass(frozen=True, slots=True)
class Side:
    """All rounds of one side."""

    name: str
    rounds: Sequence[Outcome]

    def events(self) -> Sequence[str]:
        """List what happened to it."""
        return list(self.rounds[0].effects)

    def worst(self, event: str, what: str) -> float:
        """Tell the highest of a field of `Effect`."""
        return max(self._all(event, what))

    def median(self, event: str, what: str) -> float:
        """Tell the one in the middle."""
        return statistics.median(self._all(event, what))

    def taken_up(self, event: str) -> str:
        """Tell the highest time until new readers had read, if there were any."""
        found = [each.effects[event].taken_up for each in self.rounds]
        times = [seconds for seconds in found if seconds is not None]
        return f"{max(times):.1f}" if times else "-"

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
        f"{'':<24} {'duplicates':>10} {'queues':>7} {'standstill':>11} {'worst':>7} "
        f"{'queue-':>8} {'worst':>7} {'backlog':>8} {'taken up':>9}"
    )
    yield (
        f"{'':<24} {'':>10} {'moved':>7} {'s':>11} {'':>7} "
        f"{'seconds':>8} {'':>7} {'':>8} {'after s':>9}"
    )
    for event in mine.events():
        yield event
        for side in sides:
            if event in side.events():
                yield f"  {side.name:<22} {_row(side, event)}{_beside(mine, peer, side, event)}"
    yield ""
    for side in sides:
        for number, each in enumerate(side.rounds, start=1):
            yield (
                f"{side.name}, round {number}: sent {each.sent:,}, lost {each.lost:,}, "
                f"duplicated {each.duplicates:,}"
            )


def _row(side: Side, event: str) -> str:
    still, total = (side.median(event, what) for what in ("standstill", "queue_seconds"))
    return (
        f"{side.worst(event, 'duplicates'):>10,} {side.worst(event, 'moved'):>7,} "
        f"{still:>11.2f} {side.worst(event, 'standstill'):>7.2f} "
        f"{total:>8.1f} {side.worst(event, 'queue_seconds'):>7.1f} "
        f"{side.worst(event, 'backlog'):>8,} {side.taken_up(event):>9}"
    )


def _beside(mine: Side, peer: Side | None, side: Side, event: str) -> str:
    """Say who stood still for longer, by how much."""
    if peer is None or side is peer or event not in peer.events():
        return ""
    ratio = mine.median(event, "standstill") / peer.median(event, "standstill")
    return f"  {ratio:.1f}x slower" if ratio > 1 else f"  {1 / ratio:.1f}x faster"


def figures(mine: Side, peer: Side | None) -> Iterator[Figure]:
    """Compare our worst with the targets."""
    for name, what in (("lost", "lost"), ("consumed twice", "duplicates")):
        yield _at_most(f"messages {name}", mine.all_in_all(what), 0, "")
    for event in (scene.KILL, scene.FREEZE, scene.CUT, scene.BROKER, ours.DRIVER):
        yield _at_most(f"queues moved, {event}", mine.worst(event, "moved"), 0, "")
    for event, fewest in FEWEST_MOVES.items():
        yield _at_most(f"queues moved, {event}", mine.worst(event, "moved"), fewest, "")
    for event, limit in (
        (scene.JOIN, PLANNED_SECONDS),
        (scene.LEAVE, PLANNED_SECONDS),
        (scene.ADD, PLANNED_SECONDS),
        (scene.KILL, KILL_SECONDS),
        (ours.DRIVER, DRIVER_SECONDS),
    ):
        yield _at_most(f"longest standstill, {event}", mine.worst(event, "standstill"), limit, "s")
    if peer:
        for event in (scene.FREEZE, scene.CUT):
            still = [side.worst(event, "standstill") for side in (mine, peer)]
            name = f"longest standstill, {event} / {peer.name}"
            yield Figure(name, still[0], still[1], HANG_RATIO, "s", at_least=False)


def _at_most(name: str, value: float, limit: float, unit: str) -> Figure:
    return Figure(name, value, None, limit, unit, at_least=False)


def text(command: str, body: Sequence[str]) -> str:
    """Write the page that is committed."""
    queues = scene.BROKERS_COUNT * scene.QUEUES
    return page.text(
        "How queues are handed over, beside RocketMQ's own consumers",
        [*_versions(), f"`{command}`"],
        "Both sides are pods of one Kubernetes node, with the brokers beside them; the machine\n"
        f"has nothing else. {sender.A_SECOND} messages a second over {queues} queues of\n"
        f"{scene.BROKERS_COUNT} brokers, shared by {scene.CONSUMERS} consumers at first. Both\n"
        "have the same events, one after the other, on brokers that begin empty: neither side\n"
        "pays for what the other has sent, nor for a broker that was killed before. Ours: a\n"
        "ConsumerGroup with a job, trigger 1 s, a sink of files; messages are consumed when their\n"
        "batch is complete. Theirs: RocketMQ's DefaultMQPushConsumer in pods of a StatefulSet,\n"
        "clustering, settings and averaging as they come; messages are consumed when the listener\n"
        "gets them.\n\n"
        "- Standstill: the longest time between two moments at which messages of one queue were\n"
        "  consumed; it counts for the event in which it ended. A new queue stands still from the\n"
        "  begin of its event on. Queue-seconds: the longest standstill of each queue, added up.\n"
        "- Backlog: messages sent and not consumed, at most.\n"
        "- Taken up: when every queue that got another process as its reader was read by it. One\n"
        "  that replaces a killed process takes its place in the group, so its queues are taken\n"
        "  up and have not moved: a queue has moved when another place has it after the event.\n"
        "- Frozen: no process of the pod runs. Cut off: all packets of the pod are dropped, and\n"
        "  nobody is told. Either lasts until its queues are consumed by others, and ours until\n"
        f"  it is replaced as well; the driver is cut off for {ours.CUT_SECONDS:g} s.\n"
        "- Where there are several rounds: the median, and the worst; of duplicates, moves,\n"
        "  backlog and taking up the worst.",
        body,
    )


def _versions() -> Iterator[str]:
    yield f"Kubernetes {kubernetes.VERSION}, one node; Python {platform.python_version()}"
    yield f"Brokers: RocketMQ {rocketmq.VERSION}"
    yield f"Peer: {peers.ROCKETMQ}, heap 128 MiB"
