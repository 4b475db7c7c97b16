"""Formats the results as a table, as figures with their targets, and as a page."""

import platform
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from benchmarks import page, peers, targets
from benchmarks.handover import ours, scene, sender
from benchmarks.handover.effects import Outcome
from benchmarks.targets import Figure
from sandbox import kubernetes, rocketmq

PLANNED_SECONDS = 3.0
KILL_SECONDS = 5.0
DRIVER_SECONDS = 60.0
HANG_RATIO = 1 / 6
FEWEST_MOVES = {scene.JOIN: 2, scene.LEAVE: 2}
"""The fewest possible moves of eight queues when two consumers become three, or the reverse."""


@dataclass(frozen=True, slots=True)
class Side:
    """All rounds of one side."""

    name: str
    rounds: Sequence[Outcome]

    def list_events(self) -> Sequence[str]:
        """List the events of the rounds."""
        return list(self.rounds[0].effects)

    def worst(self, event: str, what: str) -> float:
        """Return the highest value of a field of `Effect`."""
        return max(self._list_all(event, what))

    def median(self, event: str, what: str) -> float:
        """Return the median of a field of `Effect`."""
        return statistics.median(self._list_all(event, what))

    def find_takeover(self, event: str) -> str:
        """Return the longest time until new readers had taken over, or `-` if there were none."""
        found = [each.effects[event].taken_up for each in self.rounds]
        times = [seconds for seconds in found if seconds is not None]
        return f"{max(times):.1f}" if times else "-"

    def find_highest(self, what: str) -> float:
        """Return the highest value of a field of `Outcome`."""
        found: list[int] = [attrgetter(what)(each) for each in self.rounds]
        return max(found)

    def _list_all(self, event: str, what: str) -> list[float]:
        return [attrgetter(what)(each.effects[event]) for each in self.rounds]


def make_table(mine: Side, peer: Side | None) -> Iterator[str]:
    """Yield a block per event with a row per side; then the totals of all messages."""
    sides = [mine, peer] if peer else [mine]
    yield (
        f"{'':<24} {'read':>7} {'queues':>7} {'longest gap, s':>16} {'queue-seconds':>15} "
        f"{'backlog':>8} {'taken':>7}"
    )
    yield (
        f"{'':<24} {'twice':>7} {'moved':>7} {'median':>8} {'worst':>7} {'median':>7} "
        f"{'worst':>7} {'':>8} {'over, s':>7}"
    )
    for event in mine.list_events():
        yield f"{event}{_compare(mine, peer, event)}"
        for side in sides:
            if event in side.list_events():
                yield f"  {side.name:<22} {_make_row(side, event)}"
    yield ""
    for side in sides:
        for number, each in enumerate(side.rounds, start=1):
            yield (
                f"{side.name}, round {number}: sent {each.sent:,}, lost {each.lost:,}, "
                f"duplicated {each.duplicates:,}"
            )


def _make_row(side: Side, event: str) -> str:
    still, total = (side.median(event, what) for what in ("standstill", "queue_seconds"))
    return (
        f"{side.worst(event, 'duplicates'):>7,} {side.worst(event, 'moved'):>7,} "
        f"{still:>8.2f} {side.worst(event, 'standstill'):>7.2f} "
        f"{total:>7.1f} {side.worst(event, 'queue_seconds'):>7.1f} "
        f"{side.worst(event, 'backlog'):>8,} {side.find_takeover(event):>7}"
    )


def _compare(mine: Side, peer: Side | None, event: str) -> str:
    """Say how our longest gap compares with the peer's."""
    if peer is None or event not in peer.list_events():
        return ""
    ratio = mine.median(event, "standstill") / peer.median(event, "standstill")
    compared = f"{ratio:.1f}x slower" if ratio > 1 else f"{1 / ratio:.1f}x faster"
    return f" ({mine.name} {compared})"


