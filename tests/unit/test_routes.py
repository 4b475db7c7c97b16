"""A name server's answer, the views that follow from it, and what changed."""

import random
from dataclasses import fields, replace
from typing import Any

import pytest

from lb_core import errors, inventory, plan, route_changes, routes
from lb_core.model import Member, QueueRange
from lb_core.route_changes import What
from lb_core.routes import BrokerQueues, Route

MASTER = "10.0.0.1:10911"
SLAVE = "10.0.0.2:10911"


def broker(name: str = "broker-a", read: int = 4, write: int = 4, **more: Any) -> BrokerQueues:
    return BrokerQueues(name, read, write, **{"addresses": ((0, MASTER),), **more})


def route(*brokers: BrokerQueues, topic: str = "orders") -> Route:
    return Route(topic, brokers)


def queue_data(name: str = "broker-a", **more: object) -> dict[str, object]:
    counts = {"readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 0}
    return {"brokerName": name, **counts, **more}


def broker_data(name: str = "broker-a", **more: object) -> dict[str, object]:
    return {"brokerName": name, "cluster": "c1", "brokerAddrs": {"0": MASTER}, **more}


def answer(queues: object = None, brokers: object = None, **more: object) -> dict[str, object]:
    lists = {
        "queueDatas": [queue_data()] if queues is None else queues,
        "brokerDatas": [broker_data()] if brokers is None else brokers,
    }
    return {**lists, **more}


# --- reading


def test_an_answer_of_the_name_server_becomes_a_route() -> None:
    found = routes.read("orders", answer(orderTopicConf=None, filterServerTable={}))
    expected = BrokerQueues("broker-a", 4, 4, 6, ((0, MASTER),), None, "c1", 0)
    assert found == Route("orders", (expected,))


@pytest.mark.parametrize("key", ["1", 1], ids=["text", "number"])
def test_a_broker_id_may_be_a_number_or_its_text(key: object) -> None:
    found = routes.read("orders", answer(brokers=[broker_data(brokerAddrs={key: SLAVE})]))
    assert found.brokers[0].addresses == ((1, SLAVE),)


def test_addresses_are_sorted_by_broker_id_so_the_master_comes_first() -> None:
    addresses = {"10": "c:1", "2": "b:1", "0": "a:1"}
    found = routes.read("orders", answer(brokers=[broker_data(brokerAddrs=addresses)])).brokers[0]
    assert found.read_addresses == ("a:1", "b:1", "c:1")
    assert found.master == "a:1"
    assert found.slaves == ((2, "b:1"), (10, "c:1"))


def test_the_callers_zone_wins_over_the_zone_of_the_answer() -> None:
    given = answer(
        [queue_data("a"), queue_data("b")],
        [broker_data("a", zoneName="z1"), broker_data("b", zoneName="z2")],
    )
    found = routes.read("orders", given, {"a": "z9"})
    assert [each.zone for each in found.brokers] == ["z9", "z2"]


def test_a_broker_without_addresses_in_the_answer_is_unknown() -> None:
    found = routes.read("orders", answer(brokers=[])).brokers[0]
    assert (found.master, found.read_addresses, found.cluster) == (None, (), None)


def test_a_broker_that_has_no_queues_of_the_topic_is_left_out() -> None:
    found = routes.read("orders", answer(brokers=[broker_data(), broker_data("broker-b")]))
    assert [each.broker for each in found.brokers] == ["broker-a"]


def test_an_old_name_server_that_sends_no_system_flag_is_understood() -> None:
    data = queue_data()
    del data["topicSysFlag"]
    assert routes.read("orders", answer([data])).brokers[0].system_flag == 0


@pytest.mark.parametrize(
    ("given", "path"),
    [
        pytest.param(None, "route of orders: is no object", id="no answer"),
        pytest.param([], "route of orders: is no object", id="a list"),
        pytest.param({"brokerDatas": []}, "queueDatas: is missing", id="no queueDatas"),
        pytest.param({"queueDatas": []}, "brokerDatas: is missing", id="no brokerDatas"),
        pytest.param(answer("abc"), "queueDatas: is no list", id="a text for a list"),
        pytest.param(answer({"a": 1}), "queueDatas: is no list", id="an object for a list"),
        pytest.param(answer([5]), r"queueDatas\[0\]: is no object", id="a number for an object"),
        pytest.param(
            answer([queue_data(), queue_data("")]),
            r"queueDatas\[1\], brokerName: .* empty",
            id="empty broker name",
        ),
        pytest.param(
            answer([queue_data(5)]),  # type: ignore[arg-type]  # bad on purpose
            r"queueDatas\[0\], brokerName: 5 is no text",
            id="broker name is a number",
        ),
        pytest.param(
            answer([queue_data(perm=None)]), r"queueDatas\[0\], perm: is missing", id="no perm"
        ),
        pytest.param(
            answer([queue_data(topicSysFlag="x")]),
            r"queueDatas\[0\], topicSysFlag: x is no whole number",
            id="system flag is text",
        ),
        pytest.param(
            answer(brokers=[broker_data(brokerAddrs=[])]),
            r"brokerDatas\[0\], brokerAddrs: is no object",
            id="addresses are a list",
        ),
        pytest.param(
            answer(brokers=[broker_data(brokerAddrs={"one": "a:1"})]),
            r"brokerAddrs\[one\]: is no broker id",
            id="broker id is a word",
        ),
        pytest.param(
            answer(brokers=[broker_data(brokerAddrs={-1: "a:1"})]),
            r"brokerAddrs\[-1\]: is no broker id",
            id="broker id is negative",
        ),
        pytest.param(
            answer(brokers=[broker_data(brokerAddrs={"9" * 5000: "a:1"})]),
            "is no broker id",
            id="broker id of 5000 digits",
        ),
        pytest.param(
            answer(brokers=[broker_data(brokerAddrs={"0": 7})]),
            r"brokerAddrs\[0\]: 7 is no text",
            id="address is a number",
        ),
        pytest.param(
            answer(brokers=[broker_data(brokerAddrs={"0": "a:1", 0: "a:2"})]),
            "broker-a: two addresses for one broker id",
            id="one broker id twice",
        ),
        pytest.param(
            answer(brokers=[broker_data(), broker_data()]),
            r"brokerDatas\[1\], brokerName: broker broker-a is listed twice",
            id="addresses of a broker twice",
        ),
        pytest.param(
            answer([queue_data(), queue_data()]),
            "route of orders: broker broker-a is listed twice",
            id="queues of a broker twice",
        ),
        pytest.param(
            answer(topicQueueMappingByBroker={"broker-a": {}}),
            "topicQueueMappingByBroker: static topics are not supported",
            id="static topic",
        ),
    ],
)
def test_a_bad_shape_is_refused_with_its_path(given: object, path: str) -> None:
    with pytest.raises(errors.BadRequestError, match=path):
        routes.read("orders", given)


@pytest.mark.parametrize("key", ["readQueueNums", "writeQueueNums", "perm"])
@pytest.mark.parametrize(
    "count",
    [-1, 2**31, pytest.param(10**5000, id="5001 digits"), 1.5, "4", True, float("nan"), [4]],
)
def test_an_absurd_count_is_refused_and_its_broker_named(key: str, count: object) -> None:
    with pytest.raises(errors.BadRequestError, match="broker-a") as refusal:
        routes.read("orders", answer([queue_data() | {key: count}]))
    assert len(str(refusal.value)) < 300


def test_a_hostile_name_of_a_megabyte_makes_a_short_message() -> None:
    with pytest.raises(errors.BadRequestError) as refusal:
        routes.read("t" * 2**20, answer([queue_data("b" * 2**20, readQueueNums=-1)]))
    assert len(str(refusal.value)) < 400


def test_a_route_and_a_broker_need_a_name() -> None:
    for make in (lambda: route(topic=""), lambda: broker("")):
        with pytest.raises(errors.BadRequestError, match="name must be a text"):
            make()


# --- views


def test_the_publish_view_lists_all_of_one_broker_before_the_next() -> None:
    """The example of the articles: TBW102 on two brokers with 8 write queues each."""
    view = routes.publish_view(route(broker("broker-b", write=8), broker("broker-a", write=8)))
    assert view == (QueueRange("orders", "broker-a", 0, 8), QueueRange("orders", "broker-b", 0, 8))


def test_brokers_are_sorted_as_java_sorts() -> None:
    """By UTF-16 unit, an emoji (two units from D83D on) stands before U+FF5E."""
    given = [broker("\uff5e"), broker("\U0001f600"), broker("b10"), broker("b2")]
    view = routes.publish_view(route(*given))
    assert [queues.broker for queues in view] == ["b10", "b2", "\U0001f600", "\uff5e"]


@pytest.mark.parametrize(
    ("perm", "can_read", "can_write"),
    [(6, True, True), (4, True, False), (2, False, True), (1, False, False), (7, True, True)],
)
def test_perm_decides_which_view_a_broker_is_in(perm: int, can_read: bool, can_write: bool) -> None:
    given = route(broker(perm=perm))
    assert bool(routes.subscribe_view(given)) is can_read
    assert bool(routes.publish_view(given)) is can_write


def test_read_and_write_counts_are_kept_apart() -> None:
    given = route(broker(read=3, write=5))
    assert routes.subscribe_view(given) == (QueueRange("orders", "broker-a", 0, 3),)
    assert routes.publish_view(given) == (QueueRange("orders", "broker-a", 0, 5),)


def test_brokers_may_have_different_queue_counts() -> None:
    view = routes.subscribe_view(route(broker("a", read=1), broker("b", read=7)))
    assert [len(queues) for queues in view] == [1, 7]


@pytest.mark.parametrize("addresses", [(), ((1, SLAVE),)], ids=["unknown", "slaves alone"])
def test_without_a_master_a_broker_is_read_but_not_written(addresses: routes.Addresses) -> None:
    given = route(broker(addresses=addresses))
    assert routes.publish_view(given) == ()
    assert len(routes.subscribe_view(given)) == 1


def test_a_broker_without_queues_gives_no_range() -> None:
    given = route(broker(read=0, write=0))
    assert routes.publish_view(given) == routes.subscribe_view(given) == ()


def test_the_largest_count_makes_a_range() -> None:
    view = routes.subscribe_view(route(broker(read=2**31 - 1)))
    assert view[0].stop == 2**31 - 1


def test_a_view_carries_the_zone_of_its_broker() -> None:
    given = route(broker(zone="z1"))
    views = routes.subscribe_view(given) + routes.publish_view(given)
    assert [queues.zone for queues in views] == ["z1", "z1"]


def test_a_view_is_what_plan_takes_as_queues() -> None:
    view = routes.subscribe_view(route(broker("a"), broker("b")))
    assert inventory.build(view).count == 8
    assert plan.plan(None, view, [Member("c1")]).assignment["c1"] == view


# --- changes


def said(old: Route, new: Route) -> list[str]:
    return [str(change) for change in route_changes.changes(old, new)]


def test_the_same_answer_in_another_order_is_no_change() -> None:
    names = ["a", "b", "c"]
    one = answer([queue_data(n) for n in names], [broker_data(n) for n in names])
    other = answer([queue_data(n) for n in names[::-1]], [broker_data(n) for n in "bca"])
    assert route_changes.changes(routes.read("orders", one), routes.read("orders", other)) == ()


def test_a_broker_that_came_is_told_with_its_queues() -> None:
    change = route_changes.changes(route(), route(broker(read=4, write=8)))[0]
    assert (change.what, change.before, change.after) == (What.CAME, None, broker(write=8))
    assert str(change) == "broker-a came, 4 read and 8 write queues"


def test_a_broker_that_left_is_told_with_its_queues() -> None:
    change = route_changes.changes(route(broker()), route())[0]
    assert (change.what, change.before, change.after) == (What.LEFT, broker(), None)
    assert str(change) == "broker-a left, 4 read and 4 write queues"


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ({"read": 8}, "broker-a read queues: 4, now 8"),
        ({"write": 0}, "broker-a write queues: 4, now 0"),
        ({"perm": 4}, "broker-a perm: read and write, now read"),
        ({"perm": 0}, "broker-a perm: read and write, now nothing"),
        ({"perm": 7}, "broker-a perm: read and write, now read and write and inherit"),
        ({"addresses": ()}, "broker-a lost its master 10.0.0.1:10911"),
        ({"addresses": ((0, SLAVE),)}, f"broker-a master: {MASTER}, now {SLAVE}"),
        (
            {"addresses": ((0, MASTER), (1, SLAVE))},
            "broker-a slaves: none, now 1 at 10.0.0.2:10911",
        ),
        ({"zone": "z1"}, "broker-a zone: none, now z1"),
        ({"cluster": "c2"}, "broker-a cluster: none, now c2"),
        ({"system_flag": 1}, "broker-a system flag: 0, now 1"),
    ],
)
def test_a_change_is_said_in_words_and_values(after: dict[str, Any], words: str) -> None:
    assert said(route(broker()), route(broker(**after))) == [words]


