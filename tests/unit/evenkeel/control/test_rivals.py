"""Which of two objects may act if both would change the same things at the brokers."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from contract.conditions import ConditionReason
from evenkeel import manifests
from evenkeel.control import rivals
from evenkeel.control.groups import group_status
from evenkeel.control.rivals import Rivals
from evenkeel.control.topics import topic_status
from evenkeel.control.topics.topic_status import ReadFailure, Sight
from evenkeel.objects import ConsumerGroup, Key, Topic
from tests.deciding import START, seen

OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def topic(name: str = "orders", *servers: str, **spec: object) -> Topic:
    named = {"nameServers": list(servers or ("mq:9876",)), **spec}
    return manifests.read_topic({"kind": "Topic", "metadata": {"name": name}, "spec": named})


def group(name: str, created: str, *named: str) -> ConsumerGroup:
    return manifests.read_group(
        {
            "kind": "ConsumerGroup",
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {
                "group": "billing",
                "topics": [{"name": each} for each in named],
                "consumers": {"static": [{"id": "a"}]},
            },
        }
    )


def naming(found: ConsumerGroup, *named: str) -> ConsumerGroup:
    return replace(found, spec=group("x", OLD, *named).spec)


def looked_at(
    which: ConsumerGroup, others: Sequence[ConsumerGroup], known: Sequence[Topic]
) -> tuple[ConsumerGroup, bool]:
    """Reconcile a group once; return it with its next status, and whether it must wait."""
    by_key = {each.head.key: each for each in known}
    rival = rivals.find_group_conflict(which, others, by_key)
    claims = rivals.update_group_claims(which, rival, by_key)
    sight = replace(seen(), topics=by_key, conflict=rival, claims=claims)
    status = group_status.decide(which, sight, START).status
    return replace(which, status=status), rival is not None


ORDERS, BILLS = topic("orders"), topic("bills")
BOTH = (ORDERS, BILLS)


def test_of_two_new_groups_the_older_goes_first() -> None:
    old, new = group("z", OLD, "orders"), group("a", NEW, "orders")
    assert not looked_at(old, [new], BOTH)[1]
    waiting, waits = looked_at(new, [old], BOTH)
    assert waits
    assert waiting.status.claims == []


def test_an_older_group_that_comes_to_name_a_topic_waits_for_the_one_that_reads_it() -> None:
    old, _ = looked_at(group("z", OLD, "bills"), [], BOTH)
    new, _ = looked_at(group("a", NEW, "orders"), [old], BOTH)
    edited = naming(old, "bills", "orders")
    assert looked_at(new, [edited], BOTH) == (new, False)
    edited, waits = looked_at(edited, [new], BOTH)
    assert waits
    assert [each.name for each in edited.status.claims] == ["bills"]
    assert looked_at(edited, [], BOTH)[1] is False


def test_a_claim_ends_where_the_topic_is_no_more_named() -> None:
    old, _ = looked_at(group("z", OLD, "bills", "orders"), [], BOTH)
    old, _ = looked_at(naming(old, "bills"), [], BOTH)
    new, waits = looked_at(group("a", NEW, "orders"), [old], BOTH)
    assert not waits
    assert looked_at(naming(old, "bills", "orders"), [new], BOTH)[1]


def test_a_topic_that_is_missing_for_a_while_is_not_given_away() -> None:
    first, _ = looked_at(group("a", NEW, "orders"), [], BOTH)
    first, _ = looked_at(first, [], [BILLS])
    other, waits = looked_at(group("z", OLD, "orders"), [first], BOTH)
    assert waits
    assert not looked_at(first, [other], BOTH)[1]


def test_groups_of_before_claims_were_written_keep_their_order() -> None:
    old, new = group("z", OLD, "orders"), group("a", NEW, "orders")
    running = replace(old, status=msgspec.structs.replace(old.status, epoch=7))
    assert looked_at(new, [running], BOTH)[1]
    assert not looked_at(running, [new], BOTH)[1]


def test_a_topic_that_is_moved_to_the_cluster_of_another_brings_no_claim_along() -> None:
    here, there = topic("orders", "mq-1:9876"), topic("theirs", "mq-2:9876", topic="orders")
    old, _ = looked_at(group("z", OLD, "orders"), [], [here, there])
    new, _ = looked_at(group("a", NEW, "theirs"), [old], [here, there])
    moved = topic("orders", "mq-1:9876", "mq-2:9876")
    assert not looked_at(new, [old], [moved, there])[1]
    assert looked_at(old, [new], [moved, there])[1]
    more = topic("orders", "mq-1:9876", "mq-3:9876")
    assert not looked_at(old, [new], [more, there])[1]


def test_both_are_looked_at_again_when_one_is_given_what_it_asked_for() -> None:
    known: Rivals[ConsumerGroup] = Rivals(rivals.build_group_claim)
    old, new = group("z", OLD, "orders"), group("a", NEW, "orders")
    known.note_change(old.head.key, old)
    known.note_change(new.head.key, new)
    first, _ = looked_at(new, [], BOTH)
    assert known.note_change(new.head.key, first) == {old.head.key}


@pytest.mark.parametrize("name_servers", [["mq:9876"], ["mq:9876", "mq-2:9876"]])
def test_an_older_topic_that_begins_to_provision_waits_for_the_one_that_does(
    name_servers: list[str],
) -> None:
    provision = {"readQueues": 4, "writeQueues": 4}
    keeps = replace(
        topic("new", topic="orders", provision=provision),
        head=replace(ORDERS.head, key=Key("default", "new"), created=NEW),
    )
    status = topic_status.decide(
        keeps, Sight(ReadFailure(ConditionReason.BROKER_UNAVAILABLE, "away")), START
    ).status
    keeps = replace(keeps, status=status)
    begins = topic("orders", *name_servers, provision=provision)
    assert rivals.find_topic_conflict(keeps, [begins]) is None
    conflict = rivals.find_topic_conflict(begins, [keeps])
    assert conflict is not None
    assert rivals.update_topic_claims(begins, conflict) == []
    lets_go = replace(keeps, spec=topic("new", topic="orders").spec)
    assert (
        topic_status.decide(
            lets_go, Sight(ReadFailure(ConditionReason.BROKER_UNAVAILABLE, "away")), START
        ).status.claims
        == []
    )
