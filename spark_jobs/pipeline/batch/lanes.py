"""
The lanes of a job. Each lane has its own batches, so a slow batch delays only its lane.

The slots are dealt to the lanes by their numbers, and a queue belongs to the lane of its slot. A
queue whose slot changes moves between two batches: its new lane reads it when the batch of the old
lane is committed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from mq_client.values import MessageQueue
from spark_jobs.pipeline.batch.watching import Trouble
from spark_jobs.pipeline.checkpoint import plans
from spark_jobs.pipeline.checkpoint.journal import CheckpointState, PlannedBatch
from spark_jobs.pipeline.checkpoint.plans import BatchPlan
from spark_jobs.pipeline.facts import LaneFacts
from spark_jobs.pipeline.retries import BatchRetries
from spark_jobs.planning import Deal


@dataclass(frozen=True, slots=True)
class LaneDealer:
    """Deals slots to lanes."""

    count: int = 1
    """How many lanes there are. Those without a slot have nothing to read."""

    def find(self, slot: str | None) -> int:
        """Find the lane of a slot. What has no slot is in the first lane."""
        number = (slot or "").rpartition("-")[2]
        return int(number) % self.count if number.isascii() and number.isdecimal() else 0

    def make_deal(
        self, state: CheckpointState, owners: Mapping[MessageQueue, str], idle: Collection[int]
    ) -> Deal:
        """Deal queues to the idle lanes of their slots, except those that a planned batch reads."""
        busy = plans.find_busy(state)

        def deal(queue: MessageQueue) -> int | None:
            lane = self.find(owners.get(queue))
            return lane if lane in idle and queue not in busy else None

        return deal

    def find_planned(self, state: CheckpointState) -> dict[int, PlannedBatch]:
        """
        Find the planned batch that each lane runs now. Lanes that are missing are idle.

        An earlier driver may have had more lanes. So several batches may be planned for a lane,
        which then runs the one with the lowest number.
        """
        found: dict[int, PlannedBatch] = {}
        for each in sorted(state.planned, key=lambda each: each.number, reverse=True):
            found[each.lane % self.count] = each
        return found


@dataclass(slots=True)
class Lane:
    """What the driver knows about one lane, besides its planned batch in the journal."""

    number: int
    epoch: int
    """All queues of the lane are read by the assignment with this epoch, or by a later one."""
    begun: float
    """When its last batch began, with its planning or its last attempt; monotonic."""
    retries: BatchRetries = field(default_factory=BatchRetries)
    plan: BatchPlan | None = None
    """The batch that is running."""
    started: float = 0.0
    """When it began to run."""
    trouble: Trouble | None = None
    """Why it was cancelled, if it was."""
    cancels: int = 0
    """How often the batch was cancelled; 0 after its commit."""
    left_out: frozenset[str] = frozenset()
    """
    Brokers that were cut out of a batch, and that no committed batch has read since. They are not
    cut out again: a slow broker would never be read.
    """
    next_at: float = 0.0
    """When to plan the next batch, or to run a batch again that has failed."""

    def collect(self, now: float) -> LaneFacts:
        """Take the facts as they are now. Another thread may call this."""
        plan, left_out = self.plan, sorted(self.left_out)
        if plan is None:
            return LaneFacts(self.number, left_out=left_out)
        offsets = sum(each.stop - each.start for each in plan.ranges)
        seconds = max(0.0, now - self.started)
        return LaneFacts(self.number, plan.planned.number, seconds, offsets, left_out)
