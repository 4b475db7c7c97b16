"""What a batch reads, by the journal and the brokers' answers."""

from dataclasses import replace

import pytest

from mq_client.errors import NoBrokerError
from mq_client.values import MessageQueue, Offsets
from spark_jobs import journal
from spark_jobs.pipeline.checkpoint import plans
from spark_jobs.pipeline.checkpoint.begins import QueueBegins
from spark_jobs.pipeline.checkpoint.journal import CheckpointState, PlannedBatch
from spark_jobs.planning import Range
from tests.pinned_jobs import (
    A,
    B,
    C,
    D,
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


def test_a_batch_follows_the_newest_assignment_and_never_one_before_the_adopted_one() -> None:
    begins, there = make_begins("earliest", {}), make_state({A: 9, B: 20}, epoch=3)
    for newest, followed in ((4, 4), (2, 3)):
        planned, epoch = make_planner(begins, epoch=newest).plan(there, {0})
        assert (read_plan(planned).planned.epoch, epoch) == (followed, followed)
    read = make_state({A: 10, B: 20}, epoch=3)
    assert make_planner(begins, epoch=4).plan(read, {0}) == (read, 4), "nothing is new"


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
        planner.plan(state, {0})  # nobody knows yet what there is to read
    held.silent = {}
    assert len(read_plan(planner.plan(state, {0})[0]).ranges) == 2
    held.silent = {"broker-b": NoBrokerError("broker-b is down")}
    state = commit(planner.plan(state, {0})[0])
    assert find_stands(state) == {A: 10, AWAY: 0}
    with pytest.raises(NoBrokerError, match=r"broker-b 0 is not read up to offset 10 yet"):
        planner.plan(state, {0})
    held.silent = {}
    state = commit(planner.plan(state, {0})[0])
    assert planner.plan(state, {0})[0] == state


def test_a_queue_that_appears_in_a_scheduled_run_begins_where_the_group_stands() -> None:
    begins, held = make_two_brokers(7)
    planner = make_planner(begins, is_scheduled=True)
    there = held.queues.pop(AWAY)
    state = commit(planner.plan(make_state({A: 0}), {0})[0])
    held.queues[AWAY] = there
    assert find_stands(planner.plan(state, {0})[0]) == {A: 10, AWAY: 7}


def test_a_request_to_skip_waits_for_all_brokers_because_it_counts_once() -> None:
    begins, held = make_two_brokers(0)
    held.silent = {"broker-b": NoBrokerError("broker-b is down")}
    with pytest.raises(NoBrokerError, match="broker-b is down"):
        plan_batch(make_state({A: 0, AWAY: 0}), begins, skip="May")
    assert read_plan(plan_batch(make_state({A: 0, AWAY: 0}), begins)).ranges


OWNERS = {A: "g-0", B: "g-1", C: "g-2", D: "g-1"}


def make_four_queues() -> QueueBegins:
    begins = make_begins("earliest", {})
    begins._observer = Held({}, dict.fromkeys(OWNERS, Offsets(0, 10, 0)))  # type: ignore[assignment]
    return begins


def describe(state: CheckpointState) -> list[tuple[int, int, list[Range]]]:
    return [
        (each.number, each.lane, list(map(journal.read_range, each.ranges)))
        for each in state.planned
    ]


def test_each_lane_gets_a_batch_of_the_queues_of_its_slots() -> None:
    planner = make_planner(make_four_queues(), "", 4, OWNERS, lanes=2)
    state, _ = planner.plan(make_state({A: 0, B: 1, C: 2, D: 10}), {0, 1})
    assert describe(state) == [
        (5, 0, [Range(A, 0, 10), Range(C, 2, 10)]), (6, 1, [Range(B, 1, 10)]),
    ]  # fmt: skip


def test_a_queue_is_in_no_second_batch_before_the_first_one_is_committed() -> None:
    """The slot of the queue moves to another lane while a batch reads the queue."""
    begins = make_four_queues()
    before = make_state({A: 0, B: 10, C: 10, D: 10})
    state, _ = make_planner(begins, "", 4, OWNERS, lanes=2).plan(before, {0, 1})
    begins._observer.queues[A] = Offsets(0, 15, 0)  # type: ignore[attr-defined]  # it is `Held`
    moved = make_planner(begins, "", 5, OWNERS | {A: "g-1"}, lanes=2)
    assert moved.plan(state, {1}) == (state, 5)
    state = plans.commit(state, state.planned[0])
    assert describe(moved.plan(state, {1})[0]) == [(6, 1, [Range(A, 10, 15)])]


def test_messages_that_are_deleted_while_a_batch_reads_them_are_no_loss_for_other_lanes() -> None:
    begins = make_four_queues()
    before = make_state(dict.fromkeys(OWNERS, 0))
    state, _ = make_planner(begins, "", 4, OWNERS, lanes=2).plan(before, {0})
    begins._observer.queues[A] = Offsets(5, 12, 0)  # type: ignore[attr-defined]  # it is `Held`
    state, _ = make_planner(begins, "", 4, OWNERS, lanes=2).plan(state, {1})
    assert describe(state)[1:] == [(6, 1, [Range(B, 0, 10), Range(D, 0, 10)])]


def test_the_queues_of_a_lane_that_is_not_idle_stay_as_they_are() -> None:
    """They have lost messages, which only a batch may skip."""
    begins = make_four_queues()
    begins._observer.queues[A] = Offsets(5, 10, 0)  # type: ignore[attr-defined]  # it is `Held`
    begins._reading = replace(begins._reading, fail_on_data_loss=False)
    before = make_state({A: 0, B: 0, C: 10, D: 10})
    state, _ = make_planner(begins, "", 4, OWNERS, lanes=2).plan(before, {1})
    assert describe(state) == [(5, 1, [Range(B, 0, 10)])]
    assert find_stands(state) == {A: 0, B: 0, C: 10, D: 10}


def test_a_planned_batch_of_a_topic_that_is_taken_out_is_not_forgotten() -> None:
    """A flow would begin after its messages, if the topic were inactive before the commit."""
    begins = make_four_queues()
    out = MessageQueue("payments", "broker-a", 0)
    left = PlannedBatch(3, 1, "", {"expression": "*", "kind": "TAG"}, [(*out, 7, 9)], lane=1)
    before = make_state({A: 0, B: 10, C: 10, D: 10, out: 7}, planned=[left])
    state, _ = make_planner(begins, "", 4, OWNERS, lanes=2).plan(before, {0})
    assert (describe(state)[1], state.planned[0]) == ((5, 0, [Range(A, 0, 10)]), left)
    assert (find_stands(state)[out], state.aside) == (7, {})
    committed = plans.commit(state, left)
    assert (find_stands(committed)[out], committed.batch) == (9, 4)


def test_a_request_to_skip_is_carried_out_alone_in_one_batch_of_all_queues() -> None:
    planner = make_planner(make_four_queues(), "May", 4, OWNERS, lanes=2)
    running = PlannedBatch(5, 1, "", {"expression": "*", "kind": "TAG"}, [(*B, 0, 10)], lane=1)
    before = make_state(dict.fromkeys(OWNERS, 0))
    busy = make_state(dict.fromkeys(OWNERS, 0), planned=[running])
    assert planner.plan(busy, {0}) == (busy, busy.epoch)
    state, _ = planner.plan(before, {0, 1})
    assert describe(state) == [(5, 0, [Range(queue, 0, 10) for queue in sorted(OWNERS)])]
    assert planner.plan(state, {1}) == (state, state.epoch)
    without = make_planner(make_four_queues(), "", 4, OWNERS, lanes=2)
    assert without.plan(state, {1}) == (state, state.epoch), "a later driver has no request"


def test_the_limit_for_messages_is_for_each_lane() -> None:
    begins = make_four_queues()
    begins._reading = replace(begins._reading, most_messages=4)
    planner = make_planner(begins, "", 4, OWNERS, lanes=2)
    state, _ = planner.plan(make_state({A: 0, B: 0, C: 10, D: 10}), {0, 1})
    assert describe(state) == [(5, 0, [Range(A, 0, 4)]), (6, 1, [Range(B, 0, 4)])]
