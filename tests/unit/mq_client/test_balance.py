"""Positions are moved on every broker of the queues, or the caller hears why not."""

from typing import Any

import pytest

from mq_client import errors
from mq_client.commands.base import read_answer
from mq_client.commands.cluster import GetSettings
from mq_client.commands.offsets import ResetOffset
from mq_client.frames import Frame
from mq_client.operations import balance
from mq_client.values import BrokerRoute, Lag, MessageQueue, Route
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


def play(move: Any, *answers: Any, queues: tuple[MessageQueue, ...] = QUEUES) -> list[Any]:
    """Play a move; return the requests to brokers."""
    stage = Stage()
    flow = move(stage.directory, "billing", queues, lambda: None)
    routes = [ROUTE] * len({each.broker for each in queues})
    return list(stage.play(flow, [*routes, *answers]).requests[len(routes) :])


def test_pops_begin_at_committed_offsets_and_other_queues_are_left_alone() -> None:
    sent = play(balance.begin_pops, 7, NEVER, 0, None, None)
    assert sent[3:] == [
        ResetOffset("billing", "orders", 0, 7),
        ResetOffset("billing", "orders", 0, 0),
    ]


@pytest.mark.parametrize("answers", [(7, AWAY, 0), (7, NEVER, 0, None, AWAY)])
def test_a_broker_that_does_not_answer_ends_the_move(answers: tuple[Any, ...]) -> None:
    with pytest.raises(errors.ConnectionLostError, match="b is away"):
        play(balance.begin_pops, *answers)


def test_a_broker_without_a_master_ends_the_move() -> None:
    with pytest.raises(errors.NoBrokerError, match="'without-master' has no master now"):
        play(balance.begin_pops, queues=(MessageQueue("orders", "without-master", 0),))


def test_pulls_begin_at_the_pull_offset_with_rocksdb_and_at_the_committed_one_with_files() -> None:
    lags = [Lag(FIRST, 50, 4, 0, pull_offset=9), Lag(SECOND, 50, 9, 0, pull_offset=9)]
    sent = play(balance.end_pops, None, ROCKSDB, lags, None, None, {balance.ROCKSDB: "false"})
    assert [each.name for each in sent] == [
        "SET_MESSAGE_REQUEST_MODE", "GET_BROKER_CONFIG", "GET_CONSUME_STATS",
        "UPDATE_CONSUMER_OFFSET", "SET_MESSAGE_REQUEST_MODE", "GET_BROKER_CONFIG",
    ]  # fmt: skip
    assert (sent[3].queue_id, sent[3].offset) == (0, 9)


def test_a_broker_that_does_not_know_the_group_has_no_positions_to_move() -> None:
    sent = play(balance.end_pops, NO_GROUP, NO_GROUP)
    assert [each.name for each in sent] == ["SET_MESSAGE_REQUEST_MODE"] * 2


def test_nothing_is_written_after_the_lead_is_lost() -> None:
    def refuse() -> None:
        raise RuntimeError("lost")

    for move, answers in ((balance.begin_pops, (7, 7, 7)), (balance.end_pops, ())):
        stage = Stage()
        with pytest.raises(RuntimeError, match="lost"):
            stage.play(move(stage.directory, "billing", QUEUES, refuse), [ROUTE, ROUTE, *answers])


def test_many_queues_are_asked_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance, "AT_ONCE", 2)
    sent = play(balance.begin_pops, 1, 2, 3, None, None, None)
    assert [each.offset for each in sent[3:]] == [1, 2, 3]


def test_settings_are_read_line_by_line() -> None:
    body = b"listenPort=10911\nbrokerName = a=b\n\nempty="
    found = read_answer(GetSettings(), Frame(0, 1, body=body), "a:1")
    assert found == {"listenPort": "10911", "brokerName": "a=b", "": "", "empty": ""}
