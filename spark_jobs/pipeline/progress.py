"""Tracks what Spark has committed: the last batch, where it ends, and what it skipped."""

import logging

from pyspark.accumulators import Accumulator

from mq_client.values import MessageQueue
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.plan_source import BatchPlan
from spark_jobs.pipeline.skipping import Skipped

log = logging.getLogger("evenkeel.job")


class CommittedProgress:
    """
    Counts a batch only once Spark has committed it.

    The thread of a batch calls `note_written`; the driver's loop calls everything else.
    """

    def __init__(self, skip: str, tally: Accumulator[Tally]) -> None:
        """Begin before the first batch."""
        self.ends: dict[MessageQueue, int] = {}
        """Where the last committed batch ends."""
        self.adopted_epoch = 0
        """The epoch of the last committed batch."""
        self.batch = -1
        self.skipped: Skipped | None = None
        self._skip = skip
        self._tally = tally
        self._written: dict[int, BatchPlan] = {}
        """Batches that were written and are not committed yet, by number."""

    @property
    def is_settled(self) -> bool:
        """Whether every batch that was written is committed."""
        return not self._written

    def forget_written(self) -> None:
        """Forget batches that were not committed: the next query runs them again."""
        self._written.clear()

    def may_skip(self, plan: BatchPlan) -> bool:
        """Whether a batch may skip lost messages: the request to skip them is not used up."""
        return plan.may_skip(self._skip)

    def note_written(self, number: int, plan: BatchPlan) -> None:
        """Note that the sink has the rows of a batch."""
        self._written[number] = plan

    def commit_through(self, batch: int) -> bool:
        """Count all written batches up to this one as committed; return whether there were any."""
        committed = sorted(number for number in list(self._written) if number <= batch)
        for number in committed:
            plan = self._written.pop(number)
            self.ends, self.adopted_epoch, self.batch = plan.end, plan.epoch, number
            self._note_skip(plan)
        return bool(committed)

    def resume_from(self, ends: dict[MessageQueue, int], epoch: int) -> None:
        """Begin at the offsets and the epoch of the checkpoint, before any batch is committed."""
        self.ends, self.adopted_epoch = ends, epoch

    def _note_skip(self, plan: BatchPlan) -> None:
        """Report what was skipped, once the batch that uses the request up is committed."""
        if not plan.uses_up(self._skip):
            return
        self.skipped = Skipped(plan.skip, self._tally.value.lost, plan.turned_back)
        for line in self.skipped.lines or ["nothing"]:
            log.warning("skipped, as requested by skip %r: %s", plan.skip, line)
