"""Cases of RocketMQ's strategies that its own tests do not cover, and users' strategies."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from lb_core import errors, pop, strategies
from lb_core.model import Queue
from lb_core.strategies import consistent_hash, machine_room

BUILT_IN = [
    "AVG",
    "AVG_BY_CIRCLE",
    "CONSISTENT_HASH",
    "MACHINE_ROOM",
    "MACHINE_ROOM_NEARBY",
    "CONFIG",
    "BROADCASTING",
]
CHECKED = [name for name in BUILT_IN if name not in ("CONFIG", "BROADCASTING")]
"""All strategies except the two whose RocketMQ classes check nothing."""
SETTINGS = {"inner": "AVG", "rooms": ["r"], "queues": [["t", "r@a-b", 0]]}


def queues(count: int, broker: str = "b") -> list[Queue]:
    return [Queue("t", broker, number) for number in range(count)]


def group(name: str, count: int, consumers: list[str], **config: object) -> dict[str, list[int]]:
    """Deal this many queues of one broker; return only their ids, because the rest is the same."""
    owned = strategies.find_dealer(name).deal(queues(count), consumers, config)
    return {consumer: [queue.id for queue in found] for consumer, found in owned.items()}


# --- all of them


@pytest.mark.parametrize("name", CHECKED)
def test_every_missing_list_is_refused_for_the_whole_group(name: str) -> None:
    deal = strategies.find_dealer(name).deal
    for no_queues, nobody in ((None, None), ([], [])):
        with pytest.raises(errors.IllegalArgumentException, match="mqAll"):
            deal(no_queues, ["a-1"], SETTINGS)
        with pytest.raises(errors.IllegalArgumentException, match="cidAll"):
            deal(queues(1, "a-b"), nobody, SETTINGS)


@pytest.mark.parametrize("name", CHECKED)
def test_a_consumer_without_a_name_is_refused_for_the_whole_group(name: str) -> None:
    with pytest.raises(errors.IllegalArgumentException, match="currentCID"):
        strategies.find_dealer(name).deal(queues(2, "a-b"), ["a-1", ""], SETTINGS)


@pytest.mark.parametrize("name", BUILT_IN)
def test_tuples_do_as_well_as_lists_and_nothing_given_is_changed(name: str) -> None:
    given, consumers = tuple(queues(5, "r@a-b")), ("a-1", "a-2", "a-1")
    strategy = strategies.find_dealer(name)
    owned = strategy.deal(given, consumers, SETTINGS)
    assert list(owned) == ["a-1", "a-2"]
    for consumer, found in owned.items():
        assert type(found) is list
        assert strategy.deal_one(consumer, given, consumers, SETTINGS) == found


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_callers_list_of_queues_is_never_handed_out(name: str) -> None:
    given = queues(1, "r@a-b")
    strategy = strategies.find_dealer(name)
    strategy.deal(given, ["a-1"], SETTINGS)["a-1"].clear()
    one = strategy.deal_one("a-1", given, ["a-1"], SETTINGS)
    assert one
    one.clear()
    assert len(given) == 1


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("CONSISTENT_HASH", {"virtualNodes": "10"}),
        ("CONSISTENT_HASH", {"virtualNodes": 1.5}),
        ("CONSISTENT_HASH", {"virtualNodes": True}),
        ("CONSISTENT_HASH", {"virtualNodes": 10**5000}),
        ("CONSISTENT_HASH", {"virtualNodes": -(10**5000)}),
        ("MACHINE_ROOM", {"rooms": "r"}),
        ("MACHINE_ROOM", {"rooms": {"r": 1}}),
        ("MACHINE_ROOM", {"rooms": ["r", None]}),
        ("MACHINE_ROOM_NEARBY", {"inner": 5}),
        ("MACHINE_ROOM_NEARBY", {"inner": "MACHINE_ROOM_NEARBY"}),
        ("MACHINE_ROOM_NEARBY", {"inner": "CONSISTENT_HASH", "virtualNodes": []}),
        ("MACHINE_ROOM_NEARBY", {"inner": "AVG", "consumerZones": ["z"]}),
        ("MACHINE_ROOM_NEARBY", {"inner": "AVG", "consumerZones": {"a": 5}}),
        ("CONFIG", {"queues": "t"}),
        ("CONFIG", {"queues": [["t", "b"]]}),
        ("CONFIG", {"queues": [["t", "b", True]]}),
        ("CONFIG", {"queues": [["t", "b", 2**31]]}),
        ("CONFIG", {"queues": [["t", "b", 0, 5]]}),
        ("CONFIG", {"queues": [["t", "b", 0, "z", "z"]]}),
        ("CONFIG", {"queues": {"a": "t"}}),
    ],
)
def test_a_setting_of_the_wrong_type_is_refused_and_named(
    name: str, config: dict[str, Any]
) -> None:
    key = "virtualNodes" if "virtualNodes" in config else list(config)[-1]
    strategy = strategies.find_dealer(name)
    calls: list[Callable[[], object]] = [
        lambda: strategy.check(config),
        lambda: strategy.deal(queues(1, "a-b"), ["a"], config),
        lambda: strategy.deal_one("a", queues(1, "a-b"), ["a"], config),
    ]
    for call in calls:
        with pytest.raises(errors.BadRequestError, match=rf"config\.{key}"):
            call()


def test_a_setting_that_is_null_counts_as_not_set() -> None:
    consumers = [f"c-{number}" for number in range(20)]
    unset = group("CONSISTENT_HASH", 500, consumers)
    assert group("CONSISTENT_HASH", 500, consumers, virtualNodes=None) == unset
    assert group("CONSISTENT_HASH", 500, consumers, virtualNodes=10) == unset


# --- repeated ids


def test_holders_of_one_id_share_the_first_ones_queues_and_the_second_ones_are_orphans() -> None:
    assert group("AVG", 6, ["a", "b", "a"]) == {"a": [0, 1], "b": [2, 3]}
    assert group("AVG_BY_CIRCLE", 6, ["a", "b", "a"]) == {"a": [0, 3], "b": [1, 4]}
    inside = strategies.find_dealer("MACHINE_ROOM").deal(
        queues(7, "r@b"), ["a", "b", "a"], {"rooms": ["r"]}
    )
    assert {name: [q.id for q in found] for name, found in inside.items()} == {
        "a": [0, 1, 6],
        "b": [2, 3],
    }


def test_a_repeated_id_numbers_its_points_on_instead_of_repeating_them() -> None:
    places, owners = consistent_hash.build_ring(["a", "b", "a"], 2)
    expected = {consistent_hash.find_place(f"a-{number}"): "a" for number in range(4)}
    expected |= {consistent_hash.find_place(f"b-{number}"): "b" for number in range(2)}
    assert dict(zip(places, owners, strict=False)) == expected


# --- the ring. The first points of c-786 and c-2758 are the same.


def test_the_later_consumer_has_a_place_that_two_points_fall_on() -> None:
    assert consistent_hash.find_place("c-786-0") == consistent_hash.find_place("c-2758-0")
    every = list(range(9))
    one_point = {"virtualNodes": 1}
    assert group("CONSISTENT_HASH", 9, ["c-786", "c-2758"], **one_point) == {
        "c-786": [],
        "c-2758": every,
    }
    assert group("CONSISTENT_HASH", 9, ["c-2758", "c-786"], **one_point) == {
        "c-786": every,
        "c-2758": [],
    }


def test_a_repeated_id_that_lost_its_point_takes_the_same_one_again() -> None:
    owned = group("CONSISTENT_HASH", 9, ["c-786", "c-2758", "c-786"], virtualNodes=1)
    assert owned == {"c-786": list(range(9)), "c-2758": []}


def test_a_queue_on_a_point_belongs_to_that_point() -> None:
    queue = Queue("t", "b", 18166)
    assert consistent_hash.find_place(
        consistent_hash.print_queue(queue)
    ) == consistent_hash.find_place("c-221098-0")
    crowd = [f"c-{number}" for number in range(200)]
    for consumers in (["c-221098", *crowd], [*crowd, "c-221098"]):
        owned = strategies.find_dealer("CONSISTENT_HASH").deal(
            [queue], consumers, {"virtualNodes": 1}
        )
        assert owned["c-221098"] == [queue]


def test_a_queue_behind_the_last_point_belongs_to_the_first() -> None:
    places, owners = consistent_hash.build_ring(["a", "b", "c"], 1)
    assert owners[len(places)] == owners[0]
    highest = max(
        queues(2000), key=lambda q: consistent_hash.find_place(consistent_hash.print_queue(q))
    )
    assert consistent_hash.find_place(consistent_hash.print_queue(highest)) > places[-1]
    owned = strategies.find_dealer("CONSISTENT_HASH").deal(
        [highest], ["a", "b", "c"], {"virtualNodes": 1}
    )
    assert owned[owners[0]] == [highest]


def test_half_a_character_is_hashed_as_a_question_mark() -> None:
    assert consistent_hash.find_place("\ud83d-0") == consistent_hash.find_place("?-0")


def test_two_halves_that_make_a_character_are_hashed_as_that_character() -> None:
    assert consistent_hash.find_place("\ud83d\ude00") == consistent_hash.find_place(
        "\N{GRINNING FACE}"
    )


def test_a_negative_number_of_points_is_refused_before_anything_else() -> None:
    strategy = strategies.find_dealer("CONSISTENT_HASH")
    with pytest.raises(errors.IllegalArgumentException, match="illegal virtualNodeCnt :-1"):
        strategy.deal(None, None, {"virtualNodes": -1})
    with pytest.raises(errors.IllegalArgumentException, match="illegal virtualNodeCnt :-1"):
        strategy.deal_one(None, None, None, {"virtualNodes": -1})


def test_an_absurd_number_of_points_is_refused_at_once() -> None:
    started = time.monotonic()
    with pytest.raises(errors.BadRequestError, match="virtualNodes"):
        group("CONSISTENT_HASH", 4, ["a", "b"], virtualNodes=2_000_001)
    with pytest.raises(errors.BadRequestError, match="virtualNodes"):
        strategies.find_dealer("CONSISTENT_HASH").deal_one(
            "a", queues(1), ["a"], {"virtualNodes": 2**31 - 1}
        )
    assert time.monotonic() - started < 1


# --- rooms


@pytest.mark.parametrize(
    ("broker", "room"),
    [
        ("r@b", "r"),
        ("r@b@", "r"),
        ("r@b@@", "r"),
        ("@b", ""),
        ("b", None),
        ("", None),
        ("@", None),
        ("r@", None),
        ("@@b", None),
        ("r@@b", None),
        ("r@b@c", None),
    ],
)
def test_a_brokers_name_tells_a_room_where_java_splits_it_in_two(
    broker: str, room: str | None
) -> None:
    assert machine_room.find_room(broker) == room


def test_queues_of_other_rooms_do_not_count_when_the_shares_are_cut() -> None:
    given = [*queues(6, "r@b"), *queues(5, "x@b")]
    strategy = strategies.find_dealer("MACHINE_ROOM")
    owned = strategy.deal(given, ["a", "b", "c"], {"rooms": ["r"]})
    assert owned == {"a": given[0:2], "b": given[2:4], "c": given[4:6]}
    assert strategy.deal_one("b", given, ["a", "b", "c"], {"rooms": ["r"]}) == given[2:4]


def test_unset_rooms_do_no_harm_while_no_name_has_two_parts() -> None:
    assert group("MACHINE_ROOM", 3, ["a"]) == {"a": []}
    with pytest.raises(errors.NullPointerException):
        strategies.find_dealer("MACHINE_ROOM").deal(queues(1, "r@b"), ["a"], {})


def test_a_stranger_is_answered_before_unset_rooms_are_noticed() -> None:
    strategy = strategies.find_dealer("MACHINE_ROOM")
    assert strategy.deal_one("nobody", queues(1, "r@b"), ["a"], {}) == []


def nearby(
    rooms_of_queues: list[str], consumers: list[str], **config: object
) -> dict[str, list[str]]:
    """Deal one queue per machine room; return the rooms that each consumer reads."""
    given = [Queue("t", f"{room}-b", 0) for room in rooms_of_queues]
    owned = strategies.find_dealer("MACHINE_ROOM_NEARBY").deal(
        given, consumers, {"inner": "AVG", **config}
    )
    return {name: [q.broker.split("-")[0] for q in found] for name, found in owned.items()}


def test_rooms_without_consumers_are_dealt_in_the_order_of_java() -> None:
    """U+1F600 comes before U+FF5E by UTF-16 unit, and after it by code point."""
    assert nearby(["\uff5e", "a", "\N{GRINNING FACE}"], ["x-1"]) == {
        "x-1": ["a", "\N{GRINNING FACE}", "\uff5e"]
    }


def test_the_own_room_comes_before_rooms_without_consumers() -> None:
    assert nearby(["a", "z"], ["z-1"]) == {"z-1": ["z", "a"]}


def test_a_zone_that_is_given_counts_more_than_the_name() -> None:
    given = [Queue("t", "a-b", 0, "b"), Queue("t", "b-b", 0), Queue("t", "b-b", 1, "z2")]
    config = {"inner": "AVG", "consumerZones": {"a-1": "z2", "b-1": None}}
    strategy = strategies.find_dealer("MACHINE_ROOM_NEARBY")
    owned = strategy.deal(given, ["a-1", "b-1"], config)
    assert owned == {"a-1": given[2:], "b-1": given[:2]}
    assert strategy.deal_one("a-1", given, ["a-1", "b-1"], config) == given[2:]


@pytest.mark.parametrize("broker", ["noroom", "-b", ""])
def test_a_queue_without_a_room_fails_the_whole_group(broker: str) -> None:
    given = [Queue("t", "a-b", 0), Queue("t", broker, 1)]
    strategy = strategies.find_dealer("MACHINE_ROOM_NEARBY")
    with pytest.raises(errors.IllegalArgumentException, match="Machine room is null for mq"):
        strategy.deal(given, ["a-1"], {"inner": "AVG"})


@pytest.mark.parametrize("zones", [None, {"a-1": ""}])
def test_a_consumer_without_a_room_fails_the_whole_group(zones: dict[str, str] | None) -> None:
    consumers = ["a-1"] if zones else ["a-1", "noroom"]
    with pytest.raises(errors.IllegalArgumentException, match=r"for consumer id (noroom|a-1)"):
        nearby(["a"], consumers, consumerZones=zones)


def test_a_hostile_name_does_not_fill_the_message() -> None:
    for broker, consumer in (("a-b", "x" * 1_000_000), ("y" * 1_000_000, "a-1")):
        given = [Queue("t", broker, 0)]
        with pytest.raises(errors.IllegalArgumentException) as caught:
            strategies.find_dealer("MACHINE_ROOM_NEARBY").deal(given, [consumer], {"inner": "AVG"})
        assert len(str(caught.value)) < 600


def test_the_inner_strategy_reads_the_same_settings() -> None:
    given = queues(30, "a-b")
    for nodes in (1, 50):
        config = {"inner": "CONSISTENT_HASH", "virtualNodes": nodes}
        alone = strategies.find_dealer("CONSISTENT_HASH").deal(given, ["a-1", "a-2"], config)
        assert strategies.find_dealer("MACHINE_ROOM_NEARBY").deal(
            given, ["a-1", "a-2"], config
        ) == (alone)


def test_a_missing_inner_strategy_is_the_null_of_rocketmqs_constructor() -> None:
    for config in ({}, {"inner": None}):
        with pytest.raises(errors.NullPointerException, match="allocateMessageQueueStrategy is nu"):
            strategies.find_dealer("MACHINE_ROOM_NEARBY").deal_one(None, None, None, config)


def test_the_inner_strategys_settings_are_checked_before_the_lists() -> None:
    config = {"inner": "CONSISTENT_HASH", "virtualNodes": -3}
    with pytest.raises(errors.IllegalArgumentException, match="virtualNodeCnt :-3"):
        strategies.find_dealer("MACHINE_ROOM_NEARBY").deal(None, None, config)


@pytest.mark.parametrize("inner", ["NONE", "STICKY", ""])
def test_an_unknown_inner_strategy_is_refused(inner: str) -> None:
    with pytest.raises(errors.UnknownStrategyError):
        nearby(["a"], ["a-1"], inner=inner)


def test_an_inner_null_fails_only_consumers_who_have_something_to_ask_for() -> None:
    config = {"inner": "CONFIG", "queues": {"a-1": [["t", "a-b", 0]]}}
    strategy = strategies.find_dealer("MACHINE_ROOM_NEARBY")
    given = queues(1, "a-b")
    assert strategy.deal(given, ["a-1", "b-1"], config) == {"a-1": given, "b-1": []}
    with pytest.raises(errors.NullPointerException):
        strategy.deal([*given, Queue("t", "c-b", 0)], ["a-1", "b-1"], config)


# --- lists from the settings, and everything for everybody


def test_configured_lists_are_given_as_they_stand() -> None:
    odd = [["unknown", "b", 7], ["t", "b", 0], ["t", "b", 0], ["t", "b", -1, "z"]]
    owned = strategies.find_dealer("CONFIG").deal(None, ["a", "b"], {"queues": odd})
    assert owned["a"] == owned["b"] == [Queue(row[0], row[1], row[2]) for row in odd]  # type: ignore[arg-type]
    assert owned["a"][3].zone == "z"


def test_each_consumer_may_have_a_configured_list_of_its_own() -> None:
    config = {"queues": {"a": queues(2), "b": None}}
    strategy = strategies.find_dealer("CONFIG")
    assert strategy.deal(None, ["a", "b", "c"], config) == {"a": queues(2), "b": [], "c": []}
    assert strategy.deal_one("a", None, None, config) == queues(2)
    for nobody in ("b", "c", "", None):
        assert strategy.deal_one(nobody, None, None, config) is None


def test_configured_lists_are_all_checked_even_those_of_absent_consumers() -> None:
    with pytest.raises(errors.BadRequestError):
        strategies.find_dealer("CONFIG").check({"queues": {"absent": [5]}})


def test_broadcasting_gives_everything_to_everybody_without_a_list_for_each() -> None:
    consumers = [f"c-{number}" for number in range(1000)]
    strategy = strategies.find_dealer("BROADCASTING")
    owned = strategy.deal(queues(1000), consumers, {})
    assert len({id(found) for found in owned.values()}) == 1
    assert owned["c-7"] == strategy.deal_one("c-7", queues(1000), consumers, {}) == queues(1000)
    assert strategy.deal(None, consumers[:1], {}) == {"c-0": []}
    assert strategy.deal(queues(1), None, {}) == {}
    assert strategy.deal_one(None, None, None, {}) == []


# --- the share rule


def test_sharing_with_nobody_there_gives_nothing() -> None:
    assert pop.allocate(queues(3), [], 1) == {}


@pytest.mark.parametrize("share", [0, -1, -7, 2, 3, 10**30])
def test_no_share_and_a_share_of_everybody_mean_all_queues(share: int) -> None:
    any_queue = [Queue("t", "b", -1)] * 4
    shared = pop.allocate(queues(4), ["a", "b", "c"], share)
    assert shared == {"a": any_queue, "b": any_queue, "c": any_queue}


def test_everything_is_shared_even_where_there_is_nothing() -> None:
    assert pop.allocate([], ["a", "b"]) == {"a": [], "b": []}


def test_any_queue_is_named_for_each_broker_it_may_be_on() -> None:
    given = [Queue("t", "x", 3, "z"), Queue("t", "y", 5)]
    shared = pop.allocate(given, ["a"])
    assert shared == {"a": [Queue("t", "x", -1), Queue("t", "y", -1)]}
    assert shared["a"][0].zone == "z"


def test_one_queue_for_each_where_consumers_outnumber_them() -> None:
    given = queues(2)
    shared = pop.allocate(given, ["a", "b", "c", "b", "d"], 1)
    assert shared == {"a": [given[0]], "b": [given[1]], "c": [given[0]], "d": [given[0]]}


def test_sharing_nothing_among_many_is_refused_as_by_the_broker() -> None:
    with pytest.raises(errors.IllegalArgumentException, match="mqAll"):
        pop.allocate([], ["a", "b", "c"], 1)


@pytest.mark.parametrize("blank", ["", " ", "\t\u2003"])
def test_a_blank_consumer_is_refused_where_each_gets_one_queue(blank: str) -> None:
    with pytest.raises(errors.IllegalArgumentException, match="currentCID"):
        pop.allocate(queues(2), ["a", "b", blank], 1)


def test_a_hard_space_is_a_name_for_the_broker() -> None:
    assert "\xa0" in pop.allocate(queues(2), ["a", "b", "\xa0"], 1)


@pytest.mark.parametrize("share", [None, "1", 1.0, True])
def test_a_share_that_is_no_number_is_refused(share: Any) -> None:
    with pytest.raises(errors.BadRequestError, match="popShareQueueNum"):
        pop.allocate(queues(2), ["a"], share)


def test_an_answer_that_would_fill_the_memory_is_refused() -> None:
    consumers = [f"c-{number}" for number in range(5000)]
    with pytest.raises(errors.BadRequestError, match="popShareQueueNum"):
        pop.allocate(queues(5000), consumers, 4990)


# --- names, and users' strategies


@pytest.fixture
def own() -> Iterator[str]:
    """The name of a user's strategy, which is removed afterwards."""
    yield "OWN"
    strategies.unregister("OWN")


