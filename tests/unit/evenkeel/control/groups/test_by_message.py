"""Decisions for a group that is balanced by message, or whose balance changes."""

from typing import Any

import msgspec

from contract.conditions import ConditionReason
from contract.kinds.groups import (
    Assigned,
    Balance,
    BrokerStore,
    GroupStatus,
    PopStore,
    WaitingSum,
)
from coordinator.sessions import HeldQueues
from evenkeel import times
from evenkeel.control.conflicts import Conflict
from evenkeel.control.groups import group_status
from evenkeel.control.groups.group_status import GroupDecision
from evenkeel.control.groups.member_slots import LiveMember
from evenkeel.control.groups.surroundings import (
    MEMBERS_UNKNOWN,
    NOT_ASKED,
)
from evenkeel.control.jobs.states import JobSeen, JobState
from tests.deciding import (
    START,
    at,
    condition,
    group,
    message,
    owners,
    running,
    seen,
    topic,
)

BY_MESSAGE: dict[str, Any] = {"consumers": {"members": {}}, "balance": "Messages"}
POPPING = GroupStatus(balance=Balance.MESSAGES)
"""The status of a group whose members may pop."""


def test_a_group_by_message_lists_its_members_and_plans_nothing() -> None:
    unknown = group_status.decide(group(POPPING, **BY_MESSAGE), seen(), START)
    assert condition(unknown, "Ready") == ("False", "MembersUnknown")
    live = [LiveMember("b", START), LiveMember("a", START)]
    first = group_status.decide(group(POPPING, **BY_MESSAGE), seen(live=live), START)
    assert [(each.consumer, each.queues) for each in first.status.assignments] == [
        ("a", []),
        ("b", []),
    ]
    assert (first.status.epoch, first.status.consumers, first.status.queues) == (0, 2, 8)
    assert condition(first, "Ready") == ("True", "Assigned")
    assert condition(first, "Balanced") == ("True", "ByMessage")
    later = group_status.decide(group(first.status, **BY_MESSAGE), seen(live=live[:1]), at(1))
    assert [each.consumer for each in later.status.assignments] == ["b"]
    assert (later.status.epoch, later.status.moved) == (0, 0)


def test_what_waits_is_written_when_its_magnitude_changes_or_pops_begin_to_wait() -> None:

    def decide(found: GroupStatus, ready: int, retries: int, parked: int) -> GroupStatus:
        waiting = WaitingSum(ready, retries, parked)
        sight = seen(live=[LiveMember("a", START)], lag=ready + retries, waiting=waiting)
        return group_status.decide(group(found, **BY_MESSAGE), sight, START).status

    first = decide(POPPING, 10, 0, 3)
    assert (first.lag, first.waiting) == (10, WaitingSum(10, 0, 3))
    assert decide(first, 12, 5, 1) == first
    for waiting in ((9, 1, 3), (80, 10, 3), (100, 0, 3), (10, 0, 0)):
        later = decide(first, *waiting)
        assert (later.lag, later.waiting) == (sum(waiting[:2]), WaitingSum(*waiting))


def test_the_oldest_message_is_written_when_the_magnitude_of_its_age_changes() -> None:
    now = at(100)

    def decide(found: GroupStatus, oldest: str) -> GroupStatus:
        waiting = WaitingSum(5, oldest=oldest)
        sight = seen(live=[LiveMember("a", START)], lag=5, waiting=waiting)
        return group_status.decide(group(found, **BY_MESSAGE), sight, now).status

    first = decide(POPPING, times.format_time(at(50)))
    assert first.waiting == WaitingSum(5, oldest=times.format_time(at(50)))
    assert decide(first, times.format_time(at(10))) == first
    for oldest in (times.format_time(at(0)), times.format_time(at(95)), ""):
        assert decide(first, oldest).waiting == WaitingSum(5, oldest=oldest)


