"""
Skip messages that are lost for good, once per request. The functions do no I/O.

A request is a new value of `skip`. The first batch that is planned with it skips lost messages, and
its commit writes the value to the journal. So a driver that starts later from the same checkpoint
skips nothing more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from contract.report import SkipReport
from spark_jobs.planning import Range

MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was skipped."""

    value: str
    """The value of `skip` with which the user requested it."""
    deleted: Sequence[Range]
    lost: Sequence[str]
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
        return [*deleted, *self.lost]

    def report(self) -> SkipReport:
        """Make the report for the user who requested the skip."""
        named = self.lines[:MOST_NAMED]
        if more := self.lines[MOST_NAMED:]:
            named.append(f"{len(more)} more queues, listed in the driver's log")
        return SkipReport(self.value, self.messages, "; ".join(named))


def is_open(skip: str, before: str) -> bool:
    """Whether a batch may skip losses: `skip` is set, and differs from the last used value."""
    return skip not in ("", before)
