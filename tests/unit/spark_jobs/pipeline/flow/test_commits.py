"""Which commits count: those of a live session, for queues it holds, without gap or overlap."""

import random

import pytest

from coordinator.sessions import Revoked, Session
from mq_client.values import MessageQueue
from spark_jobs.pipeline.flow.commits import Commits
from spark_jobs.pipeline.flow.wire import CommitFigures, TaskCommit
from spark_jobs.planning import Range

A, B = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


def session(name: str, *held: MessageQueue) -> Session[MessageQueue]:
    return Session("billing-0", name, 0.0, 1, 1, set(held))


def asked(name: str, number: int, *ranges: tuple[MessageQueue, int, int]) -> TaskCommit:
    return TaskCommit(1, name, number, [Range(*each) for each in ranges], "", "", CommitFigures())


def test_commits_of_a_queue_lie_one_behind_the_other() -> None:
    commits = Commits({A: 10, B: 0})
    live = session("s", A, B)
    assert commits.accept(asked("s", 1, (A, 10, 15), (B, 0, 3)), live)
    assert not commits.accept(asked("s", 2, (A, 14, 20)), live), "an overlap"
    assert not commits.accept(asked("s", 3, (A, 16, 20)), live), "a hole"
    assert commits.ends == {A: 15, B: 3}


def test_a_commit_counts_whole_or_not_at_all() -> None:
    commits = Commits({A: 10, B: 0})
    assert not commits.accept(asked("s", 1, (A, 10, 15), (B, 1, 3)), session("s", A, B))
    assert commits.ends == {A: 10, B: 0}


@pytest.mark.parametrize(
    ("name", "live"),
    [
        ("over", None),
        ("over", session("next", A)),
        ("s", session("s")),
    ],
    ids=["no session", "a newer session", "a queue that is not held"],
)
def test_a_task_that_was_given_up_commits_nothing(
    name: str, live: Session[MessageQueue] | None
) -> None:
    commits = Commits({A: 10})
    assert not commits.accept(asked(name, 1, (A, 10, 15)), live)
    assert commits.ends == {A: 10}


def test_a_queue_that_is_leaving_is_still_committed() -> None:
    live = session("s")
    live.leaving[A] = Revoked(2, 0.0)
    assert Commits({A: 10}).accept(asked("s", 1, (A, 10, 15)), live)


def test_a_commit_that_comes_twice_is_known_until_its_session_is_over() -> None:
    commits = Commits({A: 10})
    first = asked("s", 1, (A, 10, 15))
    assert not commits.is_repeated(first)
    assert commits.accept(first, session("s", A))
    assert commits.is_repeated(first)
    assert not commits.is_repeated(asked("s", 2, (A, 15, 16)))
    commits.forget_others({"s", "other"})
    assert commits.is_repeated(first)
    commits.forget_others({"other"})
    assert not commits.is_repeated(first)


def test_new_queues_begin_and_others_stay_where_they_are() -> None:
    commits = Commits({A: 10})
    commits.begin({A: 0, B: 7})
    assert commits.ends == {A: 10, B: 7}


def test_whatever_comes_in_any_order_no_offset_is_committed_twice(seed: int) -> None:
    """Tasks are replaced at random, and old ones go on committing as if nothing had happened."""
    rng = random.Random(seed)
    commits = Commits({A: 0})
    counted: list[tuple[int, int]] = []
    tasks = [(session("s0", A), 0)]
    for number in range(1, 500):
        if rng.random() < 0.1:
            tasks.append((session(f"s{number}", A), commits.ends[A]))
        place = max(0, len(tasks) - 1 - rng.randrange(3))
        task, at = tasks[place]
        stop = at + rng.randrange(1, 5)
        if commits.accept(asked(task.id, number, (A, at, stop)), tasks[-1][0]):
            counted.append((at, stop))
        tasks[place] = task, stop
    assert len(counted) > 50
    assert [start for start, _ in counted[1:]] == [stop for _, stop in counted[:-1]]
