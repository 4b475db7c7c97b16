"""The demo waits without a limit, but not for a driver that has given up."""

import pytest

from contract import exit_codes
from contract.kinds.groups import JobRecord
from demo.__main__ import MOST_FAILURES, has_given_up


@pytest.mark.parametrize(
    ("job", "has"),
    [
        (JobRecord(), False),
        (JobRecord(exit_code=exit_codes.TRY_AGAIN, failures=1), False),
        (JobRecord(exit_code=exit_codes.TRY_AGAIN, failures=MOST_FAILURES), True),
        (JobRecord(exit_code=exit_codes.PERMANENT, failures=1), True),
    ],
    ids=["never failed", "failed once", "failed again and again", "somebody must change something"],
)
def test_a_driver_that_fails_for_good_ends_the_demo(job: JobRecord, has: bool) -> None:
    assert has_given_up(job) is has
