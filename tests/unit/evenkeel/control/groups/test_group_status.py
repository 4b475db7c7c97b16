"""Decisions for a group: from its status and observations to its next status."""

from typing import Any

import msgspec
import pytest

from contract.conditions import ConditionReason, ConditionType
from contract.kinds.groups import GroupStatus, OwnedQueues
from contract.names import PAUSED
from evenkeel import planning
from evenkeel.control import conditions, metrics
from evenkeel.control.conflicts import Conflict
from evenkeel.control.groups import group_status, rates
from evenkeel.control.groups.surroundings import (
    GroupSurroundings,
)
from evenkeel.control.jobs.states import JobSeen, JobState
from evenkeel.objects import ConsumerGroup
from lb_core.model import Member, Queue
from mq_client import values as mq_values
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


def test_the_first_plan_is_for_all_slots_before_any_executor_is_there() -> None:
    decision = group_status.decide(group(), seen(), START)
    assert decision.status.epoch == 1
    assert owners(decision.status) == {"billing-0": 4, "billing-1": 4}
    assert decision.status.moved == 0
    assert condition(decision, "Ready") == ("False", "Starting")


def test_nothing_new_makes_the_same_status() -> None:
    status = settled()
    again = group_status.decide(group(status), seen(running(BOTH, 1)), at(3600))
    assert again.status == status
    assert again.happened == []
    assert condition(again, "Ready") == ("True", "Running")


def test_one_more_executor_moves_the_fewest_and_says_why() -> None:
    before = grown()
    assert before.epoch == 2, "the job learns of the slot"
    assert owners(before) == {"billing-0": 4, "billing-1": 4, "billing-2": 0}
    assert before.moved == 0
    spec: dict[str, Any] = {"job": {"executors": 3}}
    decision = group_status.decide(group(before, **spec), seen(running(ALL, 2)), at(2))
    assert decision.status.epoch == 3
    assert owners(decision.status) == {"billing-0": 3, "billing-1": 3, "billing-2": 2}
    assert decision.status.moved == 2
    last = decision.status.last_rebalance
    assert last is not None
    assert last.moved == 2
    assert "billing-0 -> billing-2, joined: orders@broker-a 3" in last.reason
    assert [each.reason for each in decision.happened] == ["Rebalanced"]


def test_a_lost_executor_keeps_its_queues_for_the_grace_and_then_they_move() -> None:
    gone = seen(running({"billing-0": "0"}, 1))
    lost = group_status.decide(group(settled()), gone, at(10))
    assert lost.status.epoch == 1
    assert lost.status.assignments[1].empty_since == "2026-01-01T00:00:10Z"
    assert lost.look_again_seconds == pytest.approx(60, abs=1)
    still = group_status.decide(group(lost.status), gone, at(69))
    assert still.status == lost.status
    late = group_status.decide(group(still.status), gone, at(71))
    assert late.status.epoch == 2
    assert owners(late.status) == {"billing-0": 8, "billing-1": 0}
    assert late.status.last_rebalance is not None
    assert late.status.last_rebalance.trigger == "Interval"


def test_a_replacement_takes_the_slot_and_nothing_has_moved() -> None:
    lost = group_status.decide(group(settled()), seen(running({"billing-0": "0"}, 1)), at(10))
    new = group_status.decide(
        group(lost.status), seen(running({"billing-0": "0", "billing-1": "2"}, 1)), at(20)
    )
    assert new.status.epoch == 1
    assert new.status.assignments[1].executor == "2"
    assert new.status.assignments[1].empty_since == ""


def published(status: GroupStatus) -> tuple[int, int, dict[str, int]]:
    """The epoch, the moves so far, and how many queues each consumer owns."""
    return status.epoch, status.moved, owners(status)


class Story:
    """One group, for which decisions are made repeatedly while time passes."""

    def __init__(self, status: GroupStatus, executors: int = 2) -> None:
        self.status = status
        self._spec: dict[str, Any] = {"job": {"executors": executors}}

    def look(self, job: JobSeen, seconds: float) -> tuple[int, int, dict[str, int]]:
        decided = group_status.decide(group(self.status, **self._spec), seen(job), at(seconds))
        again = group_status.decide(group(decided.status, **self._spec), seen(job), at(seconds))
        assert again.status == decided.status, "one decision is enough"
        self.status = decided.status
        return published(self.status)


