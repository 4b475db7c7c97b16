"""Decides whether a failed query starts again, and after which pause."""

from mq_client.directory import Times
from spark_jobs.pipeline.failures import Cure, Failure

PATIENCE = Times(first_pause=1.0, longest_pause=30.0)
"""The pauses between a failed query and the next one."""
MOST_FAILURES = 3
"""This many failures of one batch end the job, unless they are known to be temporary."""


class QueryRetries:
    """Remembers the failures of one job's queries."""

    def __init__(self) -> None:
        """Begin without a failure."""
        self.error: str | None = None
        """The last failure, until a batch is committed."""
        self._batch_failures = 0
        """How often the same batch has failed for a reason that is not known to be temporary."""
        self._pauses = PATIENCE.make_pauses()

    def forget_error(self) -> None:
        """Report no error from now on, because a batch is committed."""
        self.error = None

    def choose_pause(self, failure: Failure, *, has_committed: bool) -> float | None:
        """
        Return how long to wait before the next query. Return None if the job must end.

        `has_committed` says whether the failed query had committed a batch before.
        """
        self.error = failure.message
        if has_committed:
            self._batch_failures, self._pauses = 0, PATIENCE.make_pauses()
        self._batch_failures += failure.is_in_batch and failure.cure is Cure.RETRY
        if failure.cure is Cure.USER or self._batch_failures == MOST_FAILURES:
            return None
        return next(self._pauses)