def test_stores_are_written_when_they_change_and_forgotten_with_the_balance() -> None:
    live = [LiveMember("a", START)]

    def decide(found: GroupStatus, stores: dict[str, PopStore] | None) -> GroupStatus:
        sight = seen(live=live, stores=stores)
        return group_status.decide(group(found, **BY_MESSAGE), sight, START).status

    first = decide(POPPING, {"b": PopStore.FILES, "a": PopStore.ROCKSDB})
    assert first.stores == [
        BrokerStore("a", PopStore.ROCKSDB),
        BrokerStore("b", PopStore.FILES),
    ]
    assert decide(first, None).stores == first.stores
    assert decide(first, {"b": PopStore.FILES}).stores == [BrokerStore("b", PopStore.FILES)]
    assert decide(first, {}).stores == []


def test_a_group_by_message_says_why_nobody_gets_messages() -> None:
    live = [LiveMember("a", START)]
    nobody = group_status.decide(group(POPPING, **BY_MESSAGE), seen(live=[]), START)
    assert condition(nobody, "Assigned") == ("False", "Unowned")
    unfit = group_status.decide(
        group(POPPING, **BY_MESSAGE), seen(live=live, pop_trouble="no pops"), START
    )
    assert condition(unfit, "Ready") == ("False", "BrokersUnfit")
    unreadable = group_status.decide(
        group(POPPING, **BY_MESSAGE), seen(route=topic(unreadable="a"), live=live), START
    )
    assert condition(unreadable, "Ready") == ("False", "NotReadable")
    early = group_status.decide(
        group(POPPING, **BY_MESSAGE), seen(live=live, pop_trouble=NOT_ASKED), START
    )
    assert condition(early, "Ready") == ("False", "Starting")
    conflict = Conflict(ConditionReason.OLDER_GROUP, "other already reads")
    later = group_status.decide(group(POPPING, **BY_MESSAGE), seen(conflict=conflict), START)
    assert condition(later, "Assigned") == ("False", "OlderGroup")
    assert later.status.assignments == []


BY_QUEUE: dict[str, Any] = {"consumers": {"members": {}}}


def by_queue() -> GroupStatus:
    """The status of a group whose member `a` holds all queues."""
    live = [LiveMember("a", START)]
    return group_status.decide(group(**BY_QUEUE), seen(live=live), START).status


def test_members_pop_when_nobody_holds_a_queue_and_the_positions_are_moved() -> None:
    before, live = by_queue(), [LiveMember("a", START)]

    def decide(found: GroupStatus, **more: Any) -> GroupDecision:
        sight = seen(live=live, poppers=frozenset(), **more)
        return group_status.decide(group(found, **BY_MESSAGE), sight, START)

    # The coordinator may not have heard of the assignment yet, so it counts nothing.
    first = decide(before, held=HeldQueues(1), are_positions_ready=True)
    assert owners(first.status) == {"billing-0": 0}
    assert (first.status.epoch, first.status.balance) == (2, Balance.QUEUES)
    assert condition(first, "Ready") == ("False", "BalanceChanges")
    assert not first.happened
    for held, trouble, text in (
        (None, None, MEMBERS_UNKNOWN),
        (HeldQueues(1, leaving_queues=2), None, "queues that members still hold: 2"),
        (HeldQueues(1, granted_queues=1), None, "queues that members still hold: 1"),
        (HeldQueues(1), "broker-b is away", "broker-b is away"),
    ):
        waits = decide(first.status, held=held, positions_trouble=trouble)
        assert waits.status.epoch == 2
        assert [each.message for each in waits.status.conditions if each.type == "Ready"] == [
            f"balance changes from Queues to Messages: {text}"
        ]
    done = decide(first.status, held=HeldQueues(1), are_positions_ready=True)
    assert (done.status.balance, done.status.leftovers) == (Balance.MESSAGES, False)
    assert [each.consumer for each in done.status.assignments] == ["a"]
    assert condition(done, "Ready") == ("True", "Assigned")
    assert [each.message for each in done.happened] == ["members read by message from now on"]


