"""What a plan promises, case by case."""

from typing import Any

import pytest

from lb_core import (
    Member,
    Policy,
    Queue,
    QueueRange,
    Zones,
    assignment,
    errors,
    model,
    plan,
    strategies,
)
from tests.groups import ids, members, owners, queues, reasons


def test_a_first_plan_gives_neighbours_to_each_and_moves_nothing() -> None:
    made = plan.plan(None, queues(8), members("a", "b", "c"))
    assert [ids(made, name) for name in "abc"] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert made.moved == 0
    assert reasons(made.moves) == [
        ("", "a", 3, "new queue"),
        ("", "b", 3, "new queue"),
        ("", "c", 2, "new queue"),
    ]


def test_nothing_moves_when_nothing_changed() -> None:
    made = plan.plan(None, queues(8), members("a", "b", "c"))
    again = plan.plan(made, queues(8), members("a", "b", "c"))
    assert again.moves == ()
    assert again.assignment.holdings == made.assignment.holdings


def test_a_newcomer_gets_its_share_and_nobody_else_anything() -> None:
    before = owners(a=[0, 1, 2, 3], b=[4, 5, 6, 7])
    made = plan.plan(before, queues(8), members("a", "b", "c"))
    assert reasons(made.moves) == [("a", "c", 1, "joined"), ("b", "c", 1, "joined")]
    assert made.assignment.loads == {"a": 3, "b": 3, "c": 2}


def test_the_queues_of_one_who_left_are_shared_out() -> None:
    before = owners(a=[0, 1], b=[2, 3], gone=[4, 5])
    made = plan.plan(before, queues(6), members("a", "b"))
    assert reasons(made.moves) == [("gone", "a", 1, "left"), ("gone", "b", 1, "left")]


def test_a_newcomer_in_the_place_of_one_who_left_replaces_it() -> None:
    before = owners(a=[0, 1], gone=[2, 3])
    made = plan.plan(before, queues(4), members("a", "new"))
    assert reasons(made.moves) == [("gone", "new", 2, "replaced")]


def test_an_overloaded_consumer_gives_to_one_who_was_there() -> None:
    made = plan.plan(owners(a=[0, 1, 2, 3], b=[]), queues(4), members("a", "b"))
    assert reasons(made.moves) == [("a", "b", 2, "balance")]


def test_new_queues_go_where_room_is_and_move_nothing() -> None:
    made = plan.plan(owners(a=[0, 1], b=[2, 3]), queues(6), members("a", "b"))
    assert made.moved == 0
    assert made.assignment.loads == {"a": 3, "b": 3}


def test_queues_that_vanished_are_not_missed() -> None:
    first = plan.plan(None, queues(8), members("a", "b"))
    made = plan.plan(first, queues(4), members("a", "b"))
    assert made.assignment.loads == {"a": 2, "b": 2}
    assert made.moved == 2


def test_a_broker_that_comes_in_the_middle_moves_no_other_queue() -> None:
    """The internal numbers of a plan shift then, but owners must not change."""
    ends = [*queues(3, broker="a"), *queues(3, broker="c")]
    first = plan.plan(None, ends, members("x", "y", "z"))
    made = plan.plan(first, [*ends, *queues(3, broker="b")], members("x", "y", "z"))
    assert made.moved == 0
    assert set(made.assignment.loads.values()) == {3}
    for name in first.assignment:
        assert first.assignment.list_ids(name).items() <= made.assignment.list_ids(name).items()


@pytest.mark.parametrize("strategy", ["STICKY", "AVG"])
def test_a_group_that_was_empty_for_a_while_gets_its_queues_back(strategy: str) -> None:
    """Queues without an owner are part of a plan, and the next plan assigns them."""
    policy = Policy(strategy=strategy)
    first = plan.plan(None, queues(4), members("a", "b"), policy)
    empty = plan.plan(first, queues(5), [], policy)
    assert empty.unowned is not None
    again = plan.plan(empty, queues(6), members("a", "b"), policy)
    assert again.assignment.loads == {"a": 3, "b": 3}
    assert (again.unowned, again.moved) == (None, 0)


def test_the_largest_ids_there_are_stay_apart_from_the_next_topic() -> None:
    stock = [QueueRange("s", "b", 2**31 - 2, 2**31), *queues(2, "t", "b")]
    made = plan.plan(None, stock, members("a"))
    assert made.assignment.list_ids("a") == {("s", "b"): "2147483646-2147483647", ("t", "b"): "0-1"}


