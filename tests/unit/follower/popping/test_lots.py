"""Which messages a member takes, holds, renews and gives to its handler."""

import random
from collections.abc import Sequence

import pytest

from contract.following import PopTerms
from follower.popping.lots import LONGEST_BACKOFF, BrokerClock, Lot, Lots
from mq_client.messages import StoredMessage
from mq_client.popping import PopHandle, PoppedMessage, PopSource

BLANK = StoredMessage("orders", "broker-a", 0, 0, b"", {}, 0, 0, 0, b"", 0, b"", 0, 0, 0)
TERMS = PopTerms(["orders"], 60.0, 2, 16, 10.0)


def popped(*offsets: int, attempt: int = 0, size: int = 1) -> list[PoppedMessage]:
    return [
        PoppedMessage(
            BLANK._replace(queue_offset=offset, body=b"x" * size),
            PopHandle(0, 0, 60_000, 0, PopSource.TOPIC, "broker-a", 0, offset),
            attempt,
        )
        for offset in offsets
    ]


def list_offsets(lots: Sequence[Lot]) -> list[list[int]]:
    return [[each.handle.offset for each in lot.messages] for lot in lots]


def test_messages_are_cut_into_lots_and_given_out_in_their_order() -> None:
    lots = Lots(TERMS, calls=4, memory_bytes=1000)
    lots.take("orders", popped(1, 2, 3, 4, 5), 0.0)
    found = [lots.begin_next(0.0) for _ in range(4)]
    assert list_offsets([each for each in found if each]) == [[1, 2], [3, 4], [5]]
    assert found[3] is None


def test_a_slow_handler_gets_little_in_advance_and_a_fast_one_more() -> None:
    lots = Lots(TERMS, calls=3, memory_bytes=1000)
    assert lots.find_room(0.0) == 6  # a lot of two messages for each call
    lots.take("orders", popped(1, 2, 3), 0.0)
    assert lots.find_room(0.5) == 3
    for _ in range(2):
        lot = lots.begin_next(0.5)
        assert lot is not None
        lots.settle(lot, is_handled=True)
    assert lots.find_room(0.9) == 6  # the rate is not measured yet
    assert lots.find_room(1.0) == 6 + 1  # three a second, for half a second
    assert lots.find_room(2.0) == 6  # nothing was handled in this second


def test_a_pop_waits_until_half_of_the_room_is_free() -> None:
    lots = Lots(TERMS, calls=3, memory_bytes=1000)
    lots.take("orders", popped(1, 2, 3, 4), 0.0)
    assert lots.find_room(0.0) == 0
    assert lots.begin_next(0.0) is not None
    assert lots.find_room(0.0) == 4


def test_what_is_held_is_limited_by_its_bytes_too() -> None:
    lots = Lots(TERMS, calls=30, memory_bytes=100)
    lots.take("orders", popped(1, 2, size=50), 0.0)
    called = lots.begin_next(0.0)
    assert called is not None
    assert lots.find_room(0.0) == 0
    lots.settle(called, is_handled=True)
    assert lots.find_room(0.0) > 0


def test_a_lot_is_renewed_at_half_of_its_time_whether_it_waits_or_is_handled() -> None:
    lots = Lots(TERMS, calls=1, memory_bytes=1000)
    lots.take("orders", popped(1, 2, 3), 100.0)
    called = lots.begin_next(100.0)
    assert called is not None
    assert lots.find_next_renewal(100.0) == 130.0
    assert lots.begin_renewals(129.9) == []
    due = lots.begin_renewals(130.0)
    assert list_offsets(due) == [[1, 2], [3]]
    assert lots.begin_renewals(135.9) == []  # the requests are under way
    called.time.count_from(130.0)
    assert list_offsets(lots.begin_renewals(136.0)) == [[3]]  # its renewal has failed
    assert called.time.until == 190.0
    assert lots.begin_renewals(161.0) == [called]  # the time of the other one is over


def test_the_handler_does_not_begin_with_what_others_may_have_got() -> None:
    lots = Lots(TERMS, calls=1, memory_bytes=1000)
    lots.take("orders", popped(1, 2, 3), 0.0)
    first = lots.begin_next(53.9)
    assert first is not None
    assert not first.time.is_late(53.9)
    assert first.time.is_late(54.1)
    assert lots.begin_next(54.1) is None
    assert lots.waiting_messages == 0
    assert [*lots.held] == [first]
    assert lots.take_late() == 1
    assert lots.take_late() == 0