def test_members_get_queues_again_when_nobody_pops_and_the_positions_are_moved() -> None:
    live = [LiveMember("billing-7", START)]
    popping = msgspec.structs.replace(POPPING, assignments=[Assigned("billing-7")], epoch=3)

    def decide(**more: Any) -> GroupDecision:
        sight = seen(live=live, held=HeldQueues(1), **more)
        return group_status.decide(group(popping, **BY_QUEUE), sight, START)

    for poppers, is_ready, text in (
        (None, True, MEMBERS_UNKNOWN),
        (frozenset("ab"), True, "members that still pop messages: a, b"),
        (frozenset("abcdefg"), True, "members that still pop messages: a, b, c, d, e and 2 more"),
        (frozenset(), False, "the positions at the brokers are moved now"),
    ):
        waits = decide(poppers=poppers, are_positions_ready=is_ready)
        assert (waits.status.balance, waits.status.epoch) == (Balance.MESSAGES, 3)
        assert [each.message for each in waits.status.conditions if each.type == "Ready"] == [
            f"balance changes from Messages to Queues: {text}"
        ]
    done = decide(poppers=frozenset(), are_positions_ready=True)
    assert (done.status.balance, done.status.leftovers) == (Balance.QUEUES, True)
    assert owners(done.status) == {"billing-0": 8}, "the popper's name is no slot"
    assert done.status.epoch == 4


def test_a_new_group_by_message_begins_when_its_members_are_known() -> None:
    live = [LiveMember("a", START)]
    sight = seen(live=live, are_positions_ready=True, held=HeldQueues(1), poppers=frozenset())
    first = group_status.decide(group(**BY_MESSAGE), sight, START)
    assert first.status.balance is Balance.MESSAGES
    assert condition(first, "Ready") == ("True", "Assigned")
    assert not first.happened, "its balance has not changed"


def test_nothing_changes_during_a_conflict_and_a_group_that_gives_up_its_members_is_refused() -> (
    None
):
    conflict = Conflict(ConditionReason.OLDER_GROUP, "other already reads")
    nobody: dict[str, Any] = {"live": [], "held": HeldQueues(), "poppers": frozenset()}
    sight = seen(are_positions_ready=True, conflict=conflict, **nobody)
    waits = group_status.decide(group(**BY_MESSAGE), sight, START)
    assert waits.status.balance is Balance.QUEUES
    assert condition(waits, "Ready") == ("False", "OlderGroup")
    fixed: dict[str, Any] = {"consumers": {"static": [{"id": "a"}]}}
    refused = group_status.decide(group(POPPING, **fixed), seen(are_positions_ready=True), START)
    assert condition(refused, "Ready") == ("False", "InvalidSpec")
    assert refused.status.balance is Balance.MESSAGES


IN_ORDER: dict[str, Any] = {**BY_MESSAGE, "messages": {"ordered": True}}
POPPING_IN_ORDER = GroupStatus(balance=Balance.MESSAGES, ordered=True)


def test_a_group_that_keeps_the_order_has_owners_and_its_brokers_must_be_able_to_pop() -> None:
    live = [LiveMember("a", START)]
    found = group_status.decide(group(POPPING_IN_ORDER, **IN_ORDER), seen(live=live), START)
    assert owners(found.status) == {"billing-0": 8}
    assert condition(found, "Ready") == ("True", "Assigned")
    unfit = group_status.decide(
        group(found.status, **IN_ORDER), seen(live=live, pop_trouble="no pops"), START
    )
    assert condition(unfit, "Ready") == ("False", "BrokersUnfit")
    assert owners(unfit.status) == {"billing-0": 8}


def test_what_was_popped_without_an_order_comes_again_until_all_messages_are() -> None:
    """Messages that were popped in order come again in their queue, so they are no leftovers."""

    def change(status: GroupStatus, **spec: Any) -> tuple[GroupStatus, list[str]]:
        """Decide twice, because queues are taken away first. Return the status and all notices."""
        sight = seen(
            live=[LiveMember("a", START)], held=HeldQueues(1), poppers=frozenset(),
            are_positions_ready=True,
        )  # fmt: skip
        told = []
        for _ in range(2):
            done = group_status.decide(group(status, **spec), sight, START)
            status = done.status
            told += [each.message for each in done.happened if each.reason == "BalanceChanged"]
        return status, told

    status = by_queue()
    for spec, text, way in (
        (IN_ORDER, "by message, in the order of each queue,", (Balance.MESSAGES, True, False)),
        (BY_QUEUE, "by queue", (Balance.QUEUES, False, False)),
        (BY_MESSAGE, "by message", (Balance.MESSAGES, False, False)),
        (IN_ORDER, "by message, in the order of each queue,", (Balance.MESSAGES, True, True)),
        (BY_QUEUE, "by queue", (Balance.QUEUES, False, True)),
        (IN_ORDER, "by message, in the order of each queue,", (Balance.MESSAGES, True, True)),
        (BY_MESSAGE, "by message", (Balance.MESSAGES, False, False)),
    ):
        waits = group_status.decide(group(status, **spec), seen(live=[]), START)
        assert condition(waits, "Ready") == ("False", "BalanceChanges")
        status, told = change(status, **spec)
        assert (status.balance, status.ordered, status.leftovers) == way
        assert told == [f"members read {text} from now on"]


