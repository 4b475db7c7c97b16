"""Members come and go under new names, and their slots keep the queues."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from contract.kinds.groups import Assigned, GroupStatus
from coordinator.sessions import HeldQueues
from evenkeel import planning
from evenkeel.control.groups import group_status
from evenkeel.control.groups.group_status import GroupDecision
from evenkeel.control.groups.member_slots import LiveMember
from tests.deciding import START, at, group, seen

OLD, NEW = "replica-set-1", "replica-set-2"
GRACE = 60


def decide(
    status: GroupStatus | None,
    live: Mapping[str, str],
    seconds: float = 0,
    annotations: Mapping[str, str] | None = None,
    since: Mapping[str, float] | None = None,
) -> GroupDecision:
    """Decide with these members and their Kubernetes owners. By default, all live since `START`."""
    found = [
        LiveMember(name, START + timedelta(seconds=(since or {}).get(name, 0)), owner=owner)
        for name, owner in live.items()
    ]
    its = group(status, annotations, consumers={"members": {}}, rebalance={"grace": f"{GRACE}s"})
    return group_status.decide(its, seen(live=found), at(seconds))


def pods_of(status: GroupStatus) -> dict[str, str]:
    """Show the pod in each slot; an empty slot shows its last pod in brackets."""
    return {
        each.consumer: f"({each.pod})" if each.empty_since else each.pod
        for each in status.assignments
    }


def counts_of(status: GroupStatus) -> dict[str, int]:
    return {each.consumer: sum(map(len, planning.read_owned(each))) for each in status.assignments}


@pytest.fixture
def first() -> GroupStatus:
    status = decide(None, {"a": OLD, "b": OLD}).status
    assert pods_of(status) == {"billing-0": "a", "billing-1": "b"}
    return status


def test_each_member_fills_a_slot_and_gets_queues(first: GroupStatus) -> None:
    assert (first.epoch, first.consumers, first.executors) == (1, 2, 0)
    assert all(each.queues for each in first.assignments)
    assert decide(first, {"a": OLD, "b": OLD}, 1).status == first


def test_a_member_that_ends_leaves_its_slot_with_its_queues_for_the_grace(
    first: GroupStatus,
) -> None:
    lost = decide(first, {"a": OLD}, 10)
    assert pods_of(lost.status) == {"billing-0": "a", "billing-1": "(b)"}
    assert (lost.status.epoch, lost.status.moved) == (1, 0)
    assert lost.look_again_seconds == pytest.approx(GRACE)
    still = decide(lost.status, {"a": OLD}, 10 + GRACE - 1)
    assert still.status == lost.status
    over = decide(lost.status, {"a": OLD}, 10 + GRACE).status
    assert pods_of(over) == {"billing-0": "a"}
    assert (over.epoch, over.moved) == (2, 4)


def test_its_replacement_gets_the_slot_and_nothing_moves(first: GroupStatus) -> None:
    lost = decide(first, {"a": OLD}, 10).status
    found = decide(lost, {"a": OLD, "c": OLD}, 20, since={"c": 19}).status
    assert pods_of(found) == {"billing-0": "a", "billing-1": "c"}
    assert (found.epoch, found.moved) == (1, 0)


def test_a_replacement_that_comes_with_the_end_gets_the_slot_at_once(first: GroupStatus) -> None:
    found = decide(first, {"b": OLD, "c": OLD}, 20, since={"c": 19}).status
    assert pods_of(found) == {"billing-0": "c", "billing-1": "b"}
    assert (found.epoch, found.moved) == (1, 0)


def test_a_member_that_comes_back_under_its_name_gets_its_own_slot(first: GroupStatus) -> None:
    """Pods of a StatefulSet come back like this."""
    lost = decide(first, {}, 10).status
    assert pods_of(lost) == {"billing-0": "(a)", "billing-1": "(b)"}
    one = decide(lost, {"b": OLD}, 20).status
    assert pods_of(one) == {"billing-0": "(a)", "billing-1": "b"}


def test_one_more_of_the_same_owner_gets_a_slot_at_once(first: GroupStatus) -> None:
    found = decide(first, {"a": OLD, "b": OLD, "c": OLD}, 20, since={"c": 19}).status
    assert pods_of(found) == {"billing-0": "a", "billing-1": "b", "billing-2": "c"}
    assert found.epoch == 2


def test_a_rolling_update_moves_nothing(first: GroupStatus) -> None:
    """Each new pod joins before the next old one leaves."""
    steps: list[tuple[dict[str, str], dict[str, str]]] = [
        ({"a": OLD, "b": OLD, "x": NEW}, {"billing-0": "a", "billing-1": "b"}),
        ({"b": OLD, "x": NEW}, {"billing-0": "x", "billing-1": "b"}),
        ({"b": OLD, "x": NEW, "y": NEW}, {"billing-0": "x", "billing-1": "b"}),
        ({"x": NEW, "y": NEW}, {"billing-0": "x", "billing-1": "y"}),
    ]
    status = first
    for number, (live, expected) in enumerate(steps):
        now = 10.0 * (number + 1)
        decision = decide(status, live, now, since=dict.fromkeys("xy", now - 1))
        status = decision.status
        assert pods_of(status) == expected
        assert (status.epoch, status.moved) == (1, 0)
    assert all(each.queues for each in status.assignments)


def test_a_pod_of_another_owner_waits_for_the_grace_and_then_gets_a_slot(
    first: GroupStatus,
) -> None:
    """Two Deployments may share a group permanently."""
    live = {"a": OLD, "b": OLD, "x": NEW}
    waits = decide(first, live, 20, since={"x": 15})
    assert pods_of(waits.status) == pods_of(first)
    assert waits.look_again_seconds == pytest.approx(GRACE - 5)
    found = decide(first, live, 15 + GRACE, since={"x": 15}).status
    assert pods_of(found) == {"billing-0": "a", "billing-1": "b", "billing-2": "x"}


def test_a_new_deployment_does_not_wait_for_pods_that_are_gone(first: GroupStatus) -> None:
    found = decide(first, {"x": NEW, "y": NEW, "z": NEW}, 20, since=dict.fromkeys("xyz", 19))
    assert pods_of(found.status) == {"billing-0": "x", "billing-1": "y", "billing-2": "z"}


def test_with_nobody_left_the_slots_stay_however_long_it_lasts(first: GroupStatus) -> None:
    lost = decide(first, {}, 10).status
    later = decide(lost, {}, 10 + 100 * GRACE).status
    assert (pods_of(later), later.epoch) == ({"billing-0": "(a)", "billing-1": "(b)"}, 1)
    morning = decide(later, {"x": NEW, "y": NEW}, 10 + 100 * GRACE).status
    assert pods_of(morning) == {"billing-0": "x", "billing-1": "y"}
    assert (morning.epoch, morning.moved) == (1, 0)


def test_a_drained_pod_gives_its_queues_away_and_its_slot_goes_with_it(first: GroupStatus) -> None:
    drain = {"evenkeel.dev/drain": "b"}
    found = decide(first, {"a": OLD, "b": OLD}, 10, drain).status
    assert counts_of(found)["billing-1"] == 0
    assert [each.draining for each in found.assignments] == [False, True]
    (drained,) = (each for each in found.conditions if each.type == "Drained")
    assert drained.reason == "Empty"
    assert decide(found, {"a": OLD, "b": OLD}, 20, drain).status == found
    assert pods_of(decide(found, {"a": OLD}, 20, drain).status) == {"billing-0": "a"}


def test_a_pod_that_is_drained_while_it_is_away_is_not_waited_for(first: GroupStatus) -> None:
    found = decide(first, {"a": OLD}, 10, {"evenkeel.dev/drain": "b"}).status
    assert pods_of(found) == {"billing-0": "a"}


def test_names_that_are_no_slots_give_their_queues_to_slots() -> None:
    """A status can come from a version that had no slots for members."""
    old = decide(None, {"a": OLD}).status
    assert old.assignments[0].consumer == "billing-0"
    renamed = GroupStatus(epoch=1, assignments=[Assigned("a", queues=old.assignments[0].queues)])
    found = decide(renamed, {"a": OLD}, 10).status
    assert pods_of(found) == {"billing-0": "a"}
    assert counts_of(found)["billing-0"] == counts_of(old)["billing-0"]


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (HeldQueues(2, 8), ("True", "ReadByOwners", "")),
        (HeldQueues(2, 8, lent_queues=3), ("False", "Lent", "3 queues are read by other members")),
        (HeldQueues(2, 7, leaving_queues=1), ("False", "HandingOver", "1 queues are being handed")),
        (HeldQueues(2, 5, 1, waiting_queues=3), ("False", "HandingOver", "3 queues")),
    ],
    ids=["followed", "lent", "leaving", "waiting"],
)
def test_a_condition_says_whether_owners_read_their_queues(
    held: HeldQueues, expected: tuple[str, str, str]
) -> None:
    its = group(None, consumers={"members": {}})
    status = group_status.decide(its, seen(live=[LiveMember("a", START)], held=held), START).status
    (found,) = (each for each in status.conditions if each.type == "Followed")
    assert (found.status.value, found.reason) == expected[:2]
    assert found.message.startswith(expected[2])


def test_without_a_coordinator_nothing_is_decided_and_nothing_moves(first: GroupStatus) -> None:
    its = group(first, consumers={"members": {}})
    found = group_status.decide(its, seen(live=None), at(5)).status
    assert (found.epoch, found.assignments) == (first.epoch, first.assignments)
    (ready,) = (each for each in found.conditions if each.type == "Ready")
    assert ready.reason == "MembersUnknown"


def test_the_status_says_which_session_members_may_count_on(first: GroupStatus) -> None:
    """
    The status gets a shorter session only when the live members are known.

    By then, all longer sessions are over.
    """
    assert first.session == "10s"
    its = group(first, consumers={"members": {"session": "5s"}})
    unknown = group_status.decide(its, seen(live=None), at(5)).status
    assert unknown.session == "10s"
    known = group_status.decide(its, seen(live=[LiveMember("a", START)]), at(15)).status
    assert known.session == "5s"
