"""What a batch reads, by the journal and the brokers' answers."""

import pytest

from mq_client.errors import NoBrokerError
from mq_client.values import MessageQueue, Offsets
from spark_jobs import journal
from spark_jobs.pipeline.checkpoint.begins import QueueBegins
from spark_jobs.pipeline.checkpoint.journal import CheckpointState
from spark_jobs.planning import Range
from tests.pinned_jobs import (
    A,
    B,
    Held,
    commit,
    make_begins,
    make_planner,
    make_state,
    plan_batch,
    read_plan,
)


def find_stands(state: CheckpointState) -> dict[MessageQueue, int]:
    return journal.read_offsets(state.offsets)


@pytest.mark.parametrize(("stands", "begin"), [({B: 7}, 7), ({}, 3), ({B: 1}, 3), ({B: 99}, 20)])
def test_a_queue_that_is_open_again_goes_on_where_the_group_stands(
    stands: dict[MessageQueue, int], begin: int
) -> None:
    """A committed offset that no longer exists is replaced by the nearest one that does."""
    state = plan_batch(make_state({A: 5}), make_begins("earliest", stands))
    assert find_stands(state) == {A: 5, B: begin}, "the beginning is in the journal first"
    assert read_plan(state).ranges == [Range(A, 5, 10)], "it is read from the next batch on"
    assert find_stands(commit(state)) == {A: 10, B: begin}


def test_a_topic_that_is_taken_out_of_a_job_is_no_part_of_its_plan() -> None:
    begins = make_begins("earliest", {})
    out = MessageQueue("payments", "broker-a", 0)
    state = plan_batch(make_state({A: 5, B: 3, out: 7}), begins)
    assert read_plan(state).ranges == [Range(A, 5, 10), Range(B, 3, 20)]
    committed = commit(state)
    assert committed == make_state({A: 10, B: 20}, {out: 7}, batch=5)
    assert plan_batch(committed, begins) == committed, "nothing is new"


def test_a_topic_that_is_back_and_has_lost_messages_is_told_when_that_is_passed_over() -> None:
    state = plan_batch(make_state({B: 20}, {A: 50}), make_begins("earliest", {}), skip="yes")
    (told,) = read_plan(state).planned.turned_back
    assert told.startswith(f"{A}: it ends at 10, but was read up to 50")
    assert (read_plan(state).ranges, find_stands(state)[A]) == ([], 10)


@pytest.mark.parametrize(("stands", "begin"), [({}, 5), ({A: 2}, 5), ({A: 8}, 8), ({A: 99}, 10)])
def test_a_topic_that_is_back_goes_on_where_it_was_or_where_its_group_stands(
    stands: dict[MessageQueue, int], begin: int
) -> None:
    state = plan_batch(make_state({}, {A: 5}), make_begins("latest", stands))
    assert state == make_state({A: begin, B: 3}), "nothing is read yet"


@pytest.mark.parametrize(
    ("stands", "begin"),
    [({}, {A: 10, B: 20}), ({A: 7}, {A: 7, B: 3}), ({A: 7, B: 8}, {A: 7, B: 8})],
    ids=["a new group", "one with a new queue", "one that has lost its checkpoint"],
)
def test_only_a_groups_first_run_begins_where_it_is_told(
    stands: dict[MessageQueue, int], begin: dict[MessageQueue, int]
) -> None:
    assert make_begins("latest", stands).find_all() == begin


def test_an_assignment_is_adopted_with_the_batch_that_follows_it_and_never_an_older_one() -> None:
    begins, there = make_begins("earliest", {}), make_state({A: 10, B: 20}, epoch=3)
    assert plan_batch(there, begins, epoch=4) == make_state({A: 10, B: 20}, epoch=4)
    assert plan_batch(there, begins, epoch=2) == there
    planned = plan_batch(make_state({A: 9, B: 20}, epoch=3), begins, epoch=4)
    assert (planned.epoch, commit(planned).epoch) == (3, 4)


AWAY = MessageQueue("orders", "broker-b", 0)


def make_two_brokers(begins_stand: int) -> tuple[QueueBegins, Held]:
    """Make begins with a queue on each of two brokers, and the brokers."""
    begins = make_begins("earliest", {})
    held = Held({AWAY: begins_stand}, {A: Offsets(0, 10, 0), AWAY: Offsets(0, 10, 0)})
    begins._observer = held  # type: ignore[assignment]  # it uses no more
    return begins, held


def test_a_scheduled_run_does_not_end_while_a_broker_with_unread_messages_is_away() -> None:
    begins, held = make_two_brokers(0)
    planner, state = make_planner(begins, is_scheduled=True), make_state({A: 0, AWAY: 0})
    held.silent = {"broker-b": NoBrokerError("broker-b is down")}
    with pytest.raises(NoBrokerError, match="broker-b is down"):
        planner.plan(state)  # nobody knows yet what there is to read
    held.silent = {}
    assert len(read_plan(planner.plan(state)).ranges) == 2
    held.silent = {"broker-b": NoBrokerError("broker-b is down")}
    state = commit(planner.plan(state))
    assert find_stands(state) == {A: 10, AWAY: 0}
    with pytest.raises(NoBrokerError, match=r"broker-b 0 is not read up to offset 10 yet"):
        planner.plan(state)
    held.silent = {}
    state = commit(planner.plan(state))
    assert planner.plan(state) == state


def test_a_queue_that_appears_in_a_scheduled_run_begins_where_the_group_stands() -> None:
    begins, held = make_two_brokers(7)
    planner = make_planner(begins, is_scheduled=True)
    there = held.queues.pop(AWAY)
    state = commit(planner.plan(make_state({A: 0})))
    held.queues[AWAY] = there
    assert find_stands(planner.plan(state)) == {A: 10, AWAY: 7}


def test_a_request_to_skip_waits_for_all_brokers_because_it_counts_once() -> None:
    begins, held = make_two_brokers(0)
    held.silent = {"broker-b": NoBrokerError("broker-b is down")}
    with pytest.raises(NoBrokerError, match="broker-b is down"):
        plan_batch(make_state({A: 0, AWAY: 0}), begins, skip="May")
    assert read_plan(plan_batch(make_state({A: 0, AWAY: 0}), begins)).ranges