def test_a_group_that_has_only_popped_tells_of_its_change_too() -> None:
    sight = seen(live=[LiveMember("a", START)], held=HeldQueues(1), poppers=frozenset("a"))
    waits = group_status.decide(group(POPPING, **IN_ORDER), sight, START)
    assert [each.message for each in waits.status.conditions if each.type == "Ready"] == [
        "balance changes from Messages to Messages in order: members that still pop messages: a"
    ]
    ready = seen(
        live=[LiveMember("a", START)], held=HeldQueues(1), poppers=frozenset(),
        are_positions_ready=True,
    )  # fmt: skip
    done = group_status.decide(group(POPPING, **IN_ORDER), ready, START)
    assert [each.reason for each in done.happened] == ["BalanceChanged"]


def test_the_condition_names_both_ways_of_reading() -> None:
    sight = seen(live=[], held=HeldQueues(1), poppers=frozenset())
    waits = group_status.decide(group(POPPING_IN_ORDER, **BY_MESSAGE), sight, START)
    assert [each.message for each in waits.status.conditions if each.type == "Ready"] == [
        "balance changes from Messages in order to Messages: the positions at the brokers are "
        "moved now"
    ]


POPPING_JOB: dict[str, Any] = {"balance": "Messages"}


def test_a_job_by_message_begins_when_its_positions_are_ready_and_owns_no_queues() -> None:
    def decide(found: GroupStatus, job: JobSeen | None = None, **more: Any) -> GroupDecision:
        return group_status.decide(group(found, **POPPING_JOB), seen(job, **more), START)

    assert not group_status.is_wanted(group(GroupStatus(), **POPPING_JOB), None)
    ended = JobSeen(JobState.ENDED)
    early = decide(GroupStatus(), ended)
    assert message(early, "Ready").startswith("executors may not pop yet: the positions")
    other = decide(GroupStatus(), JobSeen(JobState.RUNNING), are_positions_ready=True)
    assert message(other, "Ready").endswith("the driver of an earlier job still runs")
    first = decide(GroupStatus(), ended, are_positions_ready=True)
    assert (first.status.balance, first.status.epoch) == (Balance.MESSAGES, 1)
    assert owners(first.status) == {"billing-0": 0, "billing-1": 0}
    assert group_status.is_wanted(group(first.status, **POPPING_JOB), None)
    job = running({"billing-0": "0", "billing-1": "1"}, 1)
    later = decide(first.status, job)
    assert (later.status.epoch, later.status.executors, later.status.queues) == (1, 2, 8)
    assert condition(later, "Ready") == ("True", "Running")
    assert condition(later, "Assigned") == ("True", "ByMessage")
    unfit = decide(first.status, job, pop_trouble="no pops")
    assert condition(unfit, "Ready") == ("False", "BrokersUnfit")


def test_the_executors_of_a_job_by_message_come_and_go_without_queues() -> None:
    first = group_status.decide(
        group(POPPING, **POPPING_JOB), seen(JobSeen(JobState.STARTING)), START
    ).status
    job = running({"billing-0": "0", "billing-1": "1"}, 1)
    wider = group(first, job={"executors": 3}, **POPPING_JOB)
    grown = group_status.decide(wider, seen(job), at(1)).status
    assert (grown.epoch, owners(grown)) == (
        2,
        dict.fromkeys(("billing-0", "billing-1", "billing-2"), 0),
    )
    narrow = group(grown, job={"executors": 1}, **POPPING_JOB)
    found = group_status.decide(narrow, seen(job), at(2)).status
    assert (found.epoch, len(found.assignments), found.moved) == (3, 1, 0)
