"""The effects of annotations that request something now: rebalance, drain, skip."""

from collections.abc import Sequence
from typing import Any

import pytest

from contract.conditions import ConditionReason, ConditionType
from contract.kinds.groups import GroupStatus
from contract.names import DRAIN, PAUSED, REBALANCE
from contract.report import SkipReport
from evenkeel.control import conditions
from evenkeel.control.conflicts import Conflict
from evenkeel.control.groups import group_status
from evenkeel.control.groups.group_status import GroupDecision
from evenkeel.control.groups.surroundings import GroupSurroundings
from evenkeel.control.jobs.states import JobSeen, JobState
from evenkeel.objects import ConsumerGroup
from lb_core.model import Member, Queue
from tests.deciding import (
    ALL,
    BOTH,
    START,
    at,
    condition,
    group,
    grown,
    message,
    owners,
    running,
    seen,
    settled,
    topic,
)

PODS: dict[str, Any] = {"consumers": {"podSelector": {"matchLabels": {"app": "a"}}}}
THREE: dict[str, Any] = {"job": {"executors": 3}}


def of_pods(status: GroupStatus | None = None, **more: Any) -> ConsumerGroup:
    return group(status, **PODS, **more)


def pods(*names: str) -> GroupSurroundings:
    return seen(pods=[Member(name) for name in names])


def shared(*names: str, **spec: Any) -> GroupStatus:
    """Make a group of pods that share eight queues."""
    return group_status.decide(of_pods(**spec), pods(*names), START).status


def test_a_rebalance_that_is_asked_for_lifts_the_cap_and_is_noted_with_what_moved() -> None:
    capped: dict[str, Any] = {**THREE, "strategy": {"sticky": {"maxMoves": "1"}}}
    now = running(ALL, 2)
    slowly = group_status.decide(group(grown(), **capped), seen(now), at(2))
    assert slowly.status.moved == 1
    at_once = group_status.decide(
        group(grown(), annotations={REBALANCE: "monday"}, **capped), seen(now), at(2)
    )
    assert owners(at_once.status) == {"billing-0": 3, "billing-1": 3, "billing-2": 2}
    assert at_once.status.rebalanced_for == "monday"
    last = at_once.status.last_rebalance
    assert last is not None
    assert (last.trigger, last.moved) == ("Asked", 2)
    assert [each.reason for each in at_once.happened] == ["Rebalanced"]


def test_a_rebalance_is_made_once_for_each_value() -> None:
    """The status alone says that the rebalance was made."""
    paused: dict[str, Any] = {"rebalance": {"paused": True}}

    def decided(status: GroupStatus, value: str, **spec: Any) -> GroupStatus:
        found = group(status, annotations={REBALANCE: value}, **paused, **spec)
        return group_status.decide(found, seen(running(ALL, status.epoch)), at(1)).status

    first = decided(grown(), "monday", job={"executors": 3})
    assert (first.rebalanced_for, first.moved) == ("monday", 2)
    calm = decided(settled(), "monday")
    assert (calm.rebalanced_for, calm.moved) == ("monday", 0)
    wider = decided(decided(calm, "monday", **THREE), "monday", **THREE)
    assert wider.moved == 0
    again = decided(wider, "tuesday", **THREE)
    assert (again.rebalanced_for, again.moved) == ("tuesday", 2)
    unasked = group_status.decide(
        group(again, **paused, **THREE), seen(running(ALL, 3)), at(2)
    ).status
    assert unasked.rebalanced_for == "tuesday"


def test_a_rebalance_with_nothing_to_move_writes_the_note_alone() -> None:
    before = settled()
    decision = group_status.decide(
        group(before, annotations={REBALANCE: "now"}), seen(running(BOTH, 1)), at(9)
    )
    assert decision.status.rebalanced_for == "now"
    assert decision.happened == []
    noted = group(decision.status, annotations={REBALANCE: "now"})
    assert group_status.decide(noted, seen(running(BOTH, 1)), at(99)).status == decision.status
    assert group_status.replace_status(decision.status, rebalanced_for="") == before


def test_a_rebalance_does_not_wait_until_the_job_follows() -> None:
    behind = seen(running(ALL, 1))
    waits = group_status.decide(group(grown(), **THREE), behind, at(1)).status
    assert waits.moved == 0
    moves = group_status.decide(
        group(waits, annotations={REBALANCE: "now"}, **THREE), behind, at(2)
    ).status
    assert moves.moved == 2


def test_a_rebalance_is_not_too_small_to_gain_anything() -> None:
    """Without a request, rates that differ by less than `minGain` move nothing."""
    strategy = {"sticky": {"weights": "Rate", "minGain": "50%"}}
    rates = {Queue("orders", f"broker-{it}", number): 10.0 for it in "ab" for number in range(4)}
    rates[Queue("orders", "broker-a", 0)] = 30.0
    rates[Queue("orders", "broker-a", 1)] = 30.0
    sight = seen(running(BOTH, 1), weights=rates)
    before = settled(strategy=strategy)
    calm = group_status.decide(group(before, strategy=strategy), sight, at(1)).status
    assert calm.moved == 0
    moved = group_status.decide(
        group(before, annotations={REBALANCE: "now"}, strategy=strategy), sight, at(1)
    ).status
    assert moved.moved > 0
    again = group_status.decide(
        group(moved, annotations={REBALANCE: "again"}, strategy=strategy), sight, at(2)
    ).status
    assert again.moved == moved.moved


