"""Compares our API with the golden file, whose values come from RocketMQ itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from lb_core import errors, model, pop, strategies
from lb_core.model import Queue
from lb_core.strategies import consistent_hash

GOLDEN = json.loads(Path(__file__).with_name("rocketmq.json").read_text(encoding="utf-8"))


def named(entries: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(entry, id=entry["id"]) for entry in entries]


def queues_of(entry: dict[str, Any]) -> list[Queue] | None:
    rows = entry["queues"]
    return rows if rows is None else [Queue(*row) for row in rows]


def answer_to(call: dict[str, Any]) -> Any:
    """Answer in the format of the golden file: rows, null, or the name of the error."""
    try:
        owned = strategies.find_dealer(call["strategy"]).deal_one(
            call["caller"], queues_of(call), call["consumers"], call.get("config", {})
        )
    except errors.AllocationError as error:
        return {"error": error.kind}
    return owned and [[queue.topic, queue.broker, queue.id] for queue in owned]


@pytest.mark.parametrize("case", named(GOLDEN["cases"]))
def test_a_whole_group_is_dealt_as_by_rocketmq(case: dict[str, Any]) -> None:
    queues = queues_of(case) or []
    deal = strategies.find_dealer(case["strategy"]).deal
    owned = deal(queues, case["consumers"], case.get("config", {}))
    expected = {name: [queues[i] for i in found] for name, found in case["expected"].items()}
    assert owned == expected
    held = {queue for found in owned.values() for queue in found}
    unowned = [index for index, queue in enumerate(queues) if queue not in held]
    assert unowned == case.get("unowned", [])


@pytest.mark.parametrize("case", named(GOLDEN["cases"]))
def test_each_consumer_alone_is_answered_as_by_rocketmq(case: dict[str, Any]) -> None:
    queues = queues_of(case) or []
    deal_one = strategies.find_dealer(case["strategy"]).deal_one
    for name, found in case["expected"].items():
        owned = deal_one(name, queues, case["consumers"], case.get("config", {}))
        assert owned == [queues[i] for i in found]


@pytest.mark.parametrize("call", named(GOLDEN["calls"]))
def test_an_odd_call_is_answered_or_refused_as_by_rocketmq(call: dict[str, Any]) -> None:
    assert answer_to(call) == call["expected"]


@pytest.mark.parametrize(
    ("caller", "queues", "consumers", "refused"),
    [
        (None, None, None, "caller"),
        ("a", None, None, "queues"),
        ("a", [Queue("t", "b", 0)], None, "consumers"),
    ],
)
def test_the_first_missing_argument_is_refused_in_rocketmqs_words(
    caller: str | None, queues: list[Queue] | None, consumers: list[str] | None, refused: str
) -> None:
    with pytest.raises(errors.IllegalArgumentException) as caught:
        strategies.find_dealer("AVG").deal_one(caller, queues, consumers, {})
    assert str(caught.value) == GOLDEN["errors"]["messages"][refused]


@pytest.mark.parametrize("entry", [pytest.param(e, id=repr(e["key"])) for e in GOLDEN["hashes"]])
def test_a_key_stands_where_rocketmq_puts_it_on_the_ring(entry: dict[str, Any]) -> None:
    assert consistent_hash.find_place(entry["key"]) == entry["hash"]


@pytest.mark.parametrize("case", named(GOLDEN["pop"]["cases"]))
def test_queues_are_shared_as_by_the_broker(case: dict[str, Any]) -> None:
    queues = [Queue("topic", "broker", number) for number in range(case["queues"])]
    shared = pop.allocate(queues, case["consumers"], case["popShareQueueNum"], case["inner"])
    ids = {consumer: [queue.id for queue in found] for consumer, found in shared.items()}
    assert ids == case["expectedQueueIds"]


def test_lists_are_sorted_as_by_the_rebalance_loop() -> None:
    sorting = GOLDEN["sorting"]
    queues = sorted((Queue(*row) for row in sorting["queuesIn"]), key=model.order_queue)
    assert queues == [Queue(*row) for row in sorting["queuesOut"]]
    assert model.sort_texts(sorting["clientIdsIn"]) == sorting["clientIdsOut"]
