"""
Passing over messages that are gone for good: once for each time that somebody asks for it. Pure.

A job is asked by a text that it was not asked by before. The first batch that is planned with a new
one passes over what is lost, and journals the text beside its offsets: so it is used up by Spark's
own commit, and whoever starts the job again, from the same checkpoint, passes over nothing more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contract.report import SkipReport
from spark_jobs.planning import Loss, Range

KEY = "skip"
"""Of the journal."""
MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was passed over."""

    value: str
    """The text that asked for it."""
    deleted: Sequence[Range]
    lost: Sequence[Loss]
    """What else is lost; nobody knows how many messages that is."""

    @property
    def messages(self) -> int:
        """Count them, as far as that is known."""
        return sum(each.stop - each.start for each in self.deleted)

    @property
    def lines(self) -> list[str]:
        """Say it queue by queue."""
        deleted = [
            f"{each.queue}: {each.stop - each.start} messages, offsets {each.start} to "
            f"{each.stop - 1}"
            for each in self.deleted
        ]
        return [*deleted, *map(str, self.lost)]

    def report(self) -> SkipReport:
        """Write it down for whoever asked."""
        named = self.lines[:MOST_NAMED]
        if more := self.lines[MOST_NAMED:]:
            named.append(f"{len(more)} queues more, which the driver's log names")
        return SkipReport(self.value, self.messages, "; ".join(named))


def known(journal: Mapping[str, Any]) -> str:
    """Read for what the job has passed over losses last; empty if for nothing."""
    found: str = journal.get(KEY, "")
    return found


def is_open(skip: str, before: str) -> bool:
    """Whether a batch may pass over what is lost, where this was known before it."""
    return skip not in ("", before)


def journaled(skip: str, start: Mapping[str, Any]) -> dict[str, str]:
    """Say what the next batch journals; if nothing is asked, what was journaled stays."""
    kept = skip or known(start)
    return {KEY: kept} if kept else {}
