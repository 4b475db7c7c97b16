"""
The states of a batch, from its plan to its commit. Pure.

    committed --begin--> planned --the sink writes--> planned --commit--> committed

A plan is in the journal before the batch begins, so a batch that runs again reads the same ranges
with the same filter, and has the same number. What each crash point leaves, and what the next
driver does:

| The driver dies | It leaves | The next driver |
|---|---|---|
| while it plans | nothing | plans anew |
| before the entry of the plan is written | nothing | plans anew |
| while the sink writes | an entry with `planned`, and a part of the rows | runs the batch again |
| before the entry of the commit is written | an entry with `planned`, and all rows | the same |
| after that | an entry without `planned` | tells the brokers, and plans the next batch |

A batch that runs again replaces its folder. A sink of the user's own gets the same number again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from mq_client.filters import Filter
from spark_jobs import journal, planning
from spark_jobs.journal import Entry
from spark_jobs.pipeline import skipping
from spark_jobs.pipeline.checkpoint.journal import JobState, PlannedBatch
from spark_jobs.planning import Loss, Range


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What one batch reads."""

    query: str
    """The id of the checkpoint's journal: two checkpoints must not write to one folder."""
    number: int
    epoch: int
    ranges: Sequence[Range]
    wanted: Filter
    turned_back: Sequence[Loss]
    """Queues that this batch drops, or reads again from an earlier offset, because of losses."""
    skip_before: str
    """The last `skip` value that was carried out before this batch."""
    skip: str
    """The last `skip` value that was carried out before or in this batch."""
    begun: float
    """When planning began, in seconds since 1970."""

    def may_skip(self, skip: str) -> bool:
        """Whether this batch may skip losses in a job with this `skip` value."""
        return skipping.is_open(skip, self.skip_before)

    def uses_up(self, skip: str) -> bool:
        """Whether this batch was planned with this `skip` value: its commit uses the value up."""
        return self.may_skip(skip) and self.skip == skip


def read_end(state: JobState, wanted: Filter) -> Entry:
    """Read where the last committed batch has ended, with the filter of the next one."""
    return Entry(journal.read_offsets(state.offsets), wanted, journal.read_offsets(state.aside))


def begin(state: JobState, planned: PlannedBatch) -> JobState:
    """Return the state in which this batch runs."""
    return msgspec.structs.replace(state, planned=planned)


def read_plan(state: JobState, begun: float) -> BatchPlan:
    """Read what the planned batch of a state reads."""
    planned = state.planned
    assert planned is not None, "the state has a planned batch"
    end = journal.read(planned.end)
    start = read_end(state, end.wanted)
    return BatchPlan(
        state.query, planned.number, planned.epoch,
        planning.plan_ranges(start.offsets, end.offsets),
        end.wanted,
        planning.find_turned_back(start.aside | start.offsets, end.aside | end.offsets),
        state.skip, planned.skip, begun,
    )  # fmt: skip


def commit(state: JobState) -> JobState:
    """Return the state in which the planned batch is committed."""
    planned = state.planned
    assert planned is not None, "the state has a planned batch"
    end = journal.read(planned.end)
    return msgspec.structs.replace(
        state,
        epoch=planned.epoch,
        batch=planned.number,
        offsets=journal.write_offsets(end.offsets),
        aside=journal.write_offsets(end.aside),
        skip=planned.skip,
        planned=None,
    )
