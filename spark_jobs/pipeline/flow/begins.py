"""Finds where a flow begins to read queues that are not in its journal."""

from collections.abc import Mapping

from mq_client.values import MessageQueue
from spark_jobs.options import Reading
from spark_jobs.pipeline.plan_source import PlanReader
from spark_jobs.planning import SeenOffsets


class QueueBegins(PlanReader):
    """Begins queues as a job with batches does."""

    def __init__(self, reading: Reading) -> None:
        """Send no request yet."""
        super().__init__(reading, assignments="", run="", skip="")

    def find_all(self) -> dict[MessageQueue, int]:
        """Find where the queues of a new job begin. All brokers must answer."""
        return self._find_new({}, self._observer.observe(is_new=True), is_begun=False)

    def observe(self, known: Mapping[MessageQueue, int]) -> SeenOffsets:
        """Ask for the ends of these queues."""
        return self._observer.observe(known)

    def find_others(self, known: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Find where queues begin that are not among the known ones."""
        return self._find_new(known, self._observer.observe(is_new=False), is_begun=True)