EVEN = (1, 0, {"billing-0": 4, "billing-1": 4})


def test_a_replacement_that_starts_for_longer_than_the_grace_moves_nothing() -> None:
    story = Story(settled())
    one = {"billing-0": "0"}
    assert story.look(running(one, 1), 10) == EVEN
    assert story.status.assignments[1].empty_since == at(10).strftime("%Y-%m-%dT%H:%M:%SZ")
    for seconds in (12, 69, 71, 300, 3600):
        assert story.look(running(one, 1, coming=["2"]), seconds) == EVEN
    assert story.look(running({**one, "billing-1": "2"}, 1), 3601) == EVEN
    assert story.status.last_rebalance is None


def test_a_replacement_that_fails_ends_the_wait_and_another_one_brings_no_queues_back() -> None:
    story = Story(settled())
    one = {"billing-0": "0"}
    story.look(running(one, 1, coming=["2"]), 10)
    assert story.look(running(one, 1), 100) == (2, 4, {"billing-0": 8, "billing-1": 0})
    assert story.look(running(one, 2, coming=["3"]), 101)[0] == 2, (
        "the slot gets no queues before it is filled"
    )
    both = story.look(running({**one, "billing-1": "3"}, 2), 300)
    assert both == (3, 8, {"billing-0": 4, "billing-1": 4})


def test_the_grace_ends_where_fewer_executors_are_on_their_way_than_slots_are_empty() -> None:
    first = group_status.decide(group(job={"executors": 3}), seen(), START).status
    story = Story(first, executors=3)
    story.look(running(ALL, 1), 1)
    one = {"billing-0": "0"}
    story.look(running(one, 1, coming=["3"]), 10)
    loads = story.look(running(one, 1, coming=["3"]), 71)[2]
    assert loads == {"billing-0": 5, "billing-1": 3, "billing-2": 0}


def test_slow_first_executors_cost_no_epoch_and_no_move() -> None:
    """Each executor needs longer than the grace to start, and the second one twice as long."""
    story = Story(group_status.decide(group(), seen(), START).status)
    assert published(story.status) == EVEN
    both = ["0", "1"]
    for seconds in (1, 62, 100):
        assert story.look(running({}, 0, coming=both), seconds) == EVEN
    for seconds in (101, 160, 190):
        assert story.look(running({"billing-0": "0"}, 1, coming=["1"]), seconds) == EVEN
    assert story.look(running(BOTH, 1), 200) == EVEN


def test_a_slow_third_executor_costs_the_fewest_moves() -> None:
    story = Story(grown(), executors=3)
    waits = (2, 0, {"billing-0": 4, "billing-1": 4, "billing-2": 0})
    for seconds in (2, 62, 500):
        assert story.look(running(BOTH, 2, coming=["2"]), seconds) == waits
        assert story.look(running(BOTH, 2), seconds) == waits
    done = story.look(running(ALL, 2), 501)
    assert done == (3, 2, {"billing-0": 3, "billing-1": 3, "billing-2": 2})


def test_where_nobody_is_left_the_owners_stay() -> None:
    story = Story(settled())
    for seconds in (10, 71, 3600):
        assert story.look(running({}, 1), seconds) == EVEN
    assert story.look(running({"billing-0": "2"}, 1, coming=["3"]), 3601) == EVEN
    new = group_status.decide(group(story.status), seen(running({}, 1), topic(5)), at(3700)).status
    assert owners(new) == {"billing-0": 5, "billing-1": 5}, "new queues still get an owner"


def test_a_new_driver_whose_executors_are_slow_moves_nothing() -> None:
    """The numbers of executors begin again, so new executors have names of earlier executors."""
    story = Story(settled())
    story.look(JobSeen(JobState.STARTING), 10)
    story.look(running({}, 0, coming=["0", "1"]), 20)
    for seconds in (30, 100, 200):
        assert story.look(running({"billing-0": "0"}, 0, coming=["1"]), seconds) == EVEN
    assert story.look(running(BOTH, 1), 201) == EVEN


