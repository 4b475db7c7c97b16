"""Formats the results as tables and as a page."""

import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from benchmarks import page, peers, targets
from benchmarks.handover import job, scene, sender
from benchmarks.handover.rounds import Rounds
from benchmarks.handover.sides import SIDES
from benchmarks.targets import Figure
from sandbox import kubernetes, rocketmq

_STANDSTILL, _SECONDS, _DELAY = map(attrgetter, ("standstill", "queue_seconds", "delay"))


def make_tables(played: Mapping[str, Rounds]) -> Iterator[str]:
    """Yield a table with a column per side, one with all measurements, and the totals."""
    sides = list(played.values())
    events = list(dict.fromkeys(event for side in sides for event in side.list_events()))
    yield from _make_overview(sides, events)
    yield ""
    yield (
        f"{'':<24} {'read':>7} {'queues':>7} {'longest gap, s':>16} {'queue-seconds':>15} "
        f"{'backlog':>8} {'taken':>7} {'until':>7}"
    )
    yield (
        f"{'':<24} {'twice':>7} {'moved':>7} {'median':>8} {'worst':>7} {'median':>7} "
        f"{'worst':>7} {'':>8} {'over, s':>7} {'read, s':>7}"
    )
    for event in events:
        yield event
        for side in sides:
            if event in side.list_events():
                yield f"  {side.name:<22} {_make_row(side, event)}"
    yield ""
    for side in sides:
        for number, each in enumerate(side.outcomes, start=1):
            yield (
                f"{side.name}, round {number}: sent {each.sent:,}, lost {each.lost:,}, "
                f"duplicated {each.duplicates:,}"
            )


def _make_overview(sides: Sequence[Rounds], events: Iterable[str]) -> Iterator[str]:
    """Yield the longest gap of each event, in the worst round."""
    yield f"{'longest gap, s':<24}{''.join(f' {side.name:>22}' for side in sides)}"
    for event in events:
        yield f"{event:<24}{''.join(f' {_find_gap(side, event):>22}' for side in sides)}"


def _find_gap(side: Rounds, event: str) -> str:
    return f"{side.worst(event, _STANDSTILL):.2f}" if event in side.list_events() else "-"


def _make_row(side: Rounds, event: str) -> str:
    still, total = (side.median(event, what) for what in (_STANDSTILL, _SECONDS))
    twice, moved, backlog = (
        side.worst(event, attrgetter(what)) for what in ("duplicates", "moved", "backlog")
    )
    taken = _format(side.find_worst(event, attrgetter("taken_up")), 1)
    return (
        f"{twice:>7,} {moved:>7,} {still:>8.2f} {side.worst(event, _STANDSTILL):>7.2f} "
        f"{total:>7.1f} {side.worst(event, _SECONDS):>7.1f} "
        f"{backlog:>8,} {taken:>7} {_format(side.find_worst(event, _DELAY), 3):>7}"
    )


def _format(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def format_page(
    command: str, played: Iterable[str], body: Sequence[str], compared: Iterable[Figure]
) -> str:
    """Make the results page, which is committed."""
    queues = scene.BROKERS_COUNT * scene.QUEUES
    return page.format_page(
        "Handing over queues, compared with RocketMQ's own consumers",
        [*_list_versions(), f"`{command}`"],
        "All sides run as pods on one Kubernetes node, next to the brokers; the machine does\n"
        f"nothing else. A sender sends {sender.A_SECOND} messages per second to {queues}\n"
        f"queues of {scene.BROKERS_COUNT} brokers. At first {scene.CONSUMERS} consumers share\n"
        "the queues. All sides play the same events, one after the other, on brokers that\n"
        "start empty.\n\n"
        f"{''.join(f'- {SIDES[name].name}: {SIDES[name].about}' for name in played)}\n"
        "Columns and events:\n\n"
        "- Longest gap: the longest time between two reads of one queue. A gap counts for the\n"
        "  event in which it ends. For a new queue the gap starts with the event.\n"
        "- Queue-seconds: the sum of the longest gaps of all queues.\n"
        "- Backlog: the highest number of messages sent but not read.\n"
        "- Queues moved: queues that belong to another consumer after the event. A process that\n"
        "  replaces a killed one takes its place in the group, so its queues do not move.\n"
        "- Taken over: time until each queue with a new process was read by that process.\n"
        "- Until read: the time from storing to reading a message, at the 99th percentile.\n"
        "- Frozen: no process of the pod runs. Cut off: all packets of the pod are dropped\n"
        "  silently. Both last until other consumers read the pod's queues and, for the job,\n"
        f"  until the executor is replaced. The driver is cut off for {job.CUT_SECONDS:g} s.\n"
        "- With several rounds, gaps and queue-seconds are shown for the median and the worst\n"
        "  round, all other columns for the worst round.",
        body,
        map(targets.format_cells, compared),
    )


def _list_versions() -> Iterator[str]:
    yield f"Kubernetes {kubernetes.VERSION}, one node; Python {platform.python_version()}"
    yield f"Brokers: RocketMQ {rocketmq.VERSION}"
    yield f"Peer: {peers.ROCKETMQ}, heap 128 MiB"
