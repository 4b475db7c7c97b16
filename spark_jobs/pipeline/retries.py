"""Decides whether a batch that failed runs again, and after which pause."""

from mq_client.directory import Times
from spark_jobs.pipeline.failures import Cure, Failure

PATIENCE = Times(first_pause=1.0, longest_pause=30.0)
"""The pauses between attempts that fail."""
MOST_FAILURES = 3
"""This many failures of one batch end the job, unless they are known to be temporary."""


class BatchRetries:
    """Remembers the failures of one job's batches."""

    def __init__(self) -> None:
        """Begin without a failure."""
        self.error: str | None = None
        """The last failure, until a batch is committed, or there is nothing to read."""
        self.forget()

    def forget(self) -> None:
        """Forget all failures: a batch is committed, or there is nothing to read."""
        self.error = None
        self._batch_failures = 0
        """How often the same batch has failed for a reason that is not known to be temporary."""
        self._pauses = PATIENCE.make_pauses()

    def choose_pause(self, failure: Failure) -> float | None:
        """Return how long to wait before the next attempt; None if the job must end."""
        self.error = failure.message
        self._batch_failures += failure.is_in_batch and failure.cure is Cure.RETRY
        if failure.cure is Cure.USER or self._batch_failures == MOST_FAILURES:
            return None
        return next(self._pauses)