def test_ranges_stand_in_order_where_a_topic_has_a_queue_for_a_few_only() -> None:
    stock = [*queues(1, "a"), *queues(4, "b")]
    made = plan.plan(None, stock, members("x", "y"))
    assert made.assignment["x"] == (
        QueueRange("a", "broker-a", 0, 1),
        QueueRange("b", "broker-a", 0, 2),
    )


def test_single_queues_are_given_away_before_neighbours_are_parted() -> None:
    made = plan.plan(owners(a=[0, 1, 2, 5], b=[3, 4]), queues(6), members("a", "b"))
    assert (ids(made, "a"), ids(made, "b")) == ([0, 1, 2], [3, 4, 5])


def test_two_claims_are_settled_without_a_move() -> None:
    before = owners(a=[0, 1, 2, 3], b=[2, 3])
    made = plan.plan(before, queues(4), members("a", "b"))
    assert [ids(made, "a"), ids(made, "b")] == [[0, 1], [2, 3]]
    assert made.moved == 0


def test_more_claims_than_are_weighed_exactly_still_give_everyone_one_owner() -> None:
    names = [f"c{number:02}" for number in range(60)]
    before = {
        name: [Queue("orders", "broker-a", number), Queue("orders", "broker-a", number + 1)]
        for number, name in enumerate(names)
    }
    made = plan.plan(before, queues(61), members(*names))
    assert sorted(made.assignment.loads.values()) == [1] * 59 + [2]


def test_consumers_beyond_the_queues_are_said_to_be_idle() -> None:
    made = plan.plan(None, queues(2), members("a", "b", "c"))
    assert made.idle == ("c",)


def test_nobody_there_leaves_everything_unowned_and_says_why() -> None:
    made = plan.plan(owners(a=[0, 1]), queues(3), [])
    assert made.unowned is not None
    assert made.unowned.queues == tuple(queues(3))
    assert made.unowned.reason == "there is no consumer"
    assert reasons(made.moves) == [("a", "", 2, "nobody eligible")]
    assert made.moved == 2


def test_no_queues_are_a_plan_too() -> None:
    made = plan.plan(owners(a=[0]), [], members("a"))
    assert made.assignment.loads == {"a": 0}
    assert (made.moves, made.imbalance) == ((), 1.0)


def test_a_pin_that_matches_nobody_leaves_all_unowned() -> None:
    made = plan.plan(None, queues(2), members("a"), Policy(pinned=frozenset({"canary"})))
    assert made.unowned is not None
    assert made.unowned.reason == "none of the pinned consumers is present"


def test_only_pinned_consumers_consume() -> None:
    made = plan.plan(
        owners(a=[0, 1], b=[2, 3]), queues(4), members("a", "b"), Policy(pinned=frozenset({"b"}))
    )
    assert made.assignment.loads == {"a": 0, "b": 4}
    assert reasons(made.moves) == [("a", "b", 2, "not pinned")]
    assert made.idle == ()


def test_a_consumer_without_capacity_gets_nothing() -> None:
    made = plan.plan(owners(a=[0, 1]), queues(4), [Member("a", capacity=0), Member("b")])
    assert made.assignment.loads == {"a": 0, "b": 4}
    assert reasons(made.moves) == [("", "b", 2, "new queue"), ("a", "b", 2, "no capacity")]


def test_capacity_two_gets_twice_the_queues() -> None:
    made = plan.plan(None, queues(9), [Member("a", capacity=2), Member("b")])
    assert made.assignment.loads == {"a": 6, "b": 3}
    assert made.imbalance == made.best_imbalance == 1.0