def test_single_messages_replace_their_lot() -> None:
    lots = Lots(TERMS, calls=1, memory_bytes=1000)
    lots.take("orders", popped(1, 2), 0.0)
    lot = lots.begin_next(0.0)
    assert lot is not None
    singles = lots.cut_singles(lot)
    assert list_offsets(singles) == [[1], [2]]
    assert [*lots.held] == singles
    assert lots.begin_renewals(30.0) == singles


def test_a_member_that_stops_gives_back_only_what_waits() -> None:
    lots = Lots(TERMS, calls=1, memory_bytes=1000)
    lots.take("orders", popped(1, 2, 3, 4), 0.0)
    called = lots.begin_next(0.0)
    assert list_offsets(lots.give_back_waiting(0.0)) == [[3, 4]]
    assert called is not None
    assert called in lots.held
    assert lots.begin_next(0.0) is None
    lots.take("orders", popped(5), 0.0)
    assert lots.give_back_waiting(60.0) == []  # others may have got it


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(0, 10.0), (1, 20.0), (3, 80.0), (15, LONGEST_BACKOFF), (5000, 7200.0)]
)
def test_each_failure_doubles_the_pause(attempt: int, seconds: float) -> None:
    lots = Lots(TERMS, calls=1, memory_bytes=1)
    assert lots.find_backoff(popped(1, attempt=attempt)[0]) == seconds


def test_in_any_history_each_message_is_given_out_at_most_once_and_never_late(
    rng: random.Random,
) -> None:
    for _ in range(200):
        terms = PopTerms(["orders"], rng.choice([1.0, 10.0, 60.0]), rng.randint(1, 4), 16, 1.0)
        lots = Lots(terms, rng.randint(1, 4), rng.choice([3, 1000]))
        now, offset = 0.0, 0
        called: list[Lot] = []
        given: set[int] = set()
        for _ in range(60):
            now += rng.choice([0.0, 0.1, terms.invisible_seconds / 4, terms.invisible_seconds])
            match rng.randint(0, 4):
                case 0:
                    room = lots.find_room(now)
                    lots.take("orders", popped(*range(offset, offset + room)), now)
                    offset += room
                case 1 if (lot := lots.begin_next(now)) is not None:
                    assert not lot.time.is_over(now)
                    offsets = {each.handle.offset for each in lot.messages}
                    assert not offsets & given
                    given |= offsets
                    called.append(lot)
                case 2 if called:
                    lots.settle(called.pop(rng.randrange(len(called))), is_handled=True)
                case 3:
                    for lot in lots.begin_renewals(now):
                        assert not lot.time.is_over(now)
                        if rng.random() < 0.7:
                            lot.time.count_from(now)
                case _:
                    pass
            assert lots.waiting_messages == sum(len(lot.messages) for lot in lots.waiting)
            assert lots.held_bytes == sum(lot.size for lot in lots.held)
            assert {*lots.held} == {*lots.waiting, *called}


def test_clocks_that_differ_make_no_answer_old() -> None:
    clock = BrokerClock()
    assert clock.find_age(popped_at=5_000.0, sent_at=9.0, now=10.0) == 0.0
    assert clock.find_age(popped_at=5_001.0, sent_at=10.0, now=11.25) == pytest.approx(0.25)


def test_a_frozen_process_sees_how_old_its_answer_is() -> None:
    clock = BrokerClock()
    clock.find_age(popped_at=5_000.0, sent_at=9.0, now=10.0)
    assert clock.find_age(popped_at=5_003.0, sent_at=12.0, now=43.0) == pytest.approx(30.0)
    assert clock.find_age(popped_at=5_033.0, sent_at=43.0, now=43.0) == 0.0


def test_a_brokers_clock_that_jumps_makes_answers_as_old_as_their_requests_at_most() -> None:
    clock = BrokerClock()
    clock.find_age(popped_at=5_000.0, sent_at=9.0, now=10.0)
    assert clock.find_age(popped_at=1_402.0, sent_at=10.0, now=12.0) == 2.0
    assert clock.find_age(popped_at=1_404.0, sent_at=13.0, now=14.0) <= 1.0
    assert clock.find_age(popped_at=9_005.0, sent_at=14.0, now=15.0) == 0.0
    assert clock.find_age(popped_at=9_006.0, sent_at=15.0, now=16.5) == pytest.approx(0.5)