def test_a_rebalance_that_cannot_be_planned_yet_stays_asked_for() -> None:
    found = group(grown(), annotations={REBALANCE: "now"}, **THREE)
    blind = group_status.decide(found, GroupSurroundings({}, running(ALL, 2)), at(1)).status
    assert blind.rebalanced_for == ""
    later = group_status.decide(
        group(blind, annotations={REBALANCE: "now"}, **THREE), seen(running(ALL, 2)), at(2)
    ).status
    assert (later.rebalanced_for, later.moved) == ("now", 2)


def test_a_rebalance_of_a_broadcasting_group_is_noted() -> None:
    spec: dict[str, Any] = {"consumers": {"static": [{"id": "a"}]}, "messageModel": "Broadcasting"}
    found = group_status.decide(group(annotations={REBALANCE: "now"}, **spec), seen(), START).status
    assert found.rebalanced_for == "now"


def test_a_drained_pod_is_emptied_and_stays_a_consumer() -> None:
    before = shared("pod-a", "pod-b", "pod-c")
    decision = group_status.decide(
        of_pods(before, annotations={DRAIN: "pod-b"}), pods("pod-a", "pod-b", "pod-c"), at(1)
    )
    assert owners(decision.status) == {"pod-a": 4, "pod-b": 0, "pod-c": 4}
    assert decision.status.consumers == 3
    assert [each.draining for each in decision.status.assignments] == [False, True, False]
    last = decision.status.last_rebalance
    assert last is not None
    assert last.trigger == "ConsumersChanged"
    assert "pod-b -> pod-a, draining" in last.reason
    assert condition(decision, "Drained") == ("True", "Empty")


def test_a_drain_ends_when_the_name_is_removed() -> None:
    both = pods("pod-a", "pod-b")
    drained = group_status.decide(
        of_pods(shared("pod-a", "pod-b"), annotations={DRAIN: "pod-b"}), both, at(1)
    ).status
    assert owners(drained) == {"pod-a": 8, "pod-b": 0}
    back = group_status.decide(of_pods(drained), both, at(2))
    assert owners(back.status) == {"pod-a": 4, "pod-b": 4}
    assert conditions.find(back.status.conditions, ConditionType.DRAINED) is None


def test_a_drain_of_all_pods_changes_nothing_and_says_so() -> None:
    before = shared("pod-a", "pod-b")
    decision = group_status.decide(
        of_pods(before, annotations={DRAIN: "pod-b, pod-a"}), pods("pod-a", "pod-b"), at(1)
    )
    assert owners(decision.status) == {"pod-a": 4, "pod-b": 4}
    assert condition(decision, "Drained") == ("False", "Draining")
    assert message(decision, "Drained") == "pod-a has 4 queues; pod-b has 4 queues"


@pytest.mark.parametrize("value", ["", " , ", "pod-x", "pod-a-1"])
def test_a_drain_of_nobody_that_is_there_moves_nothing(value: str) -> None:
    before = shared("pod-a", "pod-b")
    decision = group_status.decide(
        of_pods(before, annotations={DRAIN: value}), pods("pod-a", "pod-b"), at(1)
    )
    assert owners(decision.status) == {"pod-a": 4, "pod-b": 4}
    assert decision.status.epoch == before.epoch


def test_a_drain_goes_as_fast_as_max_moves_allows() -> None:
    spec: dict[str, Any] = {"strategy": {"sticky": {"maxMoves": "3"}}}
    status = shared("pod-a", "pod-b", **spec)
    drained = {DRAIN: "pod-b"}
    left = []
    for second in (1, 2):
        found = of_pods(status, annotations=drained, **spec)
        decision = group_status.decide(found, pods("pod-a", "pod-b"), at(second))
        status = decision.status
        left.append((owners(status)["pod-b"], condition(decision, "Drained")[0]))
    assert left == [(1, "False"), (0, "True")]


def test_a_paused_group_empties_a_drained_pod_and_moves_nothing_else() -> None:
    before = shared("pod-a", "pod-b")
    now = pods("pod-a", "pod-b", "pod-c")
    paused = {PAUSED: "true"}
    still = group_status.decide(of_pods(before, annotations=paused), now, at(1)).status
    assert owners(still) == {"pod-a": 4, "pod-b": 4, "pod-c": 0}
    drained = group_status.decide(
        of_pods(still, annotations={**paused, DRAIN: "pod-b"}), now, at(2)
    )
    assert owners(drained.status) == {"pod-a": 4, "pod-b": 0, "pod-c": 4}
    assert drained.status.moved == 4
    calm = group_status.decide(
        of_pods(drained.status, annotations={**paused, DRAIN: "pod-b"}), now, at(3)
    )
    assert calm.status == drained.status


