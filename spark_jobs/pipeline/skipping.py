"""
Skips messages that are lost for good, once per request. Pure.

A request is a new value of `skip`. The first batch that is planned with it skips lost messages, and
journals the value with its offsets. So Spark's own commit uses the value up, and a driver that
starts later from the same checkpoint skips nothing more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contract.report import SkipReport
from spark_jobs.planning import Loss, Range

KEY = "skip"
"""In the journal."""
MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was skipped."""

    value: str
    """The value of `skip` that requested it."""
    deleted: Sequence[Range]
    lost: Sequence[Loss]
    """Other losses; how many messages they are is unknown."""

    @property
    def messages(self) -> int:
        """How many messages, as far as that is known."""
        return sum(each.stop - each.start for each in self.deleted)

    @property
    def lines(self) -> list[str]:
        """One line for each queue."""
        deleted = [
            f"{each.queue}: {each.stop - each.start} messages, offsets {each.start} to "
            f"{each.stop - 1}"
            for each in self.deleted
        ]
        return [*deleted, *map(str, self.lost)]

    def report(self) -> SkipReport:
        """Make the report for the user who requested it."""
        named = self.lines[:MOST_NAMED]
        if more := self.lines[MOST_NAMED:]:
            named.append(f"{len(more)} more queues, listed in the driver's log")
        return SkipReport(self.value, self.messages, "; ".join(named))


def read_last_used(journal: Mapping[str, Any]) -> str:
    """Read the last `skip` value that was used; empty if none was."""
    found: str = journal.get(KEY, "")
    return found


def is_open(skip: str, before: str) -> bool:
    """Whether a batch may skip losses: the value is new after `before`, the last one used."""
    return skip not in ("", before)


def make_journal_entry(skip: str, start: Mapping[str, Any]) -> dict[str, str]:
    """Make what the next batch journals; without a request, the last value stays."""
    kept = skip or read_last_used(start)
    return {KEY: kept} if kept else {}