def last_takes_all(
    given: Sequence[Queue], consumers: Sequence[str], _: Mapping[str, object]
) -> dict[str, Sequence[Queue]]:
    return {consumers[-1]: tuple(given)}


def test_an_unknown_name_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(errors.UnknownStrategyError) as caught:
        strategies.find("AVERAGE")
    for name in (*BUILT_IN, "STICKY"):
        assert name in str(caught.value)
    assert strategies.list_names() == ["STICKY", *BUILT_IN]


def test_sticky_deals_no_single_list() -> None:
    assert strategies.find("STICKY").name == "STICKY"
    with pytest.raises(errors.UnknownStrategyError, match="cannot be an inner strategy"):
        strategies.find_dealer("STICKY")


def test_only_sticky_uses_zones_weights_and_a_cap_on_moves() -> None:
    for name in ("STICKY", *BUILT_IN):
        uses = strategies.find(name).uses
        expected = {"zones", "weights", "min_gain", "max_moves"} if name == "STICKY" else set()
        assert uses == expected, name


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(errors.BadRequestError):
        strategies.find(["AVG"])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*BUILT_IN, "STICKY", ""])
def test_a_built_in_name_cannot_be_taken(name: str) -> None:
    with pytest.raises(errors.BadRequestError):
        strategies.register(name, last_takes_all)


