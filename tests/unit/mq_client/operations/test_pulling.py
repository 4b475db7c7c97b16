"""A pull sequence advances only past offsets that it was given, and never goes back."""

from dataclasses import replace
from typing import Any

import pytest

from mq_client import errors, filters
from mq_client.commands.pulling import Pull
from mq_client.operations import pulling
from mq_client.pulling import ENOUGH_BYTES, MOST_MESSAGES, Batch, OffsetGoneError, Position
from mq_client.values import BrokerRoute, MessageQueue, Pulled, PullStatus, Route
from tests import stored
from tests.scripted import Stage

QUEUE = MessageQueue("orders", "broker-a", 3)


def pulled(
    status: PullStatus, next_offset: int, end: int | None = None, remark: str | None = None
) -> Pulled:
    return Pulled(status, next_offset, 0, next_offset if end is None else end, 0, b"", remark)


def found(first: int, next_offset: int, end: int | None = None, *, size: int = 0) -> Pulled:
    body = b"".join(stored.message(bytes(size), offset=n) for n in range(first, next_offset))
    return replace(pulled(PullStatus.FOUND, next_offset, end), body=body)


def read(position: Position, answer: Pulled) -> Batch | None:
    return position.take(position.read(answer))


def offsets(batch: Batch | None) -> list[int]:
    assert batch is not None
    return [message.queue_offset for message in batch.to_messages()]


def route(*addresses: str) -> Route:
    by_id = dict(enumerate(addresses))
    return Route("orders", (BrokerRoute("broker-a", "c", by_id, 4, 4, 6),))


def stage() -> Stage:
    return Stage(first_pause=1, longest_pause=4, patience=10)


def test_found_messages_reach_from_the_place_asked_for_to_the_next_one() -> None:
    position = Position(QUEUE, 5)
    batch = read(position, found(5, 9))
    assert batch is not None
    assert (batch.first, batch.stop, position.next) == (5, 9, 9)


def test_a_batch_is_cut_where_the_sequence_ends() -> None:
    position = Position(QUEUE, 5, stop=7)
    batch = read(position, found(5, 9))
    assert batch is not None
    assert (batch.stop, position.next, position.is_done) == (7, 7, True)


def test_an_answer_that_does_not_move_on_gives_nothing() -> None:
    position = Position(QUEUE, 5)
    assert read(position, found(5, 5)) is None
    assert read(position, found(4, 4)) is None
    assert position.next == 5


def test_what_the_filter_passed_over_is_not_looked_at_again() -> None:
    position = Position(QUEUE, 5, stop=100, wanted=filters.match_tags("paid"))
    assert read(position, pulled(PullStatus.NOTHING_MATCHED, 80)) is None
    assert position.next == 80
    read(position, pulled(PullStatus.NOTHING_MATCHED, 800))
    assert (position.next, position.is_done) == (100, True)


def test_nothing_new_leaves_the_place_as_it_is() -> None:
    position = Position(QUEUE, 5)
    assert read(position, pulled(PullStatus.NOTHING_NEW, 99)) is None
    assert position.next == 5


def test_deleted_messages_are_an_error_that_names_them() -> None:
    position = Position(QUEUE, 5)
    with pytest.raises(OffsetGoneError, match="orders@broker-a 3: offsets 5 to 39") as caught:
        read(position, pulled(PullStatus.OFFSET_MOVED, 40))
    assert (caught.value.asked, caught.value.first, position.next) == (5, 40, 5)


def test_deleted_messages_are_a_gap_on_record_where_gaps_are_allowed() -> None:
    position = Position(QUEUE, 5, stop=30, allow_gaps=True)
    assert read(position, pulled(PullStatus.OFFSET_MOVED, 20)) is None
    assert read(position, pulled(PullStatus.OFFSET_MOVED, 40)) is None
    assert (position.gaps, position.is_done) == ([(5, 20), (20, 30)], True)


