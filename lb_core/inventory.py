"""
Number every queue of a group, so that plans are computed on runs of numbers.

A *source* is one topic on one broker (in one zone). Sources are sorted in RocketMQ's order. The
numbers of source i start at `i * SPAN`, and a queue's number is this start plus the queue's id. So
numbers have the same order as queues (if a broker is in several zones, zone by zone), and
consecutive numbers mean consecutive ids. New queues of a topic do not change the number of any
other queue. Runs are plain `range` objects: they are small and fast, and the garbage collector
ignores them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from operator import attrgetter

from lb_core import errors
from lb_core.model import Queue, QueueRange, order_text, quote, shorten

SPAN = 0x1_9E37_79B1
"""
The distance between the starts of two neighbouring sources.

It is larger than the largest id, so runs of two sources never touch.

It is not a round number. With 2^32, the numbers of queue 0 of all topics would have the same low
bits, and so would those of queue 1, and so on. Sets and dictionaries of numbers would then have
many collisions (measured: four times slower).
"""

Runs = tuple[range, ...]
NO_IDS: tuple[Runs, dict[int, int]] = ((), {})
by_start = attrgetter("start")


@dataclass(frozen=True, slots=True)
class Source:
    """One topic on one broker, in one zone."""

    topic: str
    broker: str
    zone: str | None


@dataclass(frozen=True)
class Inventory:
    """All queues of a group: sorted sources, and the sorted runs of the numbers in use."""

    sources: tuple[Source, ...]
    runs: Runs

    @cached_property
    def count(self) -> int:
        """The number of queues."""
        return count(self.runs)

    @cached_property
    def splits_brokers(self) -> bool:
        """
        Whether the queues of one topic on one broker are in several zones.

        If so, a queue can change its source.
        """
        return len({(source.topic, source.broker) for source in self.sources}) < len(self.sources)

    @cached_property
    def topic_of_source(self) -> list[int]:
        """The index of each source's topic among the sorted topics."""
        places: dict[str, int] = {}
        return [places.setdefault(source.topic, len(places)) for source in self.sources]

    @cached_property
    def _ids_by_name(self) -> dict[tuple[str, str], tuple[Runs, dict[int, int]]]:
        """The ids of each topic and broker as runs, and the number at which each run starts."""
        found: dict[tuple[str, str], list[tuple[range, int]]] = {}
        for run in self.runs:
            source, start = self.sources[run.start // SPAN], run.start % SPAN
            ids = range(start, start + len(run))
            found.setdefault((source.topic, source.broker), []).append((ids, run.start))
        return {
            name: (
                tuple(sorted((ids for ids, _ in pairs), key=by_start)),
                {ids.start: number for ids, number in pairs},
            )
            for name, pairs in found.items()
        }

    def list_ranges(self, runs: Iterable[range]) -> tuple[QueueRange, ...]:
        """Convert runs of numbers to ranges of queues."""
        found = []
        for run in runs:
            source = self.sources[run.start // SPAN]
            start = run.start % SPAN
            found.append(
                QueueRange(source.topic, source.broker, start, start + len(run), source.zone)
            )
        return tuple(found)

    def list_queues(self, runs: Iterable[range]) -> Iterator[Queue]:
        """Convert runs of numbers to single queues."""
        for run in runs:
            source = self.sources[run.start // SPAN]
            for number in run:
                yield Queue(source.topic, source.broker, number % SPAN, source.zone)

    def find(self, queue: Queue) -> int | None:
        """Return the number of a queue, or None if the queue does not exist."""
        runs = self.clip(queue.topic, queue.broker, queue.id, queue.id + 1)
        return runs[0].start if runs else None

    def clip(self, topic: str, broker: str, start: int, stop: int) -> list[range]:
        """Return the numbers of existing queues with ids `start` to `stop - 1`, in any zone."""
        runs, numbers = self._ids_by_name.get((topic, broker), NO_IDS)
        found = []
        for place, part in locate_overlaps(range(start, stop), runs):
            base = numbers[runs[place].start] - runs[place].start
            found.append(range(base + part.start, base + part.stop))
        return found


def build(ranges: Iterable[QueueRange]) -> Inventory:
    """Number the queues of these ranges. Refuse a queue that is listed twice."""
    by_source: dict[tuple[str, str, str | None], list[QueueRange]] = {}
    for queues in ranges:
        if not isinstance(queues, QueueRange):
            raise errors.BadRequestError(f"queues: {quote(queues)} is not a QueueRange")
        by_source.setdefault((queues.topic, queues.broker, queues.zone), []).append(queues)
    keys = sorted(by_source, key=_order_source)
    runs = [
        range(place * SPAN + queues.start, place * SPAN + queues.stop)
        for place, key in enumerate(keys)
        for queues in by_source[key]
    ]
    _refuse_repeated(list(by_source.values()))
    return Inventory(tuple(Source(*key) for key in keys), merge(runs))


def merge(runs: Iterable[range]) -> Runs:
    """Sort disjoint runs, and join runs that touch."""
    merged: list[range] = []
    for run in sorted(runs, key=by_start):
        if merged and merged[-1].stop == run.start:
            merged[-1] = range(merged[-1].start, run.stop)
        else:
            merged.append(run)
    return tuple(merged)


def count(runs: Iterable[range]) -> int:
    """Count the queues of these runs."""
    return sum(map(len, runs))


def join(runs: Runs, more: Runs) -> Runs:
    """
    Join sorted, disjoint runs that have no queue in common.

    Usually `more` is one run. Adding one run costs a search, not a pass over all runs.
    """
    if len(more) > 1:
        return merge(chain(runs, more))
    run = more[0]
    place = bisect_right(runs, run.start, key=by_start)
    head, tail = runs[:place], runs[place:]
    if head and head[-1].stop == run.start:
        run, head = range(head[-1].start, run.stop), head[:-1]
    if tail and tail[0].start == run.stop:
        run, tail = range(run.start, tail[0].stop), tail[1:]
    return (*head, run, *tail)


def find_overlaps(run: range, runs: Runs) -> list[range]:
    """Return the parts of `run` that lie in the sorted, disjoint `runs`."""
    return [part for _, part in locate_overlaps(run, runs)]


def locate_overlaps(run: range, runs: Runs) -> Iterator[tuple[int, range]]:
    """Yield the parts of `run` that lie in `runs`, each with the index of its run in `runs`."""
    for place in range(max(0, bisect_right(runs, run.start, key=by_start) - 1), len(runs)):
        other = runs[place]
        if other.start >= run.stop:
            break
        if other.stop > run.start:
            yield place, range(max(run.start, other.start), min(run.stop, other.stop))


def subtract(runs: Runs, others: Runs) -> Runs:
    """Return the parts of the sorted, disjoint `runs` outside the sorted, disjoint `others`."""
    left: list[range] = []
    for run in runs:
        cuts = find_overlaps(run, others)
        edges = [run.start, *(edge for cut in cuts for edge in (cut.start, cut.stop)), run.stop]
        parts = zip(edges[::2], edges[1::2], strict=True)
        left += [range(start, stop) for start, stop in parts if start < stop] if cuts else [run]
    return tuple(left)


def _order_source(key: tuple[str, str, str | None]) -> tuple[bytes, bytes, bool, bytes]:
    topic, broker, zone = key
    return order_text(topic), order_text(broker), zone is not None, order_text(zone or "")


def _refuse_repeated(groups: list[list[QueueRange]]) -> None:
    """Refuse repeated queues. Zones are ignored, because a queue is the same in any zone."""
    ordered = sorted(
        (queues for group in groups for queues in group),
        key=attrgetter("topic", "broker", "start"),
    )
    for (topic, broker), ranges in groupby(ordered, attrgetter("topic", "broker")):
        stop = -1
        for queues in ranges:
            if queues.start < stop:
                raise errors.DuplicateQueueError(
                    f"queue {queues.start} of {shorten(topic)} on {shorten(broker)} is listed twice"
                )
            stop = queues.stop