def test_what_cannot_be_called_is_no_strategy(own: str) -> None:
    with pytest.raises(errors.BadRequestError):
        strategies.register(own, {})  # type: ignore[arg-type]


def test_a_function_is_a_strategy_and_leaves_out_who_gets_nothing(own: str) -> None:
    strategies.register(own, last_takes_all)
    strategy = strategies.find_dealer(own)
    assert strategies.list_names()[-1] == own
    assert strategy.deal(queues(2), ("a", "b"), {}) == {"a": [], "b": queues(2)}
    assert strategy.deal_one("b", queues(2), ["a", "b"], {}) == queues(2)
    assert strategy.deal_one("a", queues(2), ["a", "b"], {}) == []
    assert strategy.deal_one("c", queues(2), ["a", "b"], {}) == []
    with pytest.raises(errors.IllegalArgumentException):
        strategy.deal_one(None, queues(2), ["a", "b"], {})


def test_a_function_may_be_the_inner_strategy(own: str) -> None:
    strategies.register(own, last_takes_all)
    assert nearby(["a", "b"], ["a-1", "a-2"], inner=own) == {"a-1": [], "a-2": ["a", "b"]}


def test_a_user_may_replace_and_forget_their_own_strategy(own: str) -> None:
    strategies.register(own, lambda *_: {})
    strategies.register(own, last_takes_all)
    assert strategies.find_dealer(own).deal(queues(1), ["a"], {}) == {"a": queues(1)}
    strategies.unregister(own)
    with pytest.raises(errors.UnknownStrategyError):
        strategies.find_dealer(own)


