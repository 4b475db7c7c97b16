"""Plans the next batch: asks the brokers where it ends, and writes down what it will read."""

from spark_jobs.options import Reading
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
        *,
        is_scheduled: bool,
    ) -> None:
        """Plan nothing yet."""
        self._begins = begins
        self._reading = reading
        self._skip = skip
        self._followed = followed
        self._is_scheduled = is_scheduled
        if is_scheduled:
            begins.prepareForTriggerAvailableNow()

    def plan(self, state: CheckpointState) -> CheckpointState:
        """Plan the batch that comes after this state; return the same state if nothing is new."""
        skip = self._skip or state.skip
        is_request = skip != state.skip
        is_skipping = is_request or not self._reading.fail_on_data_loss
        start = plans.read_end(state, self._reading.wanted)
        end = self._begins.find_end(start, is_skipping=is_skipping, needs_all=is_request)
        epoch = max(self._followed.newest.epoch, state.epoch)
        planned = plans.plan(state, end, epoch, skip)
        if self._is_scheduled and planned == state:
            self._begins.require_read(end.offsets)
        return planned