class TestDraining:
    def test_a_draining_consumer_is_emptied(self) -> None:
        people = [Member("a", draining=True), Member("b"), Member("c")]
        made = plan.plan(owners(a=[0, 1], b=[2], c=[3]), queues(4), people)
        assert made.assignment.loads == {"a": 0, "b": 2, "c": 2}
        assert reasons(made.moves) == [("a", "b", 1, "draining"), ("a", "c", 1, "draining")]

    def test_when_all_drain_all_stay(self) -> None:
        people = [Member("a", draining=True), Member("b", draining=True)]
        assert plan.plan(owners(a=[0, 1], b=[2, 3]), queues(4), people).moves == ()

    def test_under_a_cap_moves_off_a_draining_consumer_come_first(self) -> None:
        people = [Member("a", draining=True), *members("b", "c", "d")]
        before = owners(a=[0], b=[1, 2, 3, 4, 5], c=[6], d=[])
        made = plan.plan(before, queues(7), people, Policy(max_moves=1))
        assert [move.reason for move in made.moves] == ["draining"]
        assert sum(move.size for move in made.deferred) == 2


class TestGrace:
    lost = Member("a", lost_for_seconds=10)
    policy = Policy(grace_seconds=60)

    def test_a_lost_consumer_keeps_exactly_its_queues(self) -> None:
        made = plan.plan(
            owners(a=[0, 1], b=[2, 3]), queues(6), [self.lost, Member("b")], self.policy
        )
        assert (ids(made, "a"), ids(made, "b")) == ([0, 1], [2, 3, 4, 5])
        assert made.waiting == ("a",)

    def test_the_plan_says_when_the_grace_is_over(self) -> None:
        people = [self.lost, Member("b", lost_for_seconds=25), Member("c")]
        assert plan.plan(None, queues(2), people, self.policy).look_again_seconds == 35

    def test_waiting_to_gone_when_the_grace_is_over(self) -> None:
        people = [Member("a", lost_for_seconds=60), Member("b")]
        made = plan.plan(owners(a=[0, 1], b=[2, 3]), queues(4), people, self.policy)
        assert reasons(made.moves) == [("a", "b", 2, "left")]
        assert made.look_again_seconds is None

    def test_without_grace_a_lost_consumer_is_gone_at_once(self) -> None:
        made = plan.plan(owners(a=[0], b=[1]), queues(2), [self.lost, Member("b")])
        assert made.assignment.loads == {"a": 0, "b": 2}

    def test_only_lost_consumers_keep_theirs_and_new_queues_wait(self) -> None:
        made = plan.plan(owners(a=[0, 1]), queues(3), [self.lost], self.policy)
        assert ids(made, "a") == [0, 1]
        assert made.unowned is not None
        assert [len(ranges) for ranges in made.unowned.queues] == [1]

    def test_nobody_is_eligible_where_only_lost_consumers_are_left(self) -> None:
        made = plan.plan(owners(a=[0], gone=[1]), queues(2), [self.lost], self.policy)
        assert reasons(made.moves) == [("gone", "", 1, "nobody eligible")]

    def test_a_disputed_queue_stays_with_the_one_that_waits(self) -> None:
        made = plan.plan(owners(a=[0], b=[0, 1]), queues(2), [self.lost, Member("b")], self.policy)
        assert (ids(made, "a"), ids(made, "b"), made.moved) == ([0], [1], 0)


