"""Positions are moved on every broker of the queues, or the caller hears why not."""

from typing import Any

import pytest

from mq_client import errors
from mq_client.commands.base import read_answer
from mq_client.commands.cluster import GetBrokerSettings
from mq_client.commands.groups import SetRequestMode
from mq_client.commands.offsets import ResetOffset
from mq_client.frames import Frame
from mq_client.operations import balance
from mq_client.values import BrokerRoute, Lag, MessageQueue, Offsets, Route
from tests.scripted import Stage

ROUTE = Route(
    "orders",
    (
        BrokerRoute("a", "c", {0: "a:1"}, 2, 2, 6),
        BrokerRoute("b", "c", {0: "b:1"}, 1, 1, 6),
        BrokerRoute("without-master", "c", {1: "s:1"}, 4, 4, 6),
    ),
)
FIRST, SECOND, THIRD = (MessageQueue("orders", *at) for at in (("a", 0), ("a", 1), ("b", 0)))
QUEUES = (FIRST, SECOND, THIRD)
NEVER = errors.OffsetUnknownError("QUERY_CONSUMER_OFFSET", "a:1", 22, "not found")
NO_GROUP = errors.GroupUnknownError("SET_MESSAGE_REQUEST_MODE", "b:1", 26, "no group")
AWAY = errors.ConnectionLostError("b is away")
ROCKSDB = {balance.ROCKSDB: "true"}
OFFSETS = Offsets(0, 9, 0)


def play(move: Any, *answers: Any, queues: tuple[MessageQueue, ...] = QUEUES) -> list[Any]:
    """Play a move; return the requests to brokers."""
    stage = Stage()
    stage.play(move(stage.directory, "billing", queues, lambda: None), [ROUTE, *answers])
    return stage.requests[1:]


def begin(*answers: Any, quiet: float = 60.0, **more: Any) -> list[Any]:
    def move(directory: Any, group: str, queues: Any, refuse: Any) -> Any:
        return balance.begin_pops(directory, group, queues, quiet, refuse)

    return play(move, *answers, **more)


def test_pops_begin_at_committed_offsets_inside_of_the_queues() -> None:
    stored = {FIRST: Offsets(0, 9, 0), SECOND: Offsets(5, 9, 0)}
    sent = begin(7, 2, 12, stored, {THIRD: Offsets(5, 9, 0)}, None, None, None)
    assert sent[5:] == [
        ResetOffset("billing", "orders", 0, 7),
        ResetOffset("billing", "orders", 1, 5),  # what was stored before is deleted
        ResetOffset("billing", "orders", 0, 9),  # the topic was created anew
    ]


def test_a_queue_without_a_committed_offset_is_left_alone() -> None:
    sent = begin(NEVER, 0, NO_GROUP, {FIRST: OFFSETS, SECOND: OFFSETS}, {THIRD: OFFSETS}, None)
    assert sent[5:] == [ResetOffset("billing", "orders", 1, 0)]


def test_with_rocksdb_pops_wait_until_pulls_at_the_broker_have_ended() -> None:
    names = [each.name for each in begin(7, 7, 7, {}, ROCKSDB, quiet=1.0)]
    assert names == ["QUERY_CONSUMER_OFFSET"] * 3 + ["GET_BROKER_CONFIG"] * 2
    names = [each.name for each in begin(NEVER, NEVER, NEVER, {}, {}, quiet=1.0)]
    assert "GET_BROKER_CONFIG" not in names, "nobody has read, so nobody waits"
    stored = {FIRST: OFFSETS, SECOND: OFFSETS}
    files = begin(7, 7, NEVER, {}, stored, {}, None, None, quiet=1.0)
    assert len(files) == 8


@pytest.mark.parametrize(
    "answers",
    [(7, AWAY, 0), (7, 7, 7, AWAY), (7, NEVER, NEVER, {FIRST: OFFSETS}, {}, AWAY)],
)
def test_a_broker_that_does_not_answer_ends_the_move(answers: tuple[Any, ...]) -> None:
    with pytest.raises(errors.ConnectionLostError, match="b is away"):
        begin(*answers)


def test_a_broker_without_a_master_ends_the_move() -> None:
    with pytest.raises(errors.NoBrokerError, match="'without-master' has no master now"):
        begin(queues=(MessageQueue("orders", "without-master", 0),))


def test_pulls_begin_at_the_pull_offset_with_rocksdb_and_at_the_committed_one_with_files() -> None:
    lags = [Lag(FIRST, 50, 4, 0, pull_offset=9), Lag(SECOND, 50, 9, 0, pull_offset=9)]
    sent = play(balance.end_pops, None, None, ROCKSDB, {balance.ROCKSDB: "false"}, lags, None)
    assert [each.name for each in sent] == [
        "SET_MESSAGE_REQUEST_MODE", "SET_MESSAGE_REQUEST_MODE", "GET_BROKER_CONFIG",
        "GET_BROKER_CONFIG", "GET_CONSUME_STATS", "UPDATE_CONSUMER_OFFSET",
    ]  # fmt: skip
    assert (sent[-1].queue_id, sent[-1].offset) == (0, 9)


def test_a_broker_that_does_not_know_the_group_has_no_positions_to_move() -> None:
    sent = play(balance.end_pops, NO_GROUP, NO_GROUP)
    assert [each.name for each in sent] == ["SET_MESSAGE_REQUEST_MODE"] * 2


def test_nothing_is_written_after_the_lead_is_lost() -> None:
    def refuse() -> None:
        raise RuntimeError("lost")

    stage = Stage()
    moves = (
        (balance.begin_pops(stage.directory, "billing", QUEUES, 60.0, refuse),
         [ROUTE, 7, 7, 7, {FIRST: OFFSETS}, {}]),
        (balance.end_pops(stage.directory, "billing", QUEUES, refuse), [ROUTE]),
    )  # fmt: skip
    for move, answers in moves:
        with pytest.raises(RuntimeError, match="lost"):
            stage.play(move, answers)
    assert not [each for each in stage.requests if isinstance(each, ResetOffset | SetRequestMode)]


def test_many_queues_are_asked_some_at_a_time_and_the_lead_is_checked_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(balance, "AT_ONCE", 1)
    checks: list[None] = []
    stage = Stage()
    stored = [{FIRST: OFFSETS, SECOND: OFFSETS}, {THIRD: OFFSETS}]
    move = balance.begin_pops(stage.directory, "billing", QUEUES, 60.0, lambda: checks.append(None))
    stage.play(move, [ROUTE, 1, 2, 3, *stored, None, None, None])
    assert [each.offset for each in stage.requests if isinstance(each, ResetOffset)] == [1, 2, 3]
    assert len(checks) == 3


def test_settings_are_read_line_by_line() -> None:
    body = b"listenPort=10911\nbrokerName = a=b\n\nempty="
    found = read_answer(GetBrokerSettings(), Frame(0, 1, body=body), "a:1")
    assert found == {"listenPort": "10911", "brokerName": "a=b", "": "", "empty": ""}
