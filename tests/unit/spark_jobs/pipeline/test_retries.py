"""When a batch that failed runs again, and when the job ends instead."""

from spark_jobs.pipeline.failures import Cure, Failure
from spark_jobs.pipeline.retries import MOST_FAILURES, BatchRetries

DOWN = Failure("broker-a is down", Cure.TIME, is_in_batch=True)
ODD = Failure("it failed", Cure.RETRY, is_in_batch=True)
OUTSIDE = Failure("Spark does not answer", Cure.RETRY)
WRONG = Failure("no such column", Cure.USER, is_in_batch=True)


def pauses(retries: BatchRetries, failure: Failure, times: int) -> list[float | None]:
    return [retries.choose_pause(failure) for _ in range(times)]


def test_a_failure_that_passes_is_retried_with_growing_pauses() -> None:
    assert pauses(BatchRetries(), DOWN, 7) == [1, 2, 4, 8, 16, 30, 30]


def test_a_job_ends_at_once_when_its_user_must_change_something() -> None:
    assert pauses(BatchRetries(), WRONG, 1) == [None]


def test_a_job_ends_when_the_same_batch_has_failed_three_times() -> None:
    assert pauses(BatchRetries(), ODD, MOST_FAILURES) == [1, 2, None]


def test_failures_outside_of_batches_never_end_a_job() -> None:
    assert None not in pauses(BatchRetries(), OUTSIDE, 10)


def test_a_committed_batch_starts_the_count_and_the_pauses_again() -> None:
    retries = BatchRetries()
    assert pauses(retries, ODD, 2) == [1, 2]
    retries.forget()
    assert pauses(retries, ODD, 3) == [1, 2, None]


def test_the_last_failure_is_the_error_until_a_batch_is_committed() -> None:
    retries = BatchRetries()
    pauses(retries, DOWN, 1)
    assert retries.error == "broker-a is down"
    retries.forget()
    assert retries.error is None