class TestZones:
    zoned = tuple(QueueRange("t", f"b{z}", 0, 4, f"z{z}") for z in (1, 2))
    people = (Member("a", "z1"), Member("b", "z2"))

    def test_prefer_brings_queues_home(self) -> None:
        before = {"a": self.zoned[1:], "b": self.zoned[:1]}
        made = plan.plan(before, self.zoned, self.people)
        assert dict(made.assignment) == {"a": self.zoned[:1], "b": self.zoned[1:]}
        assert reasons(made.moves) == [("a", "b", 4, "zone"), ("b", "a", 4, "zone")]
        assert all(move.chosen for move in made.moves)

    def test_ignore_leaves_them(self) -> None:
        before = {"a": self.zoned[1:], "b": self.zoned[:1]}
        assert plan.plan(before, self.zoned, self.people, Policy(zones=Zones.IGNORE)).moves == ()

    def test_prefer_never_pays_with_balance(self) -> None:
        made = plan.plan(None, self.zoned, [*self.people, Member("c", "z2")])
        assert sorted(made.assignment.loads.values()) == [2, 3, 3]

    def test_require_pays_with_balance(self) -> None:
        made = plan.plan(
            None, self.zoned, [*self.people, Member("c", "z2")], Policy(zones=Zones.REQUIRE)
        )
        assert made.assignment.loads == {"a": 4, "b": 2, "c": 2}
        assert made.imbalance == made.best_imbalance == 1.5

    def test_require_moves_are_forced(self) -> None:
        before = {"a": self.zoned[1:], "b": self.zoned[:1]}
        policy = Policy(zones=Zones.REQUIRE, max_moves=1)
        made = plan.plan(before, self.zoned, self.people, policy)
        assert (made.moved, made.deferred) == (8, ())

    def test_a_zone_without_consumers_is_everybodys(self) -> None:
        stock = [*self.zoned, QueueRange("t", "b3", 0, 4, "z3")]
        made = plan.plan(None, stock, self.people, Policy(zones=Zones.REQUIRE))
        assert made.assignment.loads == {"a": 6, "b": 6}

    def test_queues_that_swap_their_zones_on_one_broker_keep_their_owners(self) -> None:
        def stock(first: str, second: str) -> list[QueueRange]:
            return [QueueRange("t", "b", 0, 4, first), QueueRange("t", "b", 4, 8, second)]

        before = plan.plan(None, stock("z1", "z2"), members("a", "b"))
        made = plan.plan(before, stock("z2", "z1"), members("a", "b"))
        assert made.moves == ()
        assert ids(made, "a") == ids(before, "a")

    def test_a_zone_that_is_ignored_is_no_reason(self) -> None:
        policy, stock = Policy(zones=Zones.IGNORE), [QueueRange("t", "b", 0, 4, "z2")]
        made = plan.plan({"a": stock}, stock, [Member("a"), Member("b", "z2")], policy)
        assert reasons(made.moves) == [("a", "b", 2, "joined")]

    def test_a_broker_that_changes_its_zone_is_the_same_broker(self) -> None:
        first = plan.plan(None, queues(4), members("a", "b"))
        moved = [QueueRange("orders", "broker-a", 0, 4, "z1")]
        assert plan.plan(first, moved, members("a", "b")).moved == 0


class TestMaxMoves:
    def test_a_share_is_of_all_queues_and_one_at_least(self) -> None:
        assert Policy(max_moves="25%").limit_moves(10) == 3
        assert Policy(max_moves="1%").limit_moves(10) == 1

    def test_forced_moves_are_free(self) -> None:
        before = owners(a=[0, 1, 2, 3], gone=[4, 5])
        made = plan.plan(before, queues(6), members("a", "b"), Policy(max_moves=0))
        assert reasons(made.moves) == [("gone", "b", 2, "replaced")]
        assert reasons(made.deferred) == [("a", "b", 1, "joined")]

    def test_what_is_held_back_stays_with_its_owner(self) -> None:
        before = owners(a=[0, 1, 2, 3, 4, 5], b=[])
        made = plan.plan(before, queues(6), members("a", "b"), Policy(max_moves=1))
        assert made.assignment.loads == {"a": 5, "b": 1}
        assert made.look_again_seconds == 0.0
        assert made.imbalance > made.best_imbalance == 1.0

    def test_the_least_loaded_gets_first(self) -> None:
        before = owners(a=range(9), b=[], c=[])
        made = plan.plan(before, queues(9), members("a", "b", "c"), Policy(max_moves=2))
        assert made.assignment.loads == {"a": 7, "b": 1, "c": 1}

    def test_the_most_loaded_gives_first(self) -> None:
        before = owners(a=[0, 1, 2, 3, 4], b=[5, 6, 7, 8, 9, 10, 11], c=[])
        made = plan.plan(before, queues(12), members("a", "b", "c"), Policy(max_moves=1))
        assert [move.source for move in made.moves] == ["b"]

    def test_a_percentage_is_taken_exactly(self) -> None:
        assert Policy(max_moves="7%").limit_moves(100) == 7
        assert Policy(max_moves="14%").limit_moves(50) == 7
        assert Policy(max_moves="0.5%").limit_moves(1_000) == 5

    def test_a_cap_of_none_does_not_ask_to_be_called_again(self) -> None:
        made = plan.plan(owners(a=[0, 1], b=[]), queues(2), members("a", "b"), Policy(max_moves=0))
        assert made.deferred
        assert made.look_again_seconds is None