def test_forgetting_leaves_the_built_in_ones_alone() -> None:
    strategies.unregister("AVG")
    assert strategies.find_dealer("AVG").name == "AVG"


@pytest.mark.parametrize(
    "nonsense", [None, [], {"a": None}, {"a": "queues"}, {"a": [0]}, {"a": {1, 2}}, 5]
)
def test_a_function_that_returns_nonsense_has_failed(own: str, nonsense: Any) -> None:
    strategies.register(own, lambda *_: nonsense)
    with pytest.raises(errors.StrategyFailedError, match="strategy OWN"):
        strategies.find_dealer(own).deal(queues(1), ["a"], {})


def test_a_function_that_names_a_stranger_is_refused(own: str) -> None:
    strategies.register(own, lambda given, *_: {"stranger": given})
    with pytest.raises(errors.ForeignConsumerError, match="stranger"):
        strategies.find_dealer(own).deal(queues(1), ["a"], {})


def test_a_function_that_raises_has_failed_and_tells_why(own: str) -> None:
    def clumsy(*_: object) -> dict[str, list[Queue]]:
        return {"a": [][0]}

    strategies.register(own, clumsy)
    with pytest.raises(errors.StrategyFailedError, match="list index out of range") as caught:
        strategies.find_dealer(own).deal(queues(1), ["a"], {})
    assert isinstance(caught.value.__cause__, IndexError)


def test_a_function_may_refuse_with_an_error_of_ours(own: str) -> None:
    def refuse(*_: object) -> dict[str, list[Queue]]:
        raise errors.BadWeightError("no")

    strategies.register(own, refuse)
    with pytest.raises(errors.BadWeightError):
        strategies.find_dealer(own).deal(queues(1), ["a"], {})


def test_a_function_cannot_spoil_the_lists_of_its_caller(own: str) -> None:
    def greedy(given: Any, consumers: Any, _: object) -> dict[str, list[Queue]]:
        given.clear()
        consumers.clear()
        return {}

    strategies.register(own, greedy)
    given, consumers = queues(2), ["a"]
    assert strategies.find_dealer(own).deal(given, consumers, {}) == {"a": []}
    assert (len(given), consumers) == (2, ["a"])