@pytest.mark.parametrize("name", ["Averagely", "ConsistentHash"])
def test_with_rocketmqs_strategies_a_slot_gets_queues_when_it_is_filled(name: str) -> None:
    spec: dict[str, Any] = {"strategy": {"name": name}}
    before = grown(**spec)
    assert owners(before)["billing-2"] == 0
    wider: dict[str, Any] = {"job": {"executors": 3}, **spec}
    filled = group_status.decide(group(before, **wider), seen(running(ALL, 2)), at(2)).status
    assert owners(filled)["billing-2"] > 0


def test_a_driver_that_is_away_is_no_empty_group() -> None:
    away = seen(JobSeen(JobState.BACKING_OFF, "starts again in 8 s"))
    decision = group_status.decide(group(settled()), away, at(3600))
    assert decision.status.epoch == 1
    assert owners(decision.status) == {"billing-0": 4, "billing-1": 4}
    assert condition(decision, "Ready") == ("False", "BackingOff")
    assert [(each.reason, each.is_warning) for each in decision.happened] == [("BackingOff", True)]
    again = group_status.decide(group(decision.status), away, at(3610))
    assert again.happened == []


def test_fewer_executors_let_the_slot_go_that_moves_least() -> None:
    spec: dict[str, Any] = {"job": {"executors": 1}}
    decision = group_status.decide(group(settled(), **spec), seen(running(BOTH, 1)), at(1))
    assert owners(decision.status) == {"billing-0": 8}
    assert decision.status.epoch == 2


def test_fewer_executors_let_an_empty_slot_go_first() -> None:
    job = {"executors": 3}
    three = group_status.decide(group(grown(), job=job), seen(running(ALL, 2)), at(1)).status
    filled = running({"billing-1": "1", "billing-2": "2"}, 3)
    lost = group_status.decide(group(three, job=job), seen(filled), at(2)).status
    fewer = group_status.decide(group(lost), seen(filled), at(3)).status
    assert owners(fewer) == {"billing-1": 4, "billing-2": 4}


def test_a_cap_drains_a_slot_in_rounds() -> None:
    strategy = {"sticky": {"maxMoves": "2"}}
    spec: dict[str, Any] = {"job": {"executors": 1}, "strategy": strategy}
    status = settled(strategy=strategy)
    left = []
    for epoch in range(1, 4):
        status = group_status.decide(
            group(status, **spec), seen(running(BOTH, epoch)), at(epoch)
        ).status
        left.append(owners(status).get("billing-1"))
    assert left == [2, None, None]


def test_while_the_job_lags_an_epoch_behind_only_what_must_moves() -> None:
    first = group_status.decide(group(), seen(), START).status
    behind = running(BOTH, 0)
    spec: dict[str, Any] = {"job": {"executors": 3}}
    three = group_status.decide(group(grown(), **spec), seen(running(ALL, 1)), at(1))
    assert three.status.moved == 0
    assert condition(three, "Balanced") == ("False", "Deferred")
    more = group_status.decide(group(first), seen(behind, topic(6)), at(1))
    assert sum(owners(more.status).values()) == 12
    assert more.status.moved == 0


@pytest.mark.parametrize("how", ["field", "annotation"])
def test_while_paused_only_what_nobody_owns_gets_an_owner(how: str) -> None:
    pause: dict[str, Any] = {"rebalance": {"paused": True}}
    if how == "annotation":
        pause = {"annotations": {PAUSED: "true"}}
    three = group_status.decide(
        group(grown(), job={"executors": 3}, **pause), seen(running(ALL, 2)), at(2)
    )
    assert three.status.moved == 0
    assert condition(three, "Paused") == ("True", "Asked")
    more = group_status.decide(group(settled(), **pause), seen(running(BOTH, 1), topic(5)), at(1))
    assert sum(owners(more.status).values()) == 10


def test_a_pause_that_is_not_understood_is_told() -> None:
    asked = group(grown(), job={"executors": 3}, annotations={PAUSED: "yes"})
    decision = group_status.decide(asked, seen(running(ALL, 2)), at(2))
    assert decision.status.moved > 0
    assert condition(decision, "Paused") == ("False", "NotUnderstood")