class TestOtherStrategies:
    def test_config_names_the_queues_of_all_topics(self) -> None:
        config = {"queues": {"a": [["s", "broker-a", 0]], "b": [["t", "broker-a", 0]]}}
        stock = [*queues(1, "s"), *queues(1, "t")]
        policy = Policy(strategy="CONFIG", config=config)
        made = plan.plan(None, stock, members("a", "b"), policy)
        assert made.assignment.loads == {"a": 1, "b": 1}

    def test_broadcasting_is_nothing_to_plan(self) -> None:
        with pytest.raises(errors.BadRequestError, match="nothing to plan"):
            plan.plan(None, queues(1), members("a", "b"), Policy(strategy="BROADCASTING"))

    def test_rocketmq_strategies_deal_topic_by_topic(self) -> None:
        stock = [*queues(3, "s"), *queues(3, "t")]
        made = plan.plan(None, stock, members("a", "b"), Policy(strategy="AVG"))
        assert made.assignment.loads == {"a": 4, "b": 2}

    def test_their_moves_are_told_like_ours(self) -> None:
        first = plan.plan(None, queues(6), members("a", "b"), Policy(strategy="AVG"))
        made = plan.plan(first, queues(6), members("a", "aa", "b"), Policy(strategy="AVG"))
        assert reasons(made.moves) == [("a", "aa", 1, "AVG"), ("b", "aa", 1, "AVG")]

    def test_a_list_that_two_consumers_read_is_refused(self) -> None:
        config = {"queues": [["orders", "broker-a", 0]]}
        policy = Policy(strategy="CONFIG", config=config)
        with pytest.raises(
            errors.QueueOwnedTwiceError, match="queue 0 of orders on broker-a has 2"
        ):
            plan.plan(None, queues(1), members("a", "b"), policy)

    def test_a_configured_queue_that_does_not_exist_is_refused(self) -> None:
        policy = Policy(strategy="CONFIG", config={"queues": {"a": [["orders", "broker-a", 9]]}})
        with pytest.raises(errors.ForeignQueueError, match="queue 9 of orders"):
            plan.plan(None, queues(1), members("a"), policy)

    def test_the_best_imbalance_is_of_what_is_owned(self) -> None:
        stock = [QueueRange("t", "r@a", 0, 2), QueueRange("t", "b", 0, 8)]
        policy = Policy(strategy="MACHINE_ROOM", config={"rooms": ["r"]})
        made = plan.plan(None, stock, members("a", "b"), policy)
        assert (made.imbalance, made.best_imbalance) == (1.0, 1.0)

    def test_what_a_strategy_hands_to_nobody_is_unowned(self) -> None:
        policy = Policy(strategy="CONFIG", config={"queues": {"a": [["orders", "broker-a", 0]]}})
        made = plan.plan(owners(b=[1]), queues(2), members("a", "b"), policy)
        assert made.unowned is not None
        assert made.unowned.reason == "strategy CONFIG gave them to no consumer"
        assert reasons(made.moves)[-1] == ("b", "", 1, "CONFIG left it out")

    def test_a_lost_consumer_counts_as_present_during_its_grace(self) -> None:
        people = [Member("a", lost_for_seconds=5), Member("b")]
        policy = Policy(strategy="AVG", grace_seconds=60)
        assert plan.plan(owners(a=[0, 1], b=[2, 3]), queues(4), people, policy).moves == ()

    def test_a_lost_consumer_may_even_get_queues_as_in_rocketmq(self) -> None:
        people = [Member("a", lost_for_seconds=5), Member("b")]
        policy = Policy(strategy="AVG", grace_seconds=60)
        made = plan.plan(owners(a=[0], b=[1]), queues(4), people, policy)
        assert made.assignment.loads == {"a": 2, "b": 2}

    def test_zones_bind_only_sticky(self) -> None:
        stock = [QueueRange("t", f"b{z}", 0, 2, f"z{z}") for z in (1, 2)]
        people = [Member("a", "z2"), Member("b", "z1")]
        made = plan.plan(None, stock, people, Policy(strategy="AVG", zones=Zones.REQUIRE))
        assert made.assignment["a"] == (stock[0],)

    def test_nearby_takes_zones_for_rooms(self) -> None:
        stock = [QueueRange("t", f"b{z}", 0, 2, f"z{z}") for z in (1, 2)]
        people = [Member("a", "z2"), Member("b", "z1")]
        policy = Policy(strategy="MACHINE_ROOM_NEARBY", config={"inner": "AVG"})
        assert plan.plan(None, stock, people, policy).assignment["a"] == (stock[1],)

    @pytest.mark.parametrize(
        ("function", "error"),
        [
            (lambda queues, consumers, config: 1 / 0, errors.StrategyFailedError),
            (lambda queues, consumers, config: None, errors.StrategyFailedError),
            (lambda queues, consumers, config: {"a": 7}, errors.StrategyFailedError),
            (lambda queues, consumers, config: {"a": ["x"]}, errors.StrategyFailedError),
            (lambda queues, consumers, config: {"x": queues}, errors.ForeignConsumerError),
            (
                lambda queues, consumers, config: {"a": [Queue("?", "?", 0)]},
                errors.ForeignQueueError,
            ),
            (
                lambda queues, consumers, config: {"a": queues, "b": queues},
                errors.QueueOwnedTwiceError,
            ),
            (
                lambda queues, consumers, config: {"a": [*queues, *queues]},
                errors.QueueOwnedTwiceError,
            ),
        ],
        ids=["raises", "nothing", "no list", "no queues", "stranger", "unknown", "both", "twice"],
    )
    def test_a_users_strategy_that_errs_is_refused_by_name(
        self, function: strategies.UserFunction, error: type[Exception]
    ) -> None:
        strategies.register("mine", function)
        try:
            with pytest.raises(error):
                plan.plan(None, queues(3), members("a", "b"), Policy(strategy="mine"))
        finally:
            strategies.unregister("mine")

    def test_a_users_strategy_is_one_function(self) -> None:
        strategies.register("first takes all", lambda queues, consumers, _: {consumers[0]: queues})
        try:
            policy = Policy(strategy="first takes all")
            made = plan.plan(None, queues(3), members("b", "a"), policy)
        finally:
            strategies.unregister("first takes all")
        assert made.assignment.loads == {"a": 3, "b": 0}