def test_a_pull_goes_to_the_broker_that_the_last_answer_suggested() -> None:
    here = stage()
    position = Position(QUEUE, 0)
    script = [route("master:1", "slave:1"), replace(found(0, 5), suggested_broker_id=1)]
    assert here.play(pulling.pull_batch(here.directory, "g", position), script)[1] == [
        "ns:1",
        "master:1",
    ]
    assert here.play(pulling.pull_batch(here.directory, "g", position), [found(5, 9)])[1] == [
        "slave:1"
    ]


def test_a_broker_that_died_is_looked_up_anew_and_asked_for_the_same() -> None:
    here = stage()
    lost = errors.ConnectionLostError("reset")
    position = Position(QUEUE, 7)
    flow = pulling.pull_batch(here.directory, "g", position)
    batch, asked, _ = here.play(flow, [route("old:1"), lost, route("new:1"), found(7, 9)])
    assert asked == ["ns:1", "old:1", "ns:1", "new:1"]
    assert batch is not None
    assert (batch.first, batch.stop) == (7, 9)


def test_a_batch_without_messages_tells_how_far_the_filter_has_passed() -> None:
    here = stage()
    position = Position(QUEUE, 5, wanted=filters.match_tags("paid"))
    passed = [pulled(PullStatus.NOTHING_MATCHED, 80, end=90), found(5, 6)]
    flow = pulling.pull_batch(here.directory, "g", position, passing_seconds=0.0)
    batch, _, _ = here.play(flow, [route("a:1"), *passed])
    assert batch is not None
    assert (batch.first, batch.stop, batch.to_messages(), position.next) == (5, 80, [], 80)


def test_what_the_filter_passed_over_is_told_at_the_end_of_the_queue() -> None:
    here = stage()
    position = Position(QUEUE, 5, wanted=filters.match_tags("paid"))
    first = [pulled(PullStatus.NOTHING_MATCHED, 80, end=90), found(5, 6)]
    last = [pulled(PullStatus.NOTHING_MATCHED, 90), found(80, 81)]
    flow = pulling.pull_batch(here.directory, "g", position, passing_seconds=60.0)
    batch, _, _ = here.play(flow, [route("a:1"), *first, *last])
    assert batch is not None
    assert (batch.first, batch.stop) == (5, 90)


def test_a_slave_that_lags_is_waited_for_and_the_place_never_goes_back() -> None:
    here = stage()
    behind = pulled(PullStatus.OFFSET_MOVED, 3)
    position = Position(QUEUE, 7)
    flow = pulling.pull_batch(here.directory, "g", position)
    batch, _, _ = here.play(
        flow, [route("a:1"), behind, route("a:1"), behind, route("a:1"), found(7, 8)]
    )
    assert batch is not None
    assert (batch.first, here.seconds) == (7, 1 + 2)


def test_patience_ends_and_the_place_is_kept() -> None:
    here = stage()
    lost = errors.ConnectionLostError("refused")
    position = Position(QUEUE, 7)
    flow = pulling.pull_batch(here.directory, "g", position)
    with pytest.raises(errors.ConnectionLostError) as caught:
        here.play(flow, [route("a:1"), lost] + [route("a:1"), lost] * 5)
    assert str(caught.value) == (
        "orders@broker-a 3 from offset 7: all retries failed for 11 s (Times.patience); check "
        "that the queue's broker runs, then pull again from this offset; the last error was: "
        "refused"
    )
    assert (position.next, here.seconds) == (7, 1 + 2 + 4 + 4)


def test_an_answer_in_between_gives_patience_anew() -> None:
    here = stage()
    lost = errors.ConnectionLostError("refused")
    flow = pulling.pull_batch(here.directory, "g", Position(QUEUE, 7))
    script: list[Any] = [route("a:1"), lost]
    for _ in range(5):
        script += [route("a:1"), pulled(PullStatus.NOTHING_NEW, 7), lost]
    script += [route("a:1"), found(7, 8)]
    batch, _, _ = here.play(flow, script)
    assert batch is not None
    assert batch.stop == 8


def filtered() -> Position:
    return Position(QUEUE, 0, 9, filters.match_tags("paid"))


