"""`evenkeel explain`: plain sentences that say which consumer owns which queue, and why."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from contract import names
from contract.kinds.groups import (
    Balance,
    GroupStatus,
    OwnedQueues,
    PopStore,
    QueueMove,
    WaitingSum,
)
from coordinator.sessions import HeldQueues
from evenkeel.cluster.events import event_documents
from evenkeel.control.groups import group_status
from evenkeel.control.groups.group_status import Notice
from evenkeel.control.groups.member_slots import LiveMember
from evenkeel.control.groups.surroundings import GroupSurroundings
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup
from evenkeel_cli.facts import explaining, sentences
from evenkeel_cli.facts.past import Past, Told
from lb_core.model import Queue
from tests.unit.evenkeel_cli.scenes import (
    JOB,
    ORDERS,
    START,
    after,
    annotated,
    by_message,
    explained,
    group,
    members,
    running,
    topic,
)  # fmt: skip

JOINED = after(group(), members("a", "b"), members("a", "b", "c"))


def of_queue(found: explaining.Explanation, name: str) -> list[str]:
    one = explaining.select_queue(found, name)
    return sentences.explain_queue(one, one.rows[0]).splitlines()


def test_a_group_is_explained_by_owner_with_what_moved_and_why() -> None:
    shown = sentences.explain_group(explained(JOINED, 5)).splitlines()
    assert shown[:12] == [
        "billing: 8 queues, 3 consumers, epoch 2, 2 queues moved so far",
        "Sticky: even loads first, then owners in the zone of the broker, then the fewest moves.",
        "3 consumers may own queues.",
        "Each has 2 to 3 queues: as balanced as possible.",
        "",
        "OWNER  QUEUES               SINCE               WHY",
        "a      orders@broker-a 0-2  over 4 min          has not moved",
        "b      orders@broker-b 0-2  over 4 min          has not moved",
        "c      orders@broker-a 3    epoch 2, 4 min ago  from a: c joined",
        "c      orders@broker-b 3    epoch 2, 4 min ago  from b: c joined",
        "",
        "In the next plan, no queue would move.",
    ]
    assert shown[12].startswith("Last rebalance, 4 min ago (ConsumersChanged): 2 queues moved; a -")


def test_one_queue_is_explained_in_full() -> None:
    assert of_queue(explained(JOINED, 2), "orders@broker-a/3")[:6] == [
        "orders@broker-a 3 belongs to c.",
        "It came from a 60 s ago, in epoch 2 (ConsumersChanged): c joined.",
        "Sticky: even loads first, then owners in the zone of the broker, then the fewest moves.",
        "3 consumers may own queues.",
        "Each has 2 to 3 queues: as balanced as possible.",
        "The next plan would not move it.",
    ]


def test_where_nothing_has_moved_owners_are_the_first_ones() -> None:
    found = explained(after(group(), members("a", "b")), 5)
    assert "This is its first owner: no queue of this group has moved yet." in of_queue(
        found, "orders@broker-a/0"
    )
    assert "first owner" in sentences.explain_group(found)


def event(found: ConsumerGroup, **changes: Any) -> dict[str, Any]:
    """Make the Event about the last rebalance of a group as the operator does."""
    last = found.status.last_rebalance
    assert last is not None
    last = msgspec.structs.replace(last, **changes)
    return event_documents.build_event(found, Notice("Rebalanced", "in words", rebalance=last))


def test_an_event_knows_a_move_that_the_status_no_longer_does() -> None:
    later = after(JOINED, members("a", "b", "c"), members("a", "b"))
    known = Past(later.status, [event(JOINED, at="2025-12-31T23:00:00Z")])
    found = known.find_newest(Queue("orders", "broker-a", 3))
    assert found is not None
    assert (found.source, found.reason, found.epoch) == ("c", "left", 3)
    without = Past(GroupStatus(), [event(JOINED)])
    assert without.find_newest(Queue("orders", "broker-a", 3)) == Told(
        "2026-01-01T00:01:00Z", 2, "ConsumersChanged", "a", "c", "joined"
    )
    assert without.find_newest(Queue("orders", "broker-a", 2)) is None


@pytest.mark.parametrize("text", [None, "", "{}", "[1]", '{"at": 3}'])
def test_events_that_say_something_else_are_passed_over(text: str | None) -> None:
    annotations = {} if text is None else {names.LAST_REBALANCE: text}
    strange: list[dict[str, Any]] = [
        {}, {"metadata": {"annotations": None}}, {"metadata": {"annotations": annotations}}
    ]  # fmt: skip
    assert Past(after(group(), members("a")).status, strange).oldest == ""


def test_queues_that_cannot_be_read_are_passed_over() -> None:
    moves = [QueueMove("a", "joined", "c", "", [OwnedQueues("orders", "broker-a", "3-1")])]
    known = Past(GroupStatus(), [event(JOINED, moves=moves)])
    assert known.find_newest(Queue("orders", "broker-a", 3)) is None


def test_a_rebalance_of_an_earlier_version_is_told_in_its_own_words_and_of_no_queue() -> None:
    last = JOINED.status.last_rebalance
    assert last is not None
    last = msgspec.structs.replace(last, moves=[], left_out=0, epoch=0, reason="as it said then")
    old = replace(JOINED, status=msgspec.structs.replace(JOINED.status, last_rebalance=last))
    shown = sentences.explain_group(explained(old, 5))
    assert "(ConsumersChanged): 2 queues moved; as it said then" in shown
    assert "c      orders@broker-a 3    -      -" in shown.splitlines()
    assert "Its last move is no longer known." in of_queue(explained(old, 5), "orders@broker-a/3")


def test_what_a_rebalance_leaves_out_may_be_any_queue() -> None:
    last = JOINED.status.last_rebalance
    assert last is not None
    part = msgspec.structs.replace(last, moves=last.moves[:1], left_out=1)
    some = replace(JOINED, status=msgspec.structs.replace(JOINED.status, last_rebalance=part))
    assert Past(some.status).oldest == ""
    assert Past(some.status).find_newest(Queue("orders", "broker-a", 3)) is not None
    assert "Its last move is no longer known." in of_queue(explained(some, 5), "orders@broker-a/0")


def test_queues_that_nobody_had_for_a_while_have_not_stayed() -> None:
    """If a queue without an owner gets an owner, that is no move, and no Event reports it."""
    found = explained(after(group(), members("a"), [], members("b")), 5)
    row = "b      orders@broker-a 0-3  within 4 min  nobody had it before"
    assert row in sentences.explain_group(found).splitlines()
    assert "4 min ago it went to nobody; it moved again later." in of_queue(
        found, "orders@broker-a/0"
    )


def test_consumers_that_may_own_nothing_are_named_with_the_reason() -> None:
    static = {"static": [{"id": "a"}, {"id": "b", "capacity": 0}, {"id": "c"}]}
    pinned = {"pinnedConsumers": ["a", "b"]}
    found = after(group(consumers=static, strategy=pinned), None)
    shown = sentences.explain_group(explained(found, 1))
    assert "1 consumer may own queues; not b (capacity 0) and c (not in pinnedConsumers)." in shown
    assert "It has 8 queues: as balanced as possible." in shown


def test_pods_that_are_drained_are_named() -> None:
    found = after(annotated(JOINED, drain="a"), members("a", "b", "c"))
    assert "2 consumers may own queues; not a (draining)." in sentences.explain_group(
        explained(found, 1)
    )
    assert of_queue(explained(found, 1), "orders@broker-a/0")[1].endswith(": a was draining.")


def test_zones_are_told_where_they_count() -> None:
    route = topic(("z1", "z2"))
    zones = {"a": "z1", "b": "z3"}
    found = after(group(), members("a", "b", zones=zones), route=route)
    by_queue = {
        name: of_queue(explained(found, 1, route), name)
        for name in ("orders@broker-a/0", "orders@broker-b/0")
    }
    assert "Its broker and its owner are in zone z1." in by_queue["orders@broker-a/0"]
    assert (
        "Its broker is in zone z2, in which no consumer may own queues."
        in by_queue["orders@broker-b/0"]
    )


def test_even_loads_come_before_zones() -> None:
    route = topic(("z1", "z1"))
    found = after(group(), members("a", "b", zones={"a": "z1", "b": "z2"}), route=route)
    shown = of_queue(explained(found, 1, route), "orders@broker-b/0")
    assert "Its broker is in zone z1, like a; balanced loads come before zones." in shown


def test_what_the_next_plan_would_move_is_said_of_the_group_and_of_the_queue() -> None:
    static = {"static": [{"id": "a"}, {"id": "b"}]}
    found = after(group(consumers=static), None)
    more = group(consumers={"static": [*static["static"], {"id": "c"}]})
    found = type(found)(found.head, more.spec, found.status)
    shown = sentences.explain_group(explained(found, 1))
    assert "In the next plan, 2 queues would move." in shown
    assert "to c: joined" in shown
    assert "The next plan would move it to c; reason: c joined." in of_queue(
        explained(found, 1), "orders@broker-a/3"
    )


def test_what_waits_for_maxmoves_is_said_to_come_later() -> None:
    policy = {"sticky": {"maxMoves": "1"}}
    found = after(group(strategy=policy), members("a"), members("a", "b", "c"))
    rows = [row for row in explained(found, 2).rows if row.future is not None]
    assert {row.future.is_later for row in rows if row.future is not None} == {True, False}
    shown = [
        line
        for row in rows
        for line in sentences.explain_queue(explained(found, 2), row).split("\n")
    ]
    assert (
        "It will go to c in a later round, because of maxMoves; reason: to balance the loads."
        in shown
    )


def test_queues_that_nobody_owns_are_said_to_be_so_and_why() -> None:
    found = after(group(strategy={"pinnedConsumers": ["x"]}), members("a"))
    shown = of_queue(explained(found, 1), "orders@broker-a/0")
    assert shown[0] == "orders@broker-a 0 has no owner: none of the pinned consumers is present."
    assert "nobody  orders@broker-a 0-3" in sentences.explain_group(explained(found, 1))


def test_a_job_shows_its_executors_and_slots_that_are_empty() -> None:
    found = after(group(job=JOB), running(slot_0="1", slot_1="2"), running(slot_0="1"))
    shown = sentences.explain_group(explained(found, 1.5))
    assert "1 consumer may own queues; not billing-1 (its slot is empty, and it keeps its" in shown
    assert of_queue(explained(found, 1.5), "orders@broker-a/0")[0] == (
        "orders@broker-a 0 belongs to billing-0 (executor 1, pod billing-exec-1)."
    )
    assert of_queue(explained(found, 1.5), "orders@broker-b/0")[0] == (
        "orders@broker-b 0 belongs to billing-1, a slot without an executor: other executors "
        "read its queues."
    )


def test_members_are_shown_by_the_slots_that_they_fill_and_lent_queues_are_told() -> None:
    found = group(consumers={"members": {}})
    sights: list[tuple[str, HeldQueues]] = [
        ("ab", HeldQueues(2, 8)), ("a", HeldQueues(1, 8, lent_queues=4)),
    ]  # fmt: skip
    for names_of_live, held in sights:
        live = [LiveMember(f"pod-{name}", START) for name in names_of_live]
        sight = GroupSurroundings({ORDERS: topic()}, live=live, held=held)
        found = replace(found, status=group_status.decide(found, sight, START).status)
    its = explained(found, 0.5)
    assert of_queue(its, "orders@broker-a/0")[0] == (
        "orders@broker-a 0 belongs to billing-0 (pod pod-a)."
    )
    assert of_queue(its, "orders@broker-b/0")[0] == (
        "orders@broker-b 0 belongs to billing-1, a slot without a member: other members "
        "read its queues."
    )
    assert "4 queues are read by other members" in sentences.explain_group(its)


def test_a_job_that_is_an_epoch_behind_is_said_to_be() -> None:
    found = after(group(job=JOB), running(0, slot_0="1", slot_1="2"))
    text = "The job still follows epoch 0; until it follows 1, only forced moves happen."
    assert text in sentences.explain_group(explained(found, 1))


def test_a_pause_is_told_and_what_it_holds_back_is_foreseen() -> None:
    paused = annotated(JOINED, paused="true")
    found = after(paused, members("a", "b", "c"), members("a", "b", "c", "d"))
    shown = sentences.explain_group(explained(found, 2))
    assert "In the next plan, 2 queues would move." in shown
    assert "the group is paused: moves that are not forced wait until it is resumed" in shown


def test_rates_that_only_the_operator_knows_are_said_to_be_unknown() -> None:
    found = after(group(strategy={"sticky": {"weights": "Rate"}}), members("a", "b"))
    assert "weights: Rate uses rates that only the operator measures" in sentences.explain_group(
        explained(found, 1)
    )


def test_without_a_topic_it_says_why_nothing_can_be_planned() -> None:
    found = explaining.explain(JOINED, {}, Past(JOINED.status), explained(JOINED, 1).now)
    shown = sentences.explain_group(found)
    assert "The next plan cannot be computed: ConsumerGroup billing: there is no Topic" in shown
    assert "a      orders@broker-a 0-2" in shown


def test_broadcasting_has_nothing_to_explain_but_that() -> None:
    found = after(group(messageModel="Broadcasting"), members("a", "b"))
    shown = sentences.explain_group(explained(found, 1))
    assert "Broadcasting: every consumer has every queue, and no queue ever moves." in shown
    assert "orders@" not in shown
    with pytest.raises(EvenkeelError, match="every consumer has every queue"):
        explaining.select_queue(explained(found, 1), "orders@broker-a/0")


def test_a_group_by_message_has_no_owners_to_explain() -> None:
    stores = dict.fromkeys(("broker-a", "broker-b"), PopStore.FILES)
    found = by_message("a", waiting=WaitingSum(2, 1, 0), dead_letters=1, stores=stores)
    shown = sentences.explain_group(explained(found, 1))
    assert "\n1 dead letter in %DLQ%billing." in shown
    assert "\nbroker-a and broker-b keep popped messages in files: with less than" in shown
    assert shown.startswith("billing: 8 queues, 1 consumer\n")
    assert "Waiting at the brokers: 2 ready messages, 1 retry, 0 pops." in shown
    assert "balance Messages: any member gets any message, so queues have no owners." in shown
    assert "The next plan" not in shown
    with pytest.raises(EvenkeelError, match="queues have no owners"):
        explaining.select_queue(explained(found, 1), "orders@broker-a/0")


def test_a_group_that_changes_to_queues_says_so_and_then_what_still_comes_again() -> None:
    found = by_message("a")
    by_queue = msgspec.structs.replace(found.spec, balance=Balance.QUEUES)
    changing = replace(found, spec=by_queue)
    shown = sentences.explain_group(explained(changing, 1))
    assert "queues get owners when no member reads in the old way any more" in shown
    sight = GroupSurroundings(
        {ORDERS: topic()}, live=[], held=HeldQueues(), poppers=frozenset(),
        are_positions_ready=True, waiting=WaitingSum(0, 3, 0),
    )  # fmt: skip
    changed = replace(changing, status=group_status.decide(changing, sight, START).status)
    shown = sentences.explain_group(explained(changed, 1))
    assert "Waiting at the brokers, apart from the lag of the queues: 3 retries." in shown


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("orders", "orders must be a queue written as TOPIC@BROKER/ID, such as orders@broker-a/3"),
        ("orders@broker-a/x", "must be a queue"),
        ("orders@broker-a/9", "has no queue orders@broker-a/9: the ids on broker-a are below 4"),
        ("bills@broker-a/1", "it has queues on orders@broker-a, orders@broker-b"),
    ],
)
def test_a_queue_that_is_not_there_is_told_with_what_is(name: str, complaint: str) -> None:
    with pytest.raises(EvenkeelError, match=complaint):
        explaining.select_queue(explained(JOINED, 1), name)


def test_conditions_are_told_in_words() -> None:
    shown = sentences.explain_group(explained(JOINED, 1)).splitlines()
    assert "Ready      True    Assigned  all is well: the assignment is published" in shown
    assert "Balanced   True    Even      loads are as even as they can be" in shown


@pytest.mark.parametrize(
    ("strategy", "text"),
    [
        ({"name": "Averagely"}, "Averagely: the sorted queues are cut into runs"),
        ({"name": "AveragelyByCircle"}, "dealt one by one"),
        (
            {"name": "ConsistentHash", "consistentHash": {"virtualNodes": 3}},
            "consumer has 3 points",
        ),
        ({"name": "MachineRoom", "machineRoom": {"rooms": ["r1", "r2"]}}, "rooms r1, r2"),
        ({"name": "MachineRoomNearby"}, "consumers in that room, by Averagely"),
        ({"name": "Config", "config": {"queues": {}}}, "what spec.strategy.config names"),
        ({"sticky": {"zones": "Ignore"}}, "even loads first, then the fewest moves"),
        ({"sticky": {"zones": "Require"}}, "only owners in the zone of the broker"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_strategy_says_its_rule(strategy: dict[str, object], text: str) -> None:
    found = after(group(strategy=strategy), members("a", "b"))
    assert text in sentences.explain_group(explained(found, 1))


def test_programs_get_the_same_as_json() -> None:
    facts = json.loads(json.dumps(sentences.describe(explained(JOINED, 2))))
    (moved,) = (
        each for each in facts["queues"] if each["ids"] == "3" and each["broker"] == "broker-a"
    )
    assert (moved["owner"], moved["since"]["from"], moved["next"]) == ("c", "a", None)
    assert moved["why"][0] == "orders@broker-a 3 belongs to c."


def test_before_an_operator_has_looked_that_is_said_first() -> None:
    found = explained(group(consumers={"static": [{"id": "a"}, {"id": "b"}]}), 1)
    shown = sentences.explain_group(found).splitlines()
    assert shown[0] == "billing: no operator has reconciled it yet; check that one runs"
    assert shown[-1] == "In the next plan, 8 queues would get their first owner."
    assert "may own queues" not in "".join(shown)
    assert of_queue(found, "orders@broker-a/3")[-1] == "No operator has reconciled it yet."


def test_queues_that_are_new_would_get_an_owner() -> None:
    shown = sentences.explain_group(explained(JOINED, 5, topic(queues=5)))
    assert "\nIn the next plan, 2 queues would get an owner.\n" in shown