def test_new_queues_are_no_moves_and_say_that_the_route_changed() -> None:
    decision = group_status.decide(group(settled()), seen(running(BOTH, 1), topic(6)), at(1))
    assert decision.status.epoch == 2
    assert decision.status.queues == 12
    assert decision.status.moved == 0


UNREADABLE = "the perm lacks READ, so no messages are read on: Topic orders"


@pytest.mark.parametrize(
    ("brokers", "where", "left"), [("b", "broker-b", 4), ("ab", "broker-a, broker-b", 0)]
)
def test_queues_that_nobody_may_read_are_named_until_they_may_be_read_again(
    brokers: str, where: str, left: int
) -> None:
    before, job = settled(), running(BOTH, 1)
    lost = group_status.decide(group(before), seen(job, topic(unreadable=brokers)), at(1))
    assert sum(owners(lost.status).values()) == left
    for kind in ("Assigned", "Ready"):
        assert condition(lost, kind) == ("False", "NotReadable")
        assert message(lost, kind) == f"{UNREADABLE} on {where}"
    assert [each.reason for each in lost.happened if each.is_warning] == ["NotReadable"]
    adopted = running(BOTH, lost.status.epoch)
    again = group_status.decide(group(lost.status), seen(adopted, topic(unreadable=brokers)), at(2))
    assert not again.happened, "the Event is written once"
    back = group_status.decide(group(again.status), seen(adopted), at(3))
    assert sum(owners(back.status).values()) == 8
    assert condition(back, "Assigned") == ("True", "AllOwned")
    assert condition(back, "Ready") == ("True", "Running")


def test_a_group_without_consumers_says_that_first_and_one_that_is_suspended_is_well() -> None:
    nobody = group_status.decide(
        group(consumers={"podSelector": {"matchLabels": {"app": "x"}}}),
        seen(route=topic(unreadable="b"), pods=[]),
        START,
    )
    assert condition(nobody, "Assigned") == ("False", "Unowned")
    suspended = group_status.decide(
        group(settled(), suspend=True),
        seen(JobSeen(JobState.ENDED), topic(unreadable="b")),
        at(1),
    )
    assert condition(suspended, "Ready") == ("True", "NotRunning")


def test_a_topic_that_is_gone_keeps_the_assignment() -> None:
    decision = group_status.decide(group(settled()), GroupSurroundings({}, running(BOTH, 1)), at(1))
    assert owners(decision.status) == {"billing-0": 4, "billing-1": 4}
    assert decision.plan is None
    assert condition(decision, "Ready") == ("False", "TopicNotFound")
    ready = conditions.find(decision.status.conditions, ConditionType.READY)
    assert ready is not None
    assert ready.message == (
        "ConsumerGroup billing: there is no Topic orders; create it, or correct spec.topics"
    )


def test_suspended_is_well_and_says_so() -> None:
    off = seen(JobSeen(JobState.ENDED))
    decision = group_status.decide(group(settled(), suspend=True), off, at(1))
    assert condition(decision, "Ready") == ("True", "NotRunning")
    assert condition(decision, "Assigned") == ("False", "NotRunning")
    assert not group_status.is_wanted(group(settled(), suspend=True), None)
    assert group_status.is_wanted(group(settled()), None)


def test_a_conflict_stops_the_job_and_names_the_other() -> None:
    conflict = Conflict(ConditionReason.OLDER_GROUP, "other already reads")
    decision = group_status.decide(
        group(settled()), seen(running(BOTH, 1), conflict=conflict), at(1)
    )
    assert condition(decision, "Ready") == ("False", "OlderGroup")
    assert not group_status.is_wanted(group(settled()), conflict)


def test_a_conflict_leaves_nothing_to_follow() -> None:
    listed = {"static": [{"id": "a"}]}
    first = group_status.decide(group(consumers=listed), seen(), START).status
    assert owners(first) == {"a": 8}
    conflict = Conflict(ConditionReason.OLDER_GROUP, "other already reads")
    decision = group_status.decide(group(first, consumers=listed), seen(conflict=conflict), at(1))
    assert decision.status.assignments == []
    assert decision.status.epoch == 2
    assert condition(decision, "Assigned") == ("False", "OlderGroup")
    assert condition(decision, "Balanced") == ("Unknown", "NoConsumers")


