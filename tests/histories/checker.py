"""
Compares what a reader returned with what was stored: a missing message must have a reason.

The functions are pure. `World` has the facts that the player of a history knows about the queue;
`Given` is the result of one read. `complaints` lists what no fact explains. For a correct reader,
the list is empty.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from tests.histories.story import Kind


@dataclass(frozen=True, slots=True)
class Stored:
    """A message. Its offset is its index in `World.stored`."""

    key: str
    tag: str
    kind: Kind
    place: int
    """Its position in the commit log."""


@dataclass(slots=True)
class World:
    """The facts about the queue, on its master and on its slave."""

    stored: list[Stored] = field(default_factory=list)
    """All messages that were sent since the topic was created, by offset."""
    deleted_below: int = 0
    """Messages at lower positions in the commit log are deleted."""
    has_master: bool = True
    slave_end: int | None = None
    """Where the queue ends on the slave, if the slave is behind."""
    is_readable: bool = True

    def is_deleted(self, offset: int) -> bool:
        """Whether the broker has deleted this message."""
        return self.stored[offset].place < self.deleted_below

    def waits_for_master(self, start: int, stop: int) -> bool:
        """Whether a reader must wait for the master, which has messages that the slave lacks."""
        is_behind = self.slave_end is not None and self.slave_end < stop
        return is_behind or any(map(self.is_deleted, range(start, min(stop, self.end))))

    @property
    def end(self) -> int:
        """Where the queue ends."""
        return len(self.stored)


class End(Enum):
    """How a read ended."""

    DONE = "all was read"
    WAITS = "the reader waited for more"
    GONE = "it said that offsets are deleted"
    BEYOND = "it said that the queue ends before what was asked for"
    FORBIDDEN = "it said that the topic may not be read"
    UNAVAILABLE = "it said that the broker is not there, or behind"
    BROKEN = "it said that a message is broken"
    OTHER = "it failed in some other way"


@dataclass(frozen=True, slots=True)
class Row:
    """A message that the reader returned."""

    offset: int
    key: str


@dataclass(slots=True)
class Given:
    """The result of one read."""

    start: int
    stop: int
    """The requested range: from `start` to `stop`, exclusive."""
    allow_gaps: bool
    tags: str | None
    rows: list[Row] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    refused: list[tuple[int, int]] = field(default_factory=list)
    """Ranges that the reader refused, because a message in them is broken."""
    next: int = 0
    """The offset at which the reader would continue."""
    end: End = End.DONE
    words: str = ""
    """The text of the error."""
    pulls: int = 0
    seconds: float = 0.0

    def wants(self, message: Stored) -> bool:
        """Whether the reader's filter matches this message."""
        return self.tags is None or message.tag in self.tags.split("||")


QUICK_PULLS, PULLS_A_SECOND = 40, 40
"""
The allowed pulls: a fixed number, and a number for each second. One pull for every two messages is
allowed in addition. A reader that pulls more often does not pause.
"""


def complaints(world: World, given: Given) -> list[str]:
    """List what is wrong with the result of a reader."""
    return [*_rows(world, given), *_missing(world, given), *_end(world, given), *_pace(given)]


def _rows(world: World, given: Given) -> Iterator[str]:
    last = given.start - 1
    for row in given.rows:
        if row.offset <= last:
            yield f"offset {row.offset} came after {last}: twice, or out of order"
        last = row.offset
        if not given.start <= row.offset < min(given.next, world.end):
            yield f"offset {row.offset} came, but only {given.start} up to {given.next} was read"
            continue
        message = world.stored[row.offset]
        if row.key != message.key:
            yield f"offset {row.offset} came as {row.key}, but is {message.key}"
        if not given.wants(message):
            yield f"offset {row.offset} came, though the filter leaves out {message.tag}"


def _missing(world: World, given: Given) -> Iterator[str]:
    came = {row.offset for row in given.rows}
    skipped = _offsets(given.gaps)
    refused = _offsets(given.refused)
    if given.gaps and not given.allow_gaps:
        yield f"gaps {given.gaps} were skipped, which was not allowed"
    for offset in sorted(skipped & came):
        yield f"offset {offset} came, but is in a reported gap"
    lost, existing = [], []
    for offset in range(given.start, min(given.next, world.end)):
        message = world.stored[offset]
        if offset in skipped:
            if not world.is_deleted(offset) and given.wants(message):
                existing.append(offset)
        elif offset not in came and offset not in refused and given.wants(message):
            lost.append(offset)
    if lost:
        yield f"offsets {_told(lost)} did not come, and the reader did not report them"
    if existing:
        yield f"offsets {_told(existing)} were reported as lost, but exist"
    for start, stop in given.refused:
        if not _has_broken(world, given, start, stop):
            yield f"offsets {start} to {stop - 1} were called broken, but are not"


def _end(world: World, given: Given) -> Iterator[str]:
    at = given.next
    is_beyond = at >= world.end
    is_with_master = not world.has_master and world.waits_for_master(at, given.stop)
    match given.end:
        case End.DONE:
            if at != given.stop:
                yield f"it said that all was read, at {at} of {given.stop}"
        case End.GONE:
            if given.allow_gaps or is_beyond or not world.is_deleted(at):
                yield f"offset {at} was called deleted, and is not: {given.words}"
        case End.BEYOND:
            if at <= world.end or not world.has_master:
                yield f"offset {at} is not beyond the end, or no master said so: {given.words}"
        case End.FORBIDDEN:
            if world.is_readable:
                yield f"the topic may be read: {given.words}"
        case End.WAITS | End.UNAVAILABLE:
            if not is_with_master and not is_beyond:
                yield f"{given.end.value} at {at}, but no message is missing: {given.words}"
        case End.BROKEN:
            if not _has_broken(world, given, at, given.stop):
                yield f"from {at} on nothing is broken: {given.words}"
        case End.OTHER:
            yield f"it failed at {at}: {given.words}"


def _pace(given: Given) -> Iterator[str]:
    fair = QUICK_PULLS + PULLS_A_SECOND * given.seconds + max(0, given.stop - given.start) / 2
    if given.pulls > fair:
        yield f"{given.pulls} pulls in {given.seconds:.1f} s: it does not pause"


def _has_broken(world: World, given: Given, start: int, stop: int) -> bool:
    return any(
        message.kind is Kind.BROKEN
        for message in world.stored[max(start, given.start) : min(stop, given.stop)]
    )


def _offsets(ranges: list[tuple[int, int]]) -> set[int]:
    return {offset for start, stop in ranges for offset in range(start, stop)}


def _told(offsets: list[int]) -> str:
    shown = ", ".join(map(str, offsets[:5]))
    return f"{shown} ... {offsets[-1]} ({len(offsets)})" if len(offsets) > 5 else shown
