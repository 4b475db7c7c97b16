"""
The states of a batch, from its plan to its commit. Pure.

    committed --plan--> planned --the sink writes--> planned --commit--> committed

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

The entry of a plan already says which queues the job reads, and where new ones begin. The entry of
the commit says how far the batch has read.
"""

from dataclasses import dataclass

import msgspec

from mq_client.filters import Filter
from spark_jobs import journal, planning
from spark_jobs.journal import Entry
from spark_jobs.pipeline import skipping
from spark_jobs.pipeline.checkpoint.journal import CheckpointState, PlannedBatch
from spark_jobs.planning import Range


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What one batch reads."""

    query: str
    """The id of the checkpoint's journal: two checkpoints must not write to one folder."""
    skip_before: str
    """The last `skip` value that was carried out before this batch."""
    planned: PlannedBatch
    begun: float
    """When planning began, on the monotonic clock."""

    @property
    def ranges(self) -> list[Range]:
        """What is read."""
        return [journal.read_range(each) for each in self.planned.ranges]

    @property
    def wanted(self) -> Filter:
        """The filter."""
        return journal.read_filter(self.planned.filter)

    def may_skip(self, skip: str) -> bool:
        """Whether this batch may skip losses in a job with this `skip` value."""
        return skipping.is_open(skip, self.skip_before)

    def uses_up(self, skip: str) -> bool:
        """Whether this batch was planned with this `skip` value: its commit uses the value up."""
        return self.may_skip(skip) and self.planned.skip == skip


def read_end(state: CheckpointState, wanted: Filter) -> Entry:
    """Read where the committed batches have ended, with the filter of the next one."""
    return Entry(journal.read_offsets(state.offsets), wanted, journal.read_offsets(state.aside))


def plan(state: CheckpointState, end: Entry, epoch: int, skip: str) -> CheckpointState:
    """
    Return the state after a plan for the next batch, which ends at `end`.

    Without messages there is no batch, unless there is a new request to skip losses, which only a
    commit uses up.
    """
    start = read_end(state, end.wanted)
    ranges = planning.plan_ranges(start.offsets, end.offsets)
    waiting = {each.queue: each.start for each in ranges}
    settled = msgspec.structs.replace(
        state,
        offsets=journal.write_offsets(end.offsets | waiting),
        aside=journal.write_offsets(end.aside),
    )
    if not ranges and skip == state.skip:
        return msgspec.structs.replace(settled, epoch=epoch)
    turned_back = planning.find_turned_back(start.aside | start.offsets, end.aside | end.offsets)
    batch = PlannedBatch(
        state.batch + 1, epoch, skip, journal.write_filter(end.wanted),
        [journal.write_range(each) for each in ranges],
        list(map(str, turned_back)) if skip != state.skip else [],
    )  # fmt: skip
    return msgspec.structs.replace(settled, planned=[batch])


def commit(state: CheckpointState, batch: PlannedBatch) -> CheckpointState:
    """Return the state in which this planned batch is committed."""
    read = {each.queue: each.stop for each in map(journal.read_range, batch.ranges)}
    return msgspec.structs.replace(
        state,
        epoch=batch.epoch,
        batch=batch.number,
        offsets=journal.write_offsets(journal.read_offsets(state.offsets) | read),
        skip=batch.skip,
        planned=[each for each in state.planned if each != batch],
    )