def test_a_strategy_that_shares_unevenly_does_not_count_as_even() -> None:
    ids = {"static": [{"id": f"10.0.0.{number}@1"} for number in range(3)]}
    hashed = group(consumers=ids, strategy={"name": "ConsistentHash"})
    decision = group_status.decide(hashed, seen(), START)
    assert decision.status.imbalance > decision.status.best_imbalance
    assert condition(decision, "Balanced") == ("False", "Uneven")
    even = group_status.decide(group(consumers=ids), seen(), START)
    assert condition(even, "Balanced") == ("True", "Even")


def test_in_broadcasting_everybody_reads_everything() -> None:
    listed = {"static": [{"id": "b"}, {"id": "a"}]}
    asked: dict[str, Any] = {"consumers": listed, "messageModel": "Broadcasting"}
    first = group_status.decide(group(**asked), seen(), START)
    assert owners(first.status) == {"a": 8, "b": 8}
    assert condition(first, "Ready") == ("True", "Assigned")
    assert group_status.decide(group(first.status, **asked), seen(), at(1)).status == first.status
    more = group_status.decide(group(first.status, **asked), seen(route=topic(6)), at(2)).status
    assert (owners(more), more.epoch, more.moved) == ({"a": 12, "b": 12}, 2, 0)
    unreadable = group_status.decide(
        group(first.status, **asked), seen(route=topic(unreadable="a")), at(3)
    )
    assert condition(unreadable, "Assigned") == ("False", "NotReadable")
    assert owners(unreadable.status) == {"a": 4, "b": 4}
    conflict = Conflict(ConditionReason.OLDER_GROUP, "other already reads")
    nobody = group_status.decide(group(first.status, **asked), seen(conflict=conflict), at(3))
    assert nobody.status.assignments == []
    assert condition(nobody, "Assigned") == ("False", "OlderGroup")


def test_a_status_that_somebody_broke_says_how_to_go_on() -> None:
    broken = settled()
    broken.assignments[0].queues[0:] = [OwnedQueues("orders", "broker-a", "5-1")]
    decision = group_status.decide(group(broken), seen(running(BOTH, 1)), at(1))
    assert condition(decision, "Ready") == ("False", "StatusUnreadable")
    found = group(broken)
    known: list[ConsumerGroup] = [found, group(settled())]
    shown = metrics.ObjectMetrics(list, lambda: known).collect()
    (epochs,) = [each for each in shown if each.name == "evenkeel_group_epoch"]
    assert len(epochs.samples) == 1


def test_a_checkpoint_that_knows_a_higher_epoch_is_outdone() -> None:
    decision = group_status.decide(group(settled()), seen(running(BOTH, 7)), at(1))
    assert decision.status.epoch == 8
    assert decision.status.moved == 0


def test_a_driver_that_reports_an_error_makes_the_group_not_ready() -> None:
    failing = seen(running(BOTH, 1, error="broker-a is away"))
    decision = group_status.decide(group(settled()), failing, at(1))
    assert condition(decision, "Ready") == ("False", "JobReports")


def test_pods_that_cannot_be_listed_are_no_empty_list() -> None:
    pods = {"podSelector": {"matchLabels": {"app": "a"}}}
    members = [Member("pod-0"), Member("pod-1")]
    first = group_status.decide(group(consumers=pods), seen(pods=members), START).status
    assert owners(first) == {"pod-0": 4, "pod-1": 4}
    unknown = group_status.decide(group(first, consumers=pods), seen(pods=None), at(1))
    assert owners(unknown.status) == {"pod-0": 4, "pod-1": 4}
    assert condition(unknown, "Ready") == ("False", "PodsUnknown")
    empty = group_status.decide(group(first, consumers=pods), seen(pods=[]), at(2))
    assert empty.status.assignments == []
    assert condition(empty, "Assigned") == ("False", "Unowned")