THERE = (found(0, 1, 9), found(3, 4, 9))
"""The results of two pulls without the filter, from 0 and from 3: one message each."""


def paid(*offsets: int, next_offset: int) -> Pulled:
    body = b"".join(
        stored.message(b"x", offset=offset, texts={"TAGS": "paid"}) for offset in offsets
    )
    return replace(pulled(PullStatus.FOUND, next_offset, 9), body=body)


def test_small_answers_are_joined_while_there_is_more() -> None:
    here = stage()
    position = filtered()
    flow = pulling.pull_batch(here.directory, "g", position)
    answers = [paid(0, 2, next_offset=3), THERE[0], pulled(PullStatus.NOTHING_MATCHED, 6, 9)]
    script = [route("a:1"), *answers, paid(7, next_offset=9), THERE[1]]
    batch, _, _ = here.play(flow, script)
    assert batch is not None
    assert offsets(batch) == [0, 2, 7]
    assert (batch.first, batch.stop, position.next) == (0, 9, 9)


def test_what_a_filter_may_hide_is_looked_at_without_it() -> None:
    """While a broker deletes, a pull with a filter finds later messages, and so hides the loss."""
    here = stage()
    position = filtered()
    flow = pulling.pull_batch(here.directory, "g", position)
    gone = pulled(PullStatus.NOTHING_MATCHED, 5, 9, "MESSAGE_WAS_REMOVING")
    answer = paid(7, next_offset=9)
    with pytest.raises(OffsetGoneError, match="offsets 0 to 4 are deleted"):
        here.play(flow, [route("a:1"), answer, gone, answer, gone])
    assert position.next == 0


def test_what_was_joined_is_not_given_where_a_look_misses_its_first_message() -> None:
    here = stage()
    position = filtered()
    flow = pulling.pull_batch(here.directory, "g", position)
    gone = pulled(PullStatus.NOTHING_MATCHED, 5, 9, "MESSAGE_WAS_REMOVING")
    script = [paid(0, next_offset=3), THERE[0], paid(7, next_offset=6), paid(8, next_offset=9)]
    batch, _, _ = here.play(flow, [route("a:1"), *script, gone])
    assert batch is not None
    assert offsets(batch) == [0]
    assert position.next == 3


def test_several_places_are_asked_for_at_once_where_answers_should_end() -> None:
    here = stage()
    position = Position(QUEUE, 0)
    flow = pulling.pull_batch(here.directory, "g", position)
    answers = [found(3 * number, 3 * number + 3, 20) for number in range(6)]
    batch, asked, _ = here.play(flow, [route("a:1"), *answers, found(18, 20)])
    assert batch is not None
    assert (batch.stop, len(asked)) == (20, 1 + 7)


@pytest.mark.parametrize("next_offset", [7, 11], ids=["fewer", "more"])
def test_an_answer_that_does_not_follow_on_is_thrown_away_and_asked_for_again(
    next_offset: int,
) -> None:
    here = stage()
    position = Position(QUEUE, 0)
    flow = pulling.pull_batch(here.directory, "g", position)
    at_once = [found(6, next_offset, 12), found(9, 12)]
    script = [found(0, 3, 12), found(3, 6, 12), *at_once]
    batch, _, _ = here.play(flow, [route("a:1"), *script, found(next_offset, 12)])
    assert offsets(batch) == list(range(12))
    assert position.next == 12


def test_nothing_is_asked_for_behind_the_end_of_a_sequence() -> None:
    here = stage()
    flow = pulling.pull_batch(here.directory, "g", Position(QUEUE, 0, stop=5))
    batch, _, _ = here.play(flow, [route("a:1"), found(0, 3, 99), found(3, 6, 99)])
    assert batch is not None
    assert batch.stop == 5


