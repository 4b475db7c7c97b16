"""A driver follows the newest assignment, and keeps those that its batches still need."""

from contract.report import BareReport
from mq_client.errors import UsageError
from spark_jobs.pipeline.assignments import NO_ASSIGNMENT, JobAssignment
from spark_jobs.pipeline.following import AssignmentFollower


class Published:
    """Publishes assignments, or an error instead."""

    def __init__(self) -> None:
        self.newest: JobAssignment | str = NO_ASSIGNMENT

    def read_latest(self) -> JobAssignment:
        if isinstance(self.newest, str):
            raise UsageError(self.newest)
        return self.newest

    def report(self, report: BareReport) -> None:
        raise AssertionError

    def confirm(self) -> None:
        raise AssertionError


def epochs(followed: AssignmentFollower, most: int) -> list[int]:
    return [epoch for epoch in range(1, most + 1) if followed.find(epoch) != NO_ASSIGNMENT]


def test_the_newest_assignment_the_one_before_and_the_adopted_one_are_kept() -> None:
    published = Published()
    followed = AssignmentFollower(published)
    for epoch, adopted in ((1, 0), (2, 1), (3, 1), (4, 1)):
        published.newest = JobAssignment(epoch, ("s-0",))
        followed.read_newest(adopted)
    assert followed.newest.epoch == 4
    assert epochs(followed, 4) == [1, 3, 4]
    assert followed.find(2) == NO_ASSIGNMENT


def test_assignments_with_which_batches_are_planned_are_kept() -> None:
    published = Published()
    followed = AssignmentFollower(published)
    for epoch in range(1, 7):
        published.newest = JobAssignment(epoch, ("s-0",))
        followed.read_newest(1, needed={3, 4})
    assert epochs(followed, 6) == [1, 3, 4, 5, 6]


def test_a_broken_assignment_is_refused_and_the_one_before_is_followed() -> None:
    published = Published()
    followed = AssignmentFollower(published)
    published.newest = JobAssignment(1, ("s-0",))
    followed.read_newest(0)
    published.newest = "not JSON"
    followed.read_newest(0)
    assert (followed.refusal, followed.newest.epoch) == ("not JSON", 1)
    published.newest = JobAssignment(2, ("s-0",))
    followed.read_newest(0)
    assert (followed.refusal, followed.newest.epoch) == (None, 2)


def test_an_epoch_that_is_older_than_the_checkpoint_is_an_error_of_the_report() -> None:
    published = Published()
    followed = AssignmentFollower(published)
    published.newest = JobAssignment(2, ("s-0",))
    followed.read_newest(7)
    assert followed.refusal is not None
    assert "epoch 2 is older than 7" in followed.refusal


def test_pods_to_drain_are_read_even_if_the_epoch_stays() -> None:
    published = Published()
    followed = AssignmentFollower(published)
    for pods in (frozenset[str](), frozenset({"pod-1"})):
        published.newest = JobAssignment(1, ("s-0",), drained=pods)
        followed.read_newest(0)
    assert followed.drained == {"pod-1"}
