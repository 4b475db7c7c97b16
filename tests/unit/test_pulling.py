"""A pull sequence moves on only by what it was given, and only forward."""

from collections.abc import Sequence
from typing import Any

import pytest

from mq_client import errors, filters
from mq_client.commands.cluster import GetRoute
from mq_client.commands.consuming import Pull
from mq_client.directory import Directory, Times
from mq_client.flows import Ask, Flow, Pause
from mq_client.machine import Machine
from mq_client.operations import pulling
from mq_client.pulling import Batch, OffsetGoneError, Position
from mq_client.values import BrokerRoute, Pulled, PullStatus, Queue, Route

QUEUE = Queue("orders", "broker-a", 3)


def pulled(status: PullStatus, next_offset: int, suggested: int = 0) -> Pulled:
    return Pulled(status, next_offset, 0, 1000, suggested, b"")


def found(next_offset: int, suggested: int = 0) -> Pulled:
    return pulled(PullStatus.FOUND, next_offset, suggested)


def route(*addresses: str) -> Route:
    by_id = dict(enumerate(addresses))
    return Route("orders", (BrokerRoute("broker-a", "c", by_id, 4, 4, 6),))


class Clock:
    """Goes on only when a flow pauses."""

    def __init__(self) -> None:
        self.seconds = 0.0
        machine = Machine(lambda: self.seconds, lambda: 0, lambda: "id")
        times = Times(first_pause=1, longest_pause=4, patience=10)
        self.directory = Directory("ns:1", machine, times)


def play(clock: Clock, flow: Flow[Batch | None], script: Sequence[Any]) -> tuple[Any, list[str]]:
    """Answer what a flow asks from a script; what it returned, and whom it asked."""
    answers = list(script)
    asked: list[str] = []
    outcome: Any = None
    while True:
        try:
            step = flow.throw(outcome) if isinstance(outcome, Exception) else flow.send(outcome)
        except StopIteration as stop:
            assert not answers, f"never asked for: {answers}"
            return stop.value, asked
        if isinstance(step, Pause):
            clock.seconds += step.seconds
            outcome = None
        else:
            assert isinstance(step, Ask)
            asked.append(step.address)
            is_route = isinstance(answers[0], Route) or isinstance(step.request, GetRoute)
            assert is_route == isinstance(step.request, GetRoute)
            outcome = answers.pop(0)


def test_found_messages_reach_from_the_place_asked_for_to_the_next_one() -> None:
    position = Position(QUEUE, 5)
    batch = position.take(found(9))
    assert batch is not None
    assert (batch.first, batch.stop, position.next) == (5, 9, 9)


def test_a_batch_is_cut_where_the_sequence_ends() -> None:
    position = Position(QUEUE, 5, stop=7)
    batch = position.take(found(9))
    assert batch is not None
    assert (batch.stop, position.next, position.is_done) == (7, 7, True)


def test_an_answer_that_does_not_move_on_gives_nothing() -> None:
    position = Position(QUEUE, 5)
    assert position.take(found(5)) is None
    assert position.take(found(4)) is None
    assert position.next == 5


def test_what_the_filter_passed_over_is_not_looked_at_again() -> None:
    position = Position(QUEUE, 5, stop=100)
    assert position.take(pulled(PullStatus.NOTHING_MATCHED, 80)) is None
    assert position.next == 80
    position.take(pulled(PullStatus.NOTHING_MATCHED, 800))
    assert (position.next, position.is_done) == (100, True)


def test_nothing_new_leaves_the_place_as_it_is() -> None:
    position = Position(QUEUE, 5)
    assert position.take(pulled(PullStatus.NOTHING_NEW, 99)) is None
    assert position.next == 5


def test_deleted_messages_are_an_error_that_names_them() -> None:
    position = Position(QUEUE, 5)
    with pytest.raises(OffsetGoneError, match="orders@broker-a 3: offsets 5 to 39") as caught:
        position.take(pulled(PullStatus.OFFSET_MOVED, 40))
    assert (caught.value.asked, caught.value.first, position.next) == (5, 40, 5)