def list_figures(mine: Side, peer: Side | None) -> Iterator[Figure]:
    """Compare our worst values with the targets."""
    for name, what in (("lost", "lost"), ("read twice", "duplicates")):
        yield _limit(f"messages {name}", mine.find_highest(what), 0, "")
    for event in (scene.KILL, scene.FREEZE, scene.CUT, scene.BROKER, ours.DRIVER):
        yield _limit(f"queues moved, {event}", mine.worst(event, "moved"), 0, "")
    for event, fewest in FEWEST_MOVES.items():
        yield _limit(f"queues moved, {event}", mine.worst(event, "moved"), fewest, "")
    for event, limit in (
        (scene.JOIN, PLANNED_SECONDS),
        (scene.LEAVE, PLANNED_SECONDS),
        (scene.ADD, PLANNED_SECONDS),
        (scene.KILL, KILL_SECONDS),
        (ours.DRIVER, DRIVER_SECONDS),
    ):
        yield _limit(f"longest gap, {event}", mine.worst(event, "standstill"), limit, "s")
    if peer:
        for event in (scene.FREEZE, scene.CUT):
            still = [side.worst(event, "standstill") for side in (mine, peer)]
            name = f"longest gap, {event} / {peer.name}"
            yield Figure(name, still[0], still[1], HANG_RATIO, "s", at_least=False)


def _limit(name: str, value: float, limit: float, unit: str) -> Figure:
    return Figure(name, value, None, limit, unit, at_least=False)


def format_page(command: str, body: Sequence[str], compared: Iterable[Figure]) -> str:
    """Make the results page, which is committed."""
    queues = scene.BROKERS_COUNT * scene.QUEUES
    return page.format_page(
        "Handing over queues, compared with RocketMQ's own consumers",
        [*_list_versions(), f"`{command}`"],
        "Both sides run as pods on one Kubernetes node, next to the brokers; the machine does\n"
        f"nothing else. A sender sends {sender.A_SECOND} messages per second to {queues}\n"
        f"queues of {scene.BROKERS_COUNT} brokers. At first {scene.CONSUMERS} consumers share\n"
        "the queues. Both sides play the same events, one after the other, on brokers that\n"
        "start empty.\n\n"
        "- Evenkeel: a ConsumerGroup with a job, trigger 1 s, and a file sink. A message\n"
        "  counts as read when its batch is complete.\n"
        "- RocketMQ: DefaultMQPushConsumer in the pods of a StatefulSet, in clustering mode, with\n"
        "  default settings and the default strategy. A message counts as read when the listener\n"
        "  receives it.\n\n"
        "Columns and events:\n\n"
        "- Longest gap: the longest time between two reads of one queue. It counts for the event\n"
        "  in which it ends. For a new queue it starts with the event.\n"
        "- Queue-seconds: the sum of the longest gaps of all queues.\n"
        "- Backlog: the highest number of messages sent but not read.\n"
        "- Queues moved: queues that belong to another consumer after the event. A process that\n"
        "  replaces a killed one takes its place in the group, so its queues do not move.\n"
        "- Taken over: time until each queue with a new process was read by that process.\n"
        "- Frozen: no process of the pod runs. Cut off: all packets of the pod are dropped\n"
        "  silently. Both last until other consumers read the pod's queues and, for Evenkeel,\n"
        f"  until the executor is replaced. The driver is cut off for {ours.CUT_SECONDS:g} s.\n"
        "- With several rounds, gaps and queue-seconds are shown for the median and the worst\n"
        "  round, all other columns for the worst round.",
        body,
        map(targets.format_cells, compared),
    )


def _list_versions() -> Iterator[str]:
    yield f"Kubernetes {kubernetes.VERSION}, one node; Python {platform.python_version()}"
    yield f"Brokers: RocketMQ {rocketmq.VERSION}"
    yield f"Peer: {peers.ROCKETMQ}, heap 128 MiB"
