"""
Skip messages that are lost for good, once per request. The functions do no I/O.

A request is a new value of `skip`. The first batch that is planned with this value skips lost
messages. Its entry in Spark's offset log has both the offsets and the value. So Spark's own commit
of the batch also uses up the value, and a driver that starts later from the same checkpoint skips
nothing more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contract.report import SkipReport
from spark_jobs.planning import Loss, Range

KEY = "skip"
"""The field of a log entry in which the value is."""
MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was skipped."""

    value: str
    """The value of `skip` with which the user requested it."""
    deleted: Sequence[Range]
    lost: Sequence[Loss]
    """Other losses, for which the number of messages is unknown."""

    @property
    def messages(self) -> int:
        """How many messages were skipped, as far as that is known."""
        return sum(each.stop - each.start for each in self.deleted)

    @property
    def lines(self) -> list[str]:
        """What was skipped, in one line for each queue."""
        deleted = [
            f"{each.queue}: {each.stop - each.start} messages, offsets {each.start} to "
            f"{each.stop - 1}"
            for each in self.deleted
        ]
        return [*deleted, *map(str, self.lost)]

    def report(self) -> SkipReport:
        """Make the report for the user who requested the skip."""
        named = self.lines[:MOST_NAMED]
        if more := self.lines[MOST_NAMED:]:
            named.append(f"{len(more)} more queues, listed in the driver's log")
        return SkipReport(self.value, self.messages, "; ".join(named))


def read_last_used(journal: Mapping[str, Any]) -> str:
    """Read the last `skip` value that was used; empty if none was."""
    found: str = journal.get(KEY, "")
    return found


def is_open(skip: str, before: str) -> bool:
    """Whether a batch may skip losses: `skip` is set and is not the last used value, `before`."""
    return skip not in ("", before)


def make_journal_entry(skip: str, start: Mapping[str, Any]) -> dict[str, str]:
    """Make the field of the next log entry. If `skip` is empty, the field keeps the last value."""
    kept = skip or read_last_used(start)
    return {KEY: kept} if kept else {}