def test_a_paused_group_with_nobody_but_drained_pods_moves_nothing() -> None:
    before = shared("pod-a", "pod-b")
    annotations = {PAUSED: "true", DRAIN: "pod-a,pod-b,pod-c"}
    found = of_pods(before, annotations=annotations)
    decision = group_status.decide(found, pods("pod-a", "pod-b", "pod-c"), at(1))
    assert owners(decision.status) == {"pod-a": 4, "pod-b": 4, "pod-c": 0}


def test_a_drained_consumer_of_a_broadcasting_group_reads_nothing() -> None:
    listed = {"static": [{"id": "a"}, {"id": "b"}]}
    spec: dict[str, Any] = {"consumers": listed, "messageModel": "Broadcasting"}

    def shares(names: str) -> dict[str, int]:
        found = group(annotations={DRAIN: names}, **spec)
        return owners(group_status.decide(found, seen(), START).status)

    assert shares("b") == {"a": 8, "b": 0}
    assert shares("a,b") == {"a": 8, "b": 8}


def drained_executor(*executors: str) -> GroupDecision:
    """Executor 1 must be drained, in a group whose executors are not pods."""
    slots = {f"billing-{number}": name for number, name in enumerate(executors)}
    found = group(settled(), annotations={DRAIN: "1"})
    return group_status.decide(found, seen(running(slots, 1)), at(1))


def test_a_drained_executor_leaves_its_slot_and_no_queue_moves() -> None:
    before = drained_executor("0", "1")
    assert condition(before, "Drained") == ("False", "Draining")
    assert message(before, "Drained") == "1 fills billing-1"
    away = drained_executor("0")
    assert condition(away, "Drained") == ("True", "Empty")
    replaced = drained_executor("0", "2")
    off = group_status.decide(
        group(settled(), annotations={DRAIN: "1"}), seen(JobSeen(JobState.ENDED)), at(1)
    )
    assert condition(off, "Drained") == ("True", "Empty"), "executors end with their driver"
    assert condition(replaced, "Drained") == ("True", "Empty")
    for each in (before, away, replaced):
        assert owners(each.status) == {"billing-0": 4, "billing-1": 4}
        assert each.status.epoch == 1


def skipping(
    skipped: SkipReport | None,
    status: GroupStatus | None = None,
    sight: GroupSurroundings | None = None,
) -> GroupDecision:
    sight = sight or seen(running(BOTH, 1), skipped=skipped)
    return group_status.decide(group(status or settled()), sight, at(5))


def skip_events(decision: GroupDecision) -> Sequence[tuple[str, bool]]:
    return [(each.message, each.is_warning) for each in decision.happened if "Skip" in each.reason]


def test_what_a_job_has_passed_over_is_told_once_and_kept() -> None:
    skipped = SkipReport("monday", 39, "orders@broker-a 0: offsets 2 to 40")
    first = skipping(skipped)
    assert skip_events(first) == [
        ("39 messages were skipped as requested: orders@broker-a 0: offsets 2 to 40", True)
    ]
    kept = first.status.last_skip
    assert kept is not None
    assert (kept.value, kept.messages, kept.at) == ("monday", 39, "2026-01-01T00:00:05Z")
    again = skipping(skipped, first.status)
    assert skip_events(again) == []
    assert again.status == first.status
    assert skipping(None, first.status).status.last_skip == kept
    nothing = skipping(SkipReport("tuesday", 0, ""), first.status)
    assert skip_events(nothing) == [
        ("0 messages were skipped as requested: no message was lost", False)
    ]


def test_what_a_job_has_passed_over_is_told_also_where_nothing_can_be_planned() -> None:
    blind = GroupSurroundings({}, running(BOTH, 1), skipped=SkipReport("monday", 1, "one"))
    decision = skipping(None, sight=blind)
    assert decision.status.last_skip is not None
    assert len(skip_events(decision)) == 1


def test_a_conflict_does_not_keep_a_rebalance_waiting_for_ever() -> None:
    found = of_pods(shared("pod-a"), annotations={REBALANCE: "now"})
    sight = seen(
        pods=[Member("pod-a")],
        conflict=Conflict(ConditionReason.OLDER_GROUP, "other already reads"),
    )
    assert group_status.decide(found, sight, at(1)).status.rebalanced_for == "now"


def test_more_queues_while_a_pod_is_drained_go_to_the_others() -> None:
    drained = {DRAIN: "pod-b"}
    both = [Member("pod-a"), Member("pod-b")]
    status = group_status.decide(
        of_pods(shared("pod-a", "pod-b"), annotations=drained), seen(pods=both), at(1)
    ).status
    more = group_status.decide(
        of_pods(status, annotations=drained), seen(route=topic(6), pods=both), at(2)
    ).status
    assert owners(more) == {"pod-a": 12, "pod-b": 0}