class TestBadInput:
    def test_a_repeated_consumer_is_refused(self) -> None:
        with pytest.raises(errors.DuplicateConsumerError, match="consumer a is listed twice"):
            plan.plan(None, queues(2), members("a", "b", "a"))

    def test_a_repeated_queue_is_refused(self) -> None:
        with pytest.raises(errors.DuplicateQueueError, match="queue 2 of orders on broker-a"):
            plan.plan(None, [*queues(4), QueueRange("orders", "broker-a", 2, 3)], members("a"))

    def test_a_queue_in_two_zones_is_a_repeated_queue(self) -> None:
        with pytest.raises(errors.DuplicateQueueError):
            plan.plan(None, [*queues(4), QueueRange("orders", "broker-a", 2, 3, "z")], members("a"))

    def test_an_unknown_strategy_is_refused_with_the_known_ones(self) -> None:
        with pytest.raises(errors.UnknownStrategyError, match="STICKY, AVG"):
            plan.plan(None, queues(1), members("a"), Policy(strategy="Best"))

    @pytest.mark.parametrize("weight", [-1, float("nan"), float("inf"), 10**400, "1", True])
    def test_a_weight_that_is_no_amount_is_refused(self, weight: float) -> None:
        with pytest.raises(errors.BadWeightError, match="queue 0 of orders"):
            Policy(weights={Queue("orders", "broker-a", 0): weight})

    @pytest.mark.parametrize("capacity", [-1, float("nan"), float("inf"), 10**400, "1", None])
    def test_a_capacity_that_is_no_amount_is_refused(self, capacity: float) -> None:
        with pytest.raises(errors.BadCapacityError, match="consumer a"):
            Member("a", capacity=capacity)

    @pytest.mark.parametrize(
        "values",
        [
            {"max_moves": -1},
            {"max_moves": "ten"},
            {"max_moves": "101%"},
            {"max_moves": 1.5},
            {"max_moves": "1_0%"},
            {"max_moves": "٣%"},
            {"pinned": "ab"},
            {"min_gain": 2},
            {"grace_seconds": -1},
            {"grace_seconds": float("nan")},
            {"zones": "Prefer"},
        ],
    )
    def test_a_policy_that_means_nothing_is_refused(self, values: dict[str, object]) -> None:
        with pytest.raises(errors.BadRequestError):
            Policy(**values)  # type: ignore[arg-type]  # that is the point

    @pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 0), (3, 2), (0, 2**31 + 1), (0, 1.5)])
    def test_a_range_that_is_none_is_refused(self, start: int, stop: int) -> None:
        with pytest.raises(errors.BadRequestError):
            QueueRange("t", "b", start, stop)

    @pytest.mark.parametrize(
        ("stock", "people", "policy", "message"),
        [
            (queues(1), ["a"], Policy(), "members: str is not a Member"),
            (members("a"), queues(1), Policy(), "is not a QueueRange"),
            ([Queue("t", "b", 0)], members("a"), Policy(), "is not a QueueRange"),
            (queues(1), members("a"), "AVG", "policy: 'AVG' is not a Policy"),
        ],
    )
    def test_an_argument_of_another_kind_is_refused(
        self, stock: Any, people: Any, policy: Any, message: str
    ) -> None:
        with pytest.raises(errors.BadRequestError, match=message):
            plan.plan(None, stock, people, policy)

    def test_ids_as_text_are_no_owners(self) -> None:
        before: Any = {"a": {("orders", "broker-a"): "0-3"}}
        with pytest.raises(errors.BadRequestError, match="neither Queue nor QueueRange"):
            plan.plan(before, queues(4), members("a"))

    def test_a_cap_that_a_strategy_cannot_keep_is_refused(self) -> None:
        with pytest.raises(errors.BadRequestError, match="belong to STICKY; AVG has neither"):
            plan.plan(None, queues(1), members("a"), Policy(strategy="AVG", max_moves=1))

    def test_text_is_no_yes_or_no(self) -> None:
        told = "draining must be True or False, not 'no'"
        with pytest.raises(errors.BadRequestError, match=told):
            Member("a", draining="no")  # type: ignore[arg-type]  # that is the point

    def test_names_that_are_no_texts_are_refused(self) -> None:
        with pytest.raises(errors.BadRequestError, match="names must be strings"):
            QueueRange("t", None, 0, 1)  # type: ignore[arg-type]  # that is the point
        with pytest.raises(errors.BadRequestError, match="zone 5"):
            Member("a", zone=5)  # type: ignore[arg-type]  # that is the point

    def test_a_claim_of_an_impossible_id_claims_nothing(self) -> None:
        stock = [*queues(1, "s"), *queues(1, "t")]
        before = {"a": [Queue("s", "broker-a", 0x19E3779B1), Queue("s", "broker-a", -1)]}
        assert plan.plan(before, stock, members("b")).moved == 0

    def test_weights_of_next_to_nothing_are_weights(self) -> None:
        weights = {Queue("orders", "broker-a", 0): 5e-324}
        made = plan.plan(None, queues(1), members("a", "b", "c"), Policy(weights=weights))
        assert sum(made.assignment.loads.values()) == 1

    def test_a_hostile_name_makes_a_short_message(self) -> None:
        name = "x" * 1_000_000
        with pytest.raises(errors.DuplicateConsumerError) as caught:
            plan.plan(None, queues(1), members(name, name))
        assert len(str(caught.value)) < 200

    def test_names_of_any_script_are_names(self) -> None:
        people = members("\U0001f600", "\uff5e", "é", " ", "\ud800")
        made = plan.plan(None, queues(5), people)
        assert [name for name in made.assignment if ids(made, name) == [4]] == ["\uff5e"]


def test_the_owner_of_a_queue_can_be_asked() -> None:
    made = plan.plan(None, queues(4), members("a", "b"))
    assert made.assignment.find_owner(Queue("orders", "broker-a", 3)) == "b"
    assert made.assignment.find_owner(Queue("orders", "broker-b", 3)) is None


def test_ranges_go_to_text_and_back() -> None:
    before = {"a": model.make_ranges(Queue("t", "b", number) for number in (0, 1, 2, 3, 8))}
    made = plan.plan(
        before, model.make_ranges(Queue("t", "b", n) for n in (0, 1, 2, 3, 8)), members("a")
    )
    assert made.assignment.list_ids("a") == {("t", "b"): "0-3,8"}
    assert assignment.parse_ids("t", "b", " 0-3, 8") == list(made.assignment["a"])
    assert assignment.parse_ids("t", "b", "") == []


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1,,2", "0-99999999999", "1-2-3", "²"])
def test_a_text_that_is_no_ranges_is_refused(text: str) -> None:
    with pytest.raises(errors.BadRequestError, match="t"):
        assignment.parse_ids("t", "b", text)
