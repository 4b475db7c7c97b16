"""What the next micro-batch reads, from logged offsets and the brokers' answers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mq_client.errors import NoBrokerError, UsageError
from mq_client.values import MessageQueue, Offsets
from spark_jobs import planning
from spark_jobs.planning import BatchLimits, DataLossError, Loss, Range, SeenOffsets

A0, A1 = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
B0 = MessageQueue("orders", "broker-b", 0)
BROKERS = frozenset({("orders", "broker-a"), ("orders", "broker-b")})

BACKLOGS = st.dictionaries(
    st.builds(MessageQueue, st.just("orders"), st.sampled_from("ab"), st.integers(0, 9)),
    st.integers(0, 10**6),
    min_size=1,
)


def seen(queues: dict[MessageQueue, tuple[int, int]]) -> SeenOffsets:
    """Make the answers of all brokers: queues with their beginnings and ends."""
    return SeenOffsets({queue: Offsets(*ends, 0) for queue, ends in queues.items()}, BROKERS)


# --- shares


@given(BACKLOGS, st.integers(1, 10**6))
def test_a_limit_of_messages_is_kept_and_no_queue_starves(
    backlog: dict[MessageQueue, int], most: int
) -> None:
    shares = BatchLimits(messages=most).share_out(backlog)
    waiting = {queue for queue, count in backlog.items() if count}
    assert shares.keys() == waiting
    assert all(1 <= count <= backlog[queue] for queue, count in shares.items())
    assert sum(shares.values()) <= max(most, len(waiting))


@given(BACKLOGS, st.integers(1, 10**9), st.data())
def test_a_limit_of_bytes_is_kept_and_no_queue_starves(
    backlog: dict[MessageQueue, int], most: int, data: st.DataObject
) -> None:
    sizes = {queue: data.draw(st.integers(0, 10**5)) for queue in backlog}
    shares = BatchLimits(bytes=most, message_bytes=sizes).share_out(backlog)
    waiting = {queue for queue, count in backlog.items() if count}
    assert all(1 <= shares[queue] <= backlog[queue] for queue in waiting)
    taken = sum(sizes[queue] * count for queue, count in shares.items())
    assert taken <= max(most, sum(sizes[queue] for queue in waiting)) * (1 + 1e-9)


@given(BACKLOGS)
def test_a_batch_takes_all_when_all_is_within_the_limits(backlog: dict[MessageQueue, int]) -> None:
    waiting = {queue: count for queue, count in backlog.items() if count}
    sizes = dict.fromkeys(backlog, 100.0)
    size = 100 * sum(waiting.values())
    assert BatchLimits(max(1, sum(waiting.values())), size, sizes).share_out(backlog) == waiting
    assert planning.NO_LIMITS.share_out(backlog) == waiting


def test_a_limit_is_used_up_but_for_less_than_one_message_a_queue() -> None:
    shares = BatchLimits(messages=100).share_out({A0: 1000, A1: 3000, B0: 500})
    assert sum(shares.values()) > 100 - 3
    assert shares[A1] > shares[A0] > shares[B0]


def test_queues_become_level_at_about_the_same_time() -> None:
    backlog = {A0: 10_000, A1: 40_000}
    shares = BatchLimits(messages=5_000).share_out(backlog)
    assert abs(shares[A0] / backlog[A0] - shares[A1] / backlog[A1]) < 0.001


def test_the_stricter_of_two_limits_holds() -> None:
    backlog, sizes = {A0: 1000}, {A0: 10.0}
    assert BatchLimits(messages=50, bytes=10_000, message_bytes=sizes).share_out(backlog) == {
        A0: 50
    }
    assert BatchLimits(messages=500, bytes=100, message_bytes=sizes).share_out(backlog) == {A0: 10}


def test_a_message_that_is_larger_than_the_limit_is_read_alone() -> None:
    assert BatchLimits(bytes=10, message_bytes={A0: 5e6}).share_out({A0: 7}) == {A0: 1}


# --- what a batch reads


def test_a_batch_reads_all_that_waits() -> None:
    assert planning.advance({A0: 5, A1: 0}, seen({A0: (0, 9), A1: (0, 4)}), {}) == {A0: 9, A1: 4}


def test_a_queue_without_new_messages_stays_beside_a_busy_one() -> None:
    end = planning.advance({A0: 5, A1: 0}, seen({A0: (0, 5), A1: (0, 1000)}), {}, BatchLimits(10))
    assert end == {A0: 5, A1: 10}


def test_a_new_queue_enters_the_journal_before_it_is_read() -> None:
    now = seen({A0: (0, 9), A1: (3, 9)})
    first = planning.advance({A0: 5}, now, {A1: 3})
    assert first == {A0: 9, A1: 3}
    assert planning.plan_ranges({A0: 5}, first) == [Range(A0, 5, 9)]
    assert planning.plan_ranges(first, planning.advance(first, now, {})) == [Range(A1, 3, 9)]


def test_ranges_are_those_between_two_journaled_offsets_in_the_order_of_queues() -> None:
    start = {B0: 1, A1: 5, A0: 0}
    assert planning.plan_ranges(start, {B0: 4, A1: 5, A0: 2}) == [Range(A0, 0, 2), Range(B0, 1, 4)]
    assert planning.plan_ranges(start, {A0: 2}) == [Range(A0, 0, 2)]
    assert planning.plan_ranges({A0: 9}, {A0: 2}) == []


def test_a_queue_of_a_silent_broker_stays_where_it_is() -> None:
    now = SeenOffsets(
        {A0: Offsets(0, 9, 0)}, frozenset({("orders", "broker-a")}),
        {"broker-b": NoBrokerError("x")},
    )  # fmt: skip
    assert planning.find_losses({A0: 5, B0: 7}, now) == []
    assert planning.advance({A0: 5, B0: 7}, now, {}) == {A0: 9, B0: 7}


def test_the_backlog_counts_what_is_still_there() -> None:
    now = seen({A0: (10, 30), A1: (0, 3)})
    assert planning.count_lag({A0: 5, A1: 7, B0: 1}, now) == {A0: 20, A1: 0}


@given(
    st.dictionaries(st.sampled_from([A0, A1, B0]), st.integers(0, 50)),
    st.dictionaries(
        st.sampled_from([A0, A1, B0]), st.tuples(st.integers(0, 50), st.integers(0, 50))
    ),
    st.integers(1, 60),
)
def test_repeated_batches_read_each_waiting_message_once(
    start: dict[MessageQueue, int], ends: dict[MessageQueue, tuple[int, int]], most: int
) -> None:
    now = seen({queue: (low, low + count) for queue, (low, count) in ends.items()})
    read: list[tuple[MessageQueue, int]] = []
    at = start
    for _ in range(200):
        new = {queue: held.min for queue, held in now.queues.items() if queue not in at}
        end = planning.advance(at, now, new, BatchLimits(most))
        for each in planning.plan_ranges(at, end):
            read += [(each.queue, offset) for offset in range(each.start, each.stop)]
        at = end
    waiting = {
        (queue, offset)
        for queue, held in now.queues.items()
        for offset in range(max(held.min, start.get(queue, 0)), held.max)
    }
    assert len(read) == len(set(read))
    there = {(queue, offset) for queue, offset in read if offset >= now.queues[queue].min}
    assert there == waiting


# --- losses


def test_a_queue_that_is_no_more_is_a_loss_and_leaves_the_journal() -> None:
    now = seen({A0: (0, 9)})
    assert planning.find_losses({A0: 9, A1: 4}, now) == [
        Loss(A1, "the topic no longer has this queue, which was read up to 4")
    ]
    assert planning.advance({A0: 9, A1: 4}, now, {}) == {A0: 9}


def test_deleted_offsets_are_a_loss_and_are_passed_over() -> None:
    now = seen({A0: (20, 30)})
    assert planning.find_losses({A0: 5}, now) == [Loss(A0, "offsets 5 to 19 are deleted")]
    assert planning.advance({A0: 5}, now, {}) == {A0: 30}
    assert planning.advance({A0: 5}, now, {}, BatchLimits(1)) == {A0: 21}


def test_an_offset_behind_the_queues_end_is_a_loss_and_goes_back_to_the_end() -> None:
    now = seen({A0: (0, 3)})
    (loss,) = planning.find_losses({A0: 5}, now)
    assert "it ends at 3, but was read up to 5" in str(loss)
    assert planning.advance({A0: 5}, now, {}) == {A0: 3}


@pytest.mark.parametrize("offset", [20, 25, 30])
def test_an_offset_within_the_queue_is_no_loss(offset: int) -> None:
    assert planning.find_losses({A0: offset}, seen({A0: (20, 30)})) == []


def test_the_error_names_all_losses_and_the_way_on() -> None:
    found = planning.find_losses({A0: 5, A1: 5}, seen({A0: (0, 3)}))
    with pytest.raises(DataLossError, match=r"broker-a 0: .*broker-a 1: .*failOnDataLoss=false"):
        planning.refuse_losses(found)
    planning.refuse_losses([])


# --- ends that users give


def test_available_now_does_not_go_behind_its_ends() -> None:
    now = seen({A0: (0, 100), A1: (0, 100)}).cut_at({A0: 10, A1: 500}, {A0: 5, A1: 5})
    assert planning.advance({A0: 5, A1: 5}, now, {}) == {A0: 10, A1: 100}


def test_available_now_leaves_a_queue_alone_that_it_did_not_see_at_first() -> None:
    now = seen({A0: (0, 100), A1: (7, 100)})
    known = now.cut_at({}, {A0: 5})
    assert planning.advance({A0: 5}, known, {A1: 7}) == {A0: 5, A1: 7}
    later = now.cut_at({}, {A0: 5, A1: 7})
    assert planning.advance({A0: 5, A1: 7}, later, {}) == {A0: 5, A1: 7}


def test_available_now_still_sees_losses() -> None:
    now = seen({A0: (0, 3)}).cut_at({A0: 3}, {A0: 5})
    assert len(planning.find_losses({A0: 5}, now)) == 1
    silent_before = seen({A0: (0, 3)}).cut_at({}, {A0: 5})
    assert len(planning.find_losses({A0: 5}, silent_before)) == 1


def test_a_place_behind_the_end_of_a_queue_is_refused_at_once() -> None:
    now = seen({A0: (0, 9)})
    planning.check_ends("endAt", {A0: 9}, now)
    with pytest.raises(UsageError, match="endAt: orders@broker-a 0 ends at 9, before 10"):
        planning.check_ends("endAt", {A0: 10}, now)


def test_a_bounded_read_refuses_what_may_not_be_read_now() -> None:
    now = replace(seen({A0: (0, 9), A1: (0, 9)}), barred=frozenset({A0}))
    planning.check_readable([Range(A1, 0, 9)], now)
    with pytest.raises(UsageError, match=r"orders@broker-a 0 may not be read now: .* lost READ"):
        planning.check_readable([Range(A0, 0, 9)], now)


def test_what_a_slave_does_not_hold_is_its_masters_to_give() -> None:
    now = replace(seen({A0: (3, 9)}), answered=frozenset(), by_slave=BROKERS)
    planning.check_readable([Range(A0, 3, 9)], now)
    planning.check_ends("endAt", {A0: 9}, now)
    with pytest.raises(NoBrokerError, match="begins at 3 on a slave, after 2, and the master"):
        planning.check_readable([Range(A0, 2, 9)], now)
    with pytest.raises(NoBrokerError, match=r"endAt: .* ends at 9 on a slave, before 10"):
        planning.check_ends("endAt", {A0: 10}, now)
    assert planning.find_losses({A0: 2, A1: 5, B0: 5}, now) == []
    assert planning.find_losses({A0: 10}, now) == []
