"""Plans the next batches: asks the brokers where they end, and deals the queues to the lanes."""

from collections.abc import Collection

from spark_jobs import planning
from spark_jobs.options import Reading
from spark_jobs.pipeline.batch.lanes import LaneDealer
from spark_jobs.pipeline.checkpoint import plans
from spark_jobs.pipeline.checkpoint.begins import QueueBegins
from spark_jobs.pipeline.checkpoint.journal import CheckpointState
from spark_jobs.pipeline.following import AssignmentFollower


class BatchPlanner:
    """Plans the batches of one job."""

    def __init__(
        self,
        begins: QueueBegins,
        reading: Reading,
        skip: str,
        followed: AssignmentFollower,
        dealer: LaneDealer,
        *,
        is_scheduled: bool,
    ) -> None:
        """Plan nothing yet."""
        self._begins = begins
        self._reading = reading
        self._skip = skip
        self._followed = followed
        self._dealer = dealer
        self._is_scheduled = is_scheduled
        if is_scheduled:
            begins.prepareForTriggerAvailableNow()

    def plan(self, state: CheckpointState, idle: Collection[int]) -> tuple[CheckpointState, int]:
        """
        Plan the batches of these idle lanes, after this state.

        Return the same state if nothing is new. Also return the epoch of the assignment that these
        lanes follow from now on.
        """
        newest = self._followed.newest
        skip = self._skip or state.skip
        is_request = skip != state.skip
        is_requested = any(each.skip != state.skip for each in state.planned)
        if is_requested or (is_request and state.planned):
            # A request counts once, for all queues. So its batch runs while no other one does.
            return state, state.epoch
        deal = (
            planning.deal_to_one
            if is_request
            else self._dealer.make_deal(state, newest.owners, idle)
        )
        is_skipping = is_request or not self._reading.fail_on_data_loss
        start = plans.read_end(state, self._reading.wanted)
        end = self._begins.find_end(start, deal, is_skipping=is_skipping, needs_all=is_request)
        epoch = max(newest.epoch, state.epoch)
        planned = plans.plan(state, end, epoch, skip, deal)
        if self._is_scheduled and planned == state and not state.planned:
            self._begins.require_read(end.offsets)
        return planned, epoch