def test_deleted_messages_are_a_gap_on_record_where_gaps_are_allowed() -> None:
    position = Position(QUEUE, 5, stop=30, allow_gaps=True)
    assert position.take(pulled(PullStatus.OFFSET_MOVED, 20)) is None
    assert position.take(pulled(PullStatus.OFFSET_MOVED, 40)) is None
    assert (position.gaps, position.is_done) == ([(5, 20), (20, 30)], True)


def test_a_pull_goes_to_the_broker_that_the_last_answer_suggested() -> None:
    clock = Clock()
    position = Position(QUEUE, 0)
    script = [route("master:1", "slave:1"), found(5, suggested=1)]
    assert play(clock, pulling.next_batch(clock.directory, "g", position), script)[1] == [
        "ns:1",
        "master:1",
    ]
    assert play(clock, pulling.next_batch(clock.directory, "g", position), [found(9)])[1] == [
        "slave:1"
    ]


def test_a_broker_that_died_is_looked_up_anew_and_asked_for_the_same() -> None:
    clock = Clock()
    lost = errors.ConnectionLostError("reset")
    position = Position(QUEUE, 7)
    flow = pulling.next_batch(clock.directory, "g", position)
    batch, asked = play(clock, flow, [route("old:1"), lost, route("new:1"), found(9)])
    assert asked == ["ns:1", "old:1", "ns:1", "new:1"]
    assert (batch.first, batch.stop) == (7, 9)


def test_a_slave_that_lags_is_waited_for_and_the_place_never_goes_back() -> None:
    clock = Clock()
    behind = pulled(PullStatus.OFFSET_MOVED, 3)
    position = Position(QUEUE, 7)
    flow = pulling.next_batch(clock.directory, "g", position)
    batch, _ = play(
        clock, flow, [route("a:1"), behind, route("a:1"), behind, route("a:1"), found(8)]
    )
    assert (batch.first, clock.seconds) == (7, 1 + 2)


def test_patience_ends_and_the_place_is_kept() -> None:
    clock = Clock()
    lost = errors.ConnectionLostError("refused")
    position = Position(QUEUE, 7)
    flow = pulling.next_batch(clock.directory, "g", position)
    with pytest.raises(errors.ConnectionLostError, match="refused"):
        play(clock, flow, [route("a:1"), lost] + [route("a:1"), lost] * 5)
    assert (position.next, clock.seconds) == (7, 1 + 2 + 4 + 4)


def test_an_answer_in_between_gives_patience_anew() -> None:
    clock = Clock()
    lost = errors.ConnectionLostError("refused")
    flow = pulling.next_batch(clock.directory, "g", Position(QUEUE, 7))
    script: list[Any] = [route("a:1"), lost]
    for _ in range(5):
        script += [route("a:1"), pulled(PullStatus.NOTHING_NEW, 7), lost]
    script += [route("a:1"), found(8)]
    batch, _ = play(clock, flow, script)
    assert batch.stop == 8


def test_a_refusal_that_time_does_not_heal_is_raised_at_once() -> None:
    clock = Clock()
    refused = errors.SubscriptionError("PULL_MESSAGE", "a:1", 23, "bad expression")
    flow = pulling.next_batch(clock.directory, "g", Position(QUEUE, 7))
    with pytest.raises(errors.SubscriptionError):
        play(clock, flow, [route("a:1"), refused])


def test_a_sequence_that_is_done_asks_for_nothing() -> None:
    clock = Clock()
    flow = pulling.next_batch(clock.directory, "g", Position(QUEUE, 7, stop=7))
    assert play(clock, flow, []) == (None, [])


def test_a_pull_gives_its_subscription_along() -> None:
    request = Pull("g", "orders", 3, 7, 32, 1 << 20, 15_000, filters.tags("a || b"))
    fields = request.fields()
    assert (fields["subscription"], fields["expressionType"]) == ("a || b", "TAG")
    assert (fields["queueOffset"], fields["sysFlag"]) == ("7", "6")
