"""An assignment: which queues each consumer owns, as ranges and as text."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from lb_core import errors
from lb_core.inventory import Inventory, Runs
from lb_core.model import Queue, QueueRange, shorten, sort_texts

MOST_QUEUES = 100_000
"""Maximum number of queues in a document: even a short range of ids can mean billions of queues."""


class WrittenIds(Protocol):
    """An entry of a document: the ids of one topic on one broker."""

    @property
    def topic(self) -> str:
        """The topic."""

    @property
    def broker(self) -> str:
        """The broker."""

    @property
    def ids(self) -> str:
        """The ids, as "0-3,8"."""


@dataclass(frozen=True, slots=True, eq=False)
class Assignment(Mapping[str, tuple[QueueRange, ...]]):
    """
    A mapping from each consumer of the group to its queues, as ranges.

    `holdings` contains the same queues as runs of queue numbers. `loads` contains the number of
    queues of each consumer. Do not change `holdings` or `loads`.
    """

    inventory: Inventory
    holdings: Mapping[str, Runs]
    loads: Mapping[str, int]

    def __getitem__(self, consumer: str) -> tuple[QueueRange, ...]:
        """Return the queues of one consumer; an empty tuple for an idle consumer."""
        return self.inventory.list_ranges(self.holdings[consumer])

    def __iter__(self) -> Iterator[str]:
        """Iterate over all consumers in canonical order, including idle ones."""
        return iter(sort_texts(self.holdings))

    def __len__(self) -> int:
        """Return the number of consumers."""
        return len(self.holdings)

    def find_owner(self, queue: Queue) -> str | None:
        """Find the owner of a queue. Return None if the queue has no owner."""
        number = self.inventory.find(queue)
        for consumer, runs in self.holdings.items():
            if any(number in run for run in runs):
                return consumer
        return None

    def list_ids(self, consumer: str) -> dict[tuple[str, str], str]:
        """List a consumer's queues as the status shows them: "0-3,8" for each topic and broker."""
        by_source: dict[tuple[str, str], list[QueueRange]] = {}
        for queues in self[consumer]:
            by_source.setdefault((queues.topic, queues.broker), []).append(queues)
        return {source: format_ids(ranges) for source, ranges in by_source.items()}


def format_ids(ranges: Iterable[QueueRange]) -> str:
    """Write queue ids as a string such as "0-3,8"."""
    return ",".join(
        f"{queues.start}-{queues.stop - 1}" if len(queues) > 1 else f"{queues.start}"
        for queues in ranges
    )


def write_ids(queues: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str], str]:
    """Map topic and broker to ids, written as "0-3,8". Each queue is (topic, broker, id)."""
    ranges: dict[tuple[str, str], list[QueueRange]] = {}
    for topic, broker, number in sorted(queues):
        found = ranges.setdefault((topic, broker), [])
        if found and found[-1].stop == number:
            found[-1] = QueueRange(topic, broker, found[-1].start, number + 1)
        else:
            found.append(QueueRange(topic, broker, number, number + 1))
    return {source: format_ids(found) for source, found in ranges.items()}


def read_ids(entries: Iterable[WrittenIds]) -> Iterator[tuple[str, str, int]]:
    """Convert entries with ids back to single queues. Each queue is (topic, broker, id)."""
    ranges = [each for entry in entries for each in parse_ids(entry.topic, entry.broker, entry.ids)]
    count = sum(map(len, ranges))
    if count > MOST_QUEUES:
        raise errors.BadRequestError(f"{count:,} queues: at most {MOST_QUEUES:,} are allowed")
    return ((each.topic, each.broker, number) for each in ranges
            for number in range(each.start, each.stop))  # fmt: skip


def parse_ids(topic: str, broker: str, text: str) -> list[QueueRange]:
    """Parse ids such as "0-3,8". Spaces around parts are ignored. "" means no queues."""
    return [_parse_part(topic, broker, part) for part in text.split(",")] if text.strip() else []


def _parse_part(topic: str, broker: str, part: str) -> QueueRange:
    first, dash, last = part.strip().partition("-")
    if not (_is_number(first) and (_is_number(last) if dash else True)):
        raise errors.BadRequestError(
            f"{shorten(topic)} on {shorten(broker)}: {shorten(part)} is not an id or a range "
            'of ids such as "0-3,8"'
        )
    return QueueRange(topic, broker, int(first), int(last if dash else first) + 1)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10