def test_a_master_that_was_found_is_said() -> None:
    old, new = route(broker(addresses=())), route(broker())
    assert said(old, new) == ["broker-a found a master, 10.0.0.1:10911"]


def test_all_changes_are_told_broker_by_broker() -> None:
    old = route(broker("a"), broker("b"), broker("c"))
    new = route(broker("d"), broker("c", read=1, perm=4), broker("b"))
    assert [(change.broker, change.what) for change in route_changes.changes(old, new)] == [
        ("a", What.LEFT),
        ("c", What.READ_QUEUES),
        ("c", What.PERM),
        ("d", What.CAME),
    ]


def test_no_change_goes_untold(rng: random.Random) -> None:
    """Each field of a broker in turn: routes that differ have changes, equal ones have none."""
    others: dict[str, Any] = {"perm": 0, "addresses": ((3, SLAVE),), "zone": "z", "cluster": "x"}
    for each in fields(BrokerQueues):
        if each.name != "broker":
            after = replace(broker(), **{each.name: others.get(each.name, rng.randint(5, 99))})
            assert route_changes.changes(route(broker()), route(after)), each.name
            assert route_changes.changes(route(after), route(after)) == ()


def test_routes_of_two_topics_are_not_compared() -> None:
    with pytest.raises(errors.BadRequestError, match="orders and bills"):
        route_changes.changes(route(), route(topic="bills"))
