"""
The states of a batch, from its plan to its commit. Pure.

    committed --plan--> planned --the sink writes--> planned --commit--> committed
                           |                            ^
                           +---------- cut -------------+

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

If a broker falls silent while a batch runs, its queues are cut out: the plan gets another entry,
with fewer ranges under the same number, and the batch runs again.

A batch that runs again replaces its folder. A sink of the user's own gets the same number again.

A job with lanes has several planned batches at the same time. No two of them read the same queue,
and each queue is planned again only when its batch is committed. So each lane has this table for
itself.

The entry of a plan already says which queues the job reads, and where new ones begin. The entry of
the commit says how far the batch has read.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from mq_client.filters import Filter
from mq_client.values import MessageQueue
from spark_jobs import journal, planning
from spark_jobs.journal import Entry
from spark_jobs.pipeline import skipping
from spark_jobs.pipeline.checkpoint.journal import CheckpointState, PlannedBatch
from spark_jobs.planning import Deal, Range


@dataclass(frozen=True, slots=True)
class BatchName:
    """What identifies the rows of a batch in a sink, whenever it runs."""

    query: str
    """The id of the checkpoint's journal: two checkpoints must not write to one folder."""
    number: int
    """No two batches of a checkpoint have the same number."""
    lane: int = 0
    """The lane for which the batch was planned."""

    @property
    def sequence(self) -> str:
        """
        The id of the batches of this lane.

        Their numbers rise from batch to batch. Sinks may rely on that, as Delta Lake does.
        """
        return f"{self.query}-{self.lane}" if self.lane else self.query


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What one batch reads."""

    query: str
    """The id of the checkpoint's journal."""
    skip_before: str
    """The last `skip` value that was carried out before this batch."""
    planned: PlannedBatch
    begun: float
    """When planning began, on the monotonic clock."""

    @property
    def name(self) -> BatchName:
        """The name of the batch for sinks."""
        return BatchName(self.query, self.planned.number, self.planned.lane)

    @property
    def ranges(self) -> list[Range]:
        """What is read."""
        return [journal.read_range(each) for each in self.planned.ranges]

    @property
    def wanted(self) -> Filter:
        """The filter."""
        return journal.read_filter(self.planned.filter)

    @property
    def is_request(self) -> bool:
        """Whether this batch carries out a new request to skip losses."""
        return self.planned.skip != self.skip_before

    def may_skip(self, skip: str) -> bool:
        """Whether this batch may skip losses in a job with this `skip` value."""
        return skipping.is_open(skip, self.skip_before)

    def uses_up(self, skip: str) -> bool:
        """Whether this batch was planned with this `skip` value: its commit uses the value up."""
        return self.may_skip(skip) and self.planned.skip == skip


def find_busy(state: CheckpointState) -> dict[MessageQueue, int]:
    """Find the queues of planned batches, and where these batches end."""
    parts = (journal.read_range(row) for batch in state.planned for row in batch.ranges)
    return {each.queue: each.stop for each in parts}


def read_end(state: CheckpointState, wanted: Filter) -> Entry:
    """Read where the batches so far end, with the filter of the next ones."""
    ends = journal.read_offsets(state.offsets) | find_busy(state)
    return Entry(ends, wanted, journal.read_offsets(state.aside))


def plan(
    state: CheckpointState, end: Entry, epoch: int, skip: str, deal: Deal = planning.deal_to_one
) -> CheckpointState:
    """
    Return the state after a plan for the next batches, which end at `end`.

    There is a batch for each lane to which `deal` gives queues with messages. A queue that no lane
    gets stays as it is. Without messages there is no batch, unless there is a new request to skip
    losses, which only a commit uses up.
    """
    start = read_end(state, end.wanted)
    committed = journal.read_offsets(state.offsets)
    kept = {queue: at for queue, at in committed.items() if deal(queue) is None}
    lanes: dict[int, list[Range]] = defaultdict(list)
    for each in planning.plan_ranges(start.offsets, end.offsets):
        lane = deal(each.queue)
        if lane is not None:
            lanes[lane].append(each)
    waiting = {each.queue: each.start for ranges in lanes.values() for each in ranges}
    aside = {queue: at for queue, at in end.aside.items() if queue not in kept}
    is_request = skip != state.skip
    turned_back = planning.find_turned_back(start.aside | start.offsets, end.aside | end.offsets)
    if is_request:
        lanes[0]  # an empty batch, if there are no messages
    first = 1 + max([state.batch, *(each.number for each in state.planned)])
    planned = [
        PlannedBatch(
            number, epoch, skip, journal.write_filter(end.wanted),
            [journal.write_range(each) for each in lanes[lane]],
            list(map(str, turned_back)) if is_request else [],
            lane,
        )
        for number, lane in enumerate(sorted(lanes), first)
    ]  # fmt: skip
    return msgspec.structs.replace(
        state,
        offsets=journal.write_offsets(end.offsets | waiting | kept),
        aside=journal.write_offsets(aside),
        planned=[*state.planned, *planned],
    )


def cut(state: CheckpointState, batch: PlannedBatch, brokers: Collection[str]) -> CheckpointState:
    """
    Return the state in which this planned batch no longer reads from these brokers.

    A later batch reads what is left out: `offsets` still has where that begins.
    """
    ranges = [row for row in batch.ranges if journal.read_range(row).queue.broker not in brokers]
    less = msgspec.structs.replace(batch, ranges=ranges, is_cut=True)
    planned = [less if each == batch else each for each in state.planned]
    return msgspec.structs.replace(state, planned=planned)


def commit(state: CheckpointState, batch: PlannedBatch) -> CheckpointState:
    """Return the state in which this planned batch is committed."""
    read = {each.queue: each.stop for each in map(journal.read_range, batch.ranges)}
    return msgspec.structs.replace(
        state,
        batch=max(state.batch, batch.number),
        offsets=journal.write_offsets(journal.read_offsets(state.offsets) | read),
        skip=batch.skip,
        planned=[each for each in state.planned if each != batch],
    )