def test_a_pod_that_goes_gives_up_its_queues_at_once() -> None:
    pods = {"podSelector": {"matchLabels": {"app": "a"}}}
    both = [Member("pod-0"), Member("pod-1")]
    first = group_status.decide(group(consumers=pods), seen(pods=both), START).status
    gone = group_status.decide(group(first, consumers=pods), seen(pods=both[:1]), at(1))
    assert owners(gone.status) == {"pod-0": 8}
    assert gone.status.last_rebalance is not None
    assert gone.status.last_rebalance.trigger == "ConsumersChanged"


def test_a_lag_alone_is_written_when_its_magnitude_changes() -> None:
    status = group_status.decide(group(settled()), seen(running(BOTH, 1), lag=120), at(1)).status
    assert status.lag == 120
    same = group_status.decide(group(status), seen(running(BOTH, 1), lag=990), at(2)).status
    assert same.lag == 120
    more = group_status.decide(group(status), seen(running(BOTH, 1), lag=1000), at(3)).status
    assert more.lag == 1000


def test_dead_letters_are_written_whenever_their_number_changes() -> None:
    none = group_status.decide(group(settled()), seen(running(BOTH, 1), dead_letters=0), at(1))
    assert none.status.dead_letters == 0
    few = group_status.decide(group(none.status), seen(running(BOTH, 1), dead_letters=2), at(2))
    assert few.status.dead_letters == 2
    unknown = group_status.decide(group(few.status), seen(running(BOTH, 1)), at(3))
    assert unknown.status == few.status


def test_more_consumers_than_queues_are_named_idle() -> None:
    decision = group_status.decide(group(job={"executors": 9}), seen(), START)
    assert condition(decision, "Balanced") == ("False", "IdleConsumers")


def test_a_status_is_what_the_schema_takes() -> None:
    status = group_status.decide(group(), seen(), START).status
    again = msgspec.convert(msgspec.to_builtins(status), GroupStatus)
    assert again == status


def test_queues_with_many_messages_count_more_where_rates_shall() -> None:
    strategy = {"sticky": {"weights": "Rate"}}
    busy = {
        Queue("orders", broker, number): 100.0 if broker == "broker-a" and number < 2 else 1.0
        for broker in ("broker-a", "broker-b")
        for number in range(4)
    }
    before = settled(strategy=strategy)
    by_rate = group_status.decide(
        group(before, strategy=strategy), seen(running(BOTH, 1), weights=busy), at(1)
    ).status
    owned = planning.read_last_plan(by_rate)
    assert owned is not None
    shares = [sum(busy[queue] for run in runs for queue in run) for runs in owned.values()]
    assert sorted(shares) == [103.0, 103.0]
    plain = group_status.decide(
        group(settled()), seen(running(BOTH, 1), weights=busy), at(1)
    ).status
    assert sorted(owners(plain).values()) == [4, 4]


def test_a_balance_that_is_measured_anew_is_not_worth_a_write() -> None:
    strategy = {"sticky": {"weights": "Rate"}}
    even = {Queue("orders", f"broker-{it}", number): 10.0 for it in "ab" for number in range(4)}
    status = group_status.decide(
        group(settled(strategy=strategy), strategy=strategy),
        seen(running(BOTH, 1), weights=even),
        at(1),
    ).status
    slightly = {queue: 10.0 + queue.id / 10 for queue in even}
    again = group_status.decide(
        group(status, strategy=strategy), seen(running(BOTH, 1), weights=slightly), at(2)
    )
    assert again.status == status


def test_rates_follow_the_brokers_offsets_slowly() -> None:
    queue = mq_values.MessageQueue("orders", "broker-a", 0)

    def lag(offset: int) -> list[mq_values.Lag]:
        return [mq_values.Lag(queue, offset, 0, 0)]

    found = rates.update_rates(rates.Rates(), lag(0), 100.0)
    assert found.weights is None
    found = rates.update_rates(found, lag(300), 130.0)
    assert found.by_queue == {Queue("orders", "broker-a", 0): 10.0}
    burst = rates.update_rates(found, lag(300 + 120 * 100), 250.0)
    assert burst.by_queue == {Queue("orders", "broker-a", 0): pytest.approx(55.0)}
    silent = rates.update_rates(burst, lag(300), 370.0)
    assert silent.by_queue == {Queue("orders", "broker-a", 0): pytest.approx(27.5)}
