"""Keeps the newest assignment, and earlier assignments that a batch may still need."""

from collections.abc import Collection

from mq_client.errors import UsageError
from spark_jobs.pipeline.assignments import NO_ASSIGNMENT, Assignments, JobAssignment


class AssignmentFollower:
    """
    Keeps the newest assignment, the assignment before it, and the adopted assignment.

    It also keeps those with which batches are planned. Several threads use this object.
    """

    def __init__(self, source: Assignments) -> None:
        """Read nothing yet."""
        self._source = source
        self.newest = NO_ASSIGNMENT
        self.drained: frozenset[str] = frozenset()
        """Pods whose executors must be replaced."""
        self.refusal: str | None = None
        """Why the newest assignment is not followed."""
        self._by_epoch: dict[int, JobAssignment] = {}

    def read_newest(self, adopted_epoch: int, needed: Collection[int] = ()) -> None:
        """
        Read the newest assignment. If it is invalid or too old, set `refusal`.

        `needed`: the epochs with which batches are planned.
        """
        try:
            found = self._source.read_latest()
        except UsageError as error:
            self.refusal = str(error)
            return
        self.refusal = None
        self.drained = found.drained
        if 0 < found.epoch < adopted_epoch:
            self.refusal = (
                f"epoch {found.epoch} is older than {adopted_epoch}, the epoch in the checkpoint: "
                "publish a higher epoch"
            )
        if found.epoch != self.newest.epoch:
            kept = [self._by_epoch[epoch] for epoch in needed if epoch in self._by_epoch]
            kept += [self.find(adopted_epoch), self.newest, found]
            self._by_epoch = {each.epoch: each for each in kept}
            self.newest = found

    def find(self, epoch: int, default: JobAssignment = NO_ASSIGNMENT) -> JobAssignment:
        """Find the assignment with this epoch."""
        return self._by_epoch.get(epoch, default)
