"""Moves counted by reason, and the lag of groups in messages, for metrics."""

from evenkeel.control import metrics
from evenkeel.control.groups.census import Census
from evenkeel.control.groups.move_counts import MoveCounts
from lb_core import Member, Policy, plan, reasons
from mq_client.values import Lag, MessageQueue
from tests.groups import members, queues
from tests.job_objects import of_pods


def test_moves_are_counted_by_reason_and_new_queues_are_none() -> None:
    moved = MoveCounts()
    first = plan.plan(None, queues(8), members("a", "b"))
    moved.note(first)
    assert set(moved.counts.values()) == {0}
    second = plan.plan(first, queues(8), members("a", "b", "c", "d"))
    moved.note(second)
    assert moved.counts["joined"] == second.moved == 4
    third = plan.plan(second, queues(8), [*members("b", "c"), Member("d", draining=True)])
    moved.note(third)
    assert moved.counts["left"] == 2
    assert moved.counts["draining"] == third.moved - 2 > 0


def test_moves_of_rocketmqs_strategies_are_counted_together() -> None:
    moved, averagely = MoveCounts(), Policy("AVG")
    first = plan.plan(None, queues(8), members("b", "c"), averagely)
    second = plan.plan(first, queues(8), members("a", "b", "c"), averagely)
    moved.note(second)
    assert set(moved.counts) == set(reasons.FOR_MOVES)
    assert moved.counts[reasons.Reason.STRATEGY] > 0
    assert sum(moved.counts.values()) == second.moved


def test_lag_is_shown_only_where_it_was_measured() -> None:
    """A status can be hours old. So two replicas could differ, and `max` could be the older lag."""
    group = of_pods({"epoch": 1, "lag": 1000})
    lag = Lag(MessageQueue("orders", "broker-a", 0), 2234, 1000, 0)
    heard = {group.head.key: Census([lag])}
    for counted, expected in ((heard, [1234]), ({}, [])):
        found = metrics.ObjectMetrics(list, lambda: [group], lambda it=counted: it).collect()  # type: ignore[misc]
        (family,) = [each for each in found if each.name == "evenkeel_group_lag_messages"]
        assert [sample.value for sample in family.samples] == expected