@pytest.mark.parametrize(
    ("stop", "size"), [(1, ENOUGH_BYTES), (MOST_MESSAGES, 0)], ids=["bytes", "messages"]
)
def test_what_is_large_enough_is_given_at_once(stop: int, size: int) -> None:
    here = stage()
    flow = pulling.pull_batch(here.directory, "g", Position(QUEUE, 0))
    answer = found(0, stop, 9999, size=size)
    batch, _, _ = here.play(flow, [route("a:1"), answer])
    assert batch is not None
    assert batch.body is answer.body


def test_no_more_is_asked_for_at_once_than_there_is_room_for() -> None:
    here = stage()
    flow = pulling.pull_batch(here.directory, "g", Position(QUEUE, 0), 250_000)
    script = [found(first, first + 3, 99, size=30_000) for first in (0, 3, 6)]
    batch, _, _ = here.play(flow, [route("a:1"), *script])
    assert batch is not None
    assert (batch.first, batch.stop) == (0, 9)


@pytest.mark.parametrize(
    "ending",
    [
        errors.ConnectionLostError("reset"),
        errors.NotPermittedError("PULL_MESSAGE", "a:1", 16, "no"),
        pulled(PullStatus.OFFSET_MOVED, 8),  # messages were deleted meanwhile
        pulled(PullStatus.OFFSET_MOVED, 2),  # from a slave that is behind
        pulled(PullStatus.NOTHING_NEW, 3, end=9),
    ],
    ids=["lost", "refused", "deleted", "lags", "nothing"],
)
def test_what_is_there_is_given_before_what_comes_next_goes_wrong(ending: Any) -> None:
    here = stage()
    position = Position(QUEUE, 0)
    flow = pulling.pull_batch(here.directory, "g", position)
    batch, _, _ = here.play(flow, [route("a:1"), found(0, 3, 9), ending])
    assert offsets(batch) == [0, 1, 2]
    assert (position.next, position.gaps) == (3, [])


def test_a_flow_that_is_given_up_leaves_the_place_as_it_was() -> None:
    here = stage()
    position = Position(QUEUE, 0, allow_gaps=True)
    flow = pulling.pull_batch(here.directory, "g", position)
    moved = pulled(PullStatus.OFFSET_MOVED, 2)
    for outcome in [None, route("a:1"), moved, None, moved, found(2, 3, 9)]:
        flow.send(outcome)
    flow.close()
    assert (position.next, position.gaps) == (0, [])


def test_a_refusal_that_time_does_not_heal_is_raised_at_once() -> None:
    here = stage()
    refused = errors.SubscriptionError("PULL_MESSAGE", "a:1", 23, "bad expression")
    flow = pulling.pull_batch(here.directory, "g", Position(QUEUE, 7))
    with pytest.raises(errors.SubscriptionError):
        here.play(flow, [route("a:1"), refused])


def test_a_sequence_that_is_done_asks_for_nothing() -> None:
    here = stage()
    flow = pulling.pull_batch(here.directory, "g", Position(QUEUE, 7, stop=7))
    assert here.play(flow, []) == (None, [], [])


def test_a_pull_gives_its_subscription_along() -> None:
    request = Pull("g", "orders", 3, 7, 32, 1 << 20, 15_000, filters.match_tags("a || b"))
    fields = request.list_fields()
    assert (fields["subscription"], fields["expressionType"]) == ("a || b", "TAG")
    assert (fields["queueOffset"], fields["sysFlag"]) == ("7", "6")


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"queue": ("orders", "broker-a", 3)}, "is not a queue"),
        ({"queue": QUEUE._replace(id=-1)}, "is not a queue"),
        ({"next": None}, "the offset to begin at is missing"),
        ({"next": "0"}, "'0' is not an offset"),
        ({"next": 1.5}, "1.5 is not an offset"),
        ({"stop": 1 << 63}, "is not an offset"),
        ({"wanted": "paid"}, "'paid' is not a filter"),
    ],
    ids=str,
)
def test_a_position_that_cannot_be_pulled_is_refused_at_once(wrong: Any, complaint: str) -> None:
    with pytest.raises(errors.UsageError, match=complaint):
        Position(**{"queue": QUEUE, "next": 0, **wrong})
