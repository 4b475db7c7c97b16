"""The moves of a rebalance, as data of limited size and as sentences."""

import random

import msgspec
import pytest

from contract.kinds.groups import LastRebalance, OwnedQueues, QueueMove
from evenkeel import rebalances
from lb_core import plan
from lb_core.model import Member, QueueRange
from lb_core.plan import Plan
from lb_core.policy import Policy
from lb_core.reasons import FOR_MOVES

BROKERS = [f"broker-{number}" for number in range(20)]
MOST_QUEUES = [QueueRange("orders", broker, 0, 5000) for broker in BROKERS]


def members(count: int) -> list[Member]:
    return [Member(f"billing-{number}") for number in range(count)]


def record(made: Plan) -> LastRebalance:
    return rebalances.record(made, "2026-01-01T00:00:00Z", 2, "ConsumersChanged")


def move(source: str, target: str, ids: str, reason: str = "joined") -> QueueMove:
    return QueueMove(source, reason, target, "", [OwnedQueues("orders", "broker-a", ids)])


def rebalance(*moves: QueueMove, left_out: int = 0) -> LastRebalance:
    return LastRebalance("2026-01-01T00:00:00Z", "Interval", 0, "", 2, list(moves), left_out)


def size(last: LastRebalance) -> int:
    return len(msgspec.json.encode(last.moves))


def test_a_move_says_which_queues_went_where_and_why() -> None:
    queues = [QueueRange("orders", "broker-a", 0, 4), QueueRange("orders", "broker-b", 0, 4)]
    last = record(plan.plan(plan.plan(None, queues, members(1)), queues, members(2)))
    (only,) = last.moves
    assert (only.source, only.target, only.reason) == ("billing-0", "billing-1", "joined")
    assert sum(len(each) for each in rebalances.list_ranges(only)) == last.moved == 4
    assert last.reason == rebalances.describe(last)
    assert last.reason.startswith("billing-0 -> billing-1, joined: orders@broker-")
    assert rebalances.is_complete(last)


@pytest.mark.parametrize("change", [1, -1])
def test_one_consumer_more_or_less_in_the_largest_group_is_recorded_in_full(change: int) -> None:
    before = plan.plan(None, MOST_QUEUES, members(1000))
    last = record(plan.plan(before, MOST_QUEUES, members(1000 + change)))
    assert last.moved >= 99
    assert rebalances.is_complete(last)
    assert last.left_out == 0
    assert size(last) <= rebalances.MOST_BYTES


def test_when_everything_moves_the_record_stays_small_and_counts_the_rest() -> None:
    before = plan.plan(None, MOST_QUEUES, members(1000))
    others = [Member(f"other-{number}") for number in range(1000)]
    last = record(plan.plan(before, MOST_QUEUES, others))
    listed = sum(len(run) for each in last.moves for run in rebalances.list_ranges(each))
    assert last.moved == 100_000
    assert last.left_out == last.moved - listed > 0
    assert not rebalances.is_complete(last)
    assert size(last) <= rebalances.MOST_BYTES
    assert len(last.reason) <= rebalances.MOST_WORDS
    assert last.reason.endswith(" more queues")


def test_of_a_move_with_very_many_queues_some_are_recorded() -> None:
    scattered = [
        QueueRange("orders", broker, number, number + 1)
        for broker in BROKERS
        for number in range(0, 5000, 2)
    ]
    last = record(plan.plan(plan.plan(None, scattered, members(1)), scattered, [Member("other")]))
    listed = sum(map(len, rebalances.list_ranges(last.moves[0])))
    assert listed + last.left_out == last.moved == 50_000
    assert listed > 0
    assert size(last) <= rebalances.MOST_BYTES


def test_reasons_are_those_of_the_engine_and_a_strategy_has_its_own_words() -> None:
    rng = random.Random(7)
    queues = [QueueRange("orders", "broker-a", 0, 12)]
    seen = set()
    for strategy in ("STICKY", "AVG"):
        made = plan.plan(None, queues, members(3), Policy(strategy))
        for _ in range(20):
            made = plan.plan(made, queues, members(rng.randint(1, 5)), Policy(strategy))
            seen |= {(each.reason, each.strategy) for each in record(made).moves}
    assert {reason for reason, _ in seen} <= {each.value for each in FOR_MOVES}
    assert ("strategy", "AVG") in seen
    assert all(strategy == "" for reason, strategy in seen if reason != "strategy")


def test_words_name_all_queues_while_there_is_room() -> None:
    last = rebalance(move("a", "c", "0-3,8"), move("b", "", "4", "left"))
    assert rebalances.describe(last) == (
        "a -> c, joined: orders@broker-a 0-3,8; b -> nobody, left: orders@broker-a 4"
    )


def test_words_count_queues_that_there_is_no_room_to_name() -> None:
    long = ",".join(str(number) for number in range(0, 400, 2))
    last = rebalance(move("a", "c", long), move("b", "c", "1"), left_out=5)
    assert rebalances.describe(last, 100) == (
        "a -> c, joined: 200 queues; b -> c, joined: orders@broker-a 1; 5 more queues"
    )
    assert rebalances.describe(last, 60) == "a -> c, joined: 200 queues; 6 more queues"
    nameless = rebalance(move("a" * 200, "c", "1"), left_out=5)
    assert rebalances.describe(nameless, 60) == "6 queues"


def test_a_rebalance_of_an_earlier_version_keeps_its_sentence_and_names_no_queues() -> None:
    old = msgspec.convert(
        {"at": "2026-01-01T00:00:00Z", "trigger": "Interval", "moved": 1, "reason": "a -> b"},
        LastRebalance,
    )
    assert rebalances.describe(old) == "a -> b"
    assert not rebalances.is_complete(old)
