"""A name server's answer about a topic, and the two views that clients make of it."""

import json
from typing import Any

import pytest

from lb_core import plan
from lb_core.model import Member, QueueRange
from mq_client import errors
from mq_client.commands.cluster import GetRoute
from mq_client.frames import Frame
from mq_client.values import BrokerRoute, MessageQueue, Route

MASTER = "10.0.0.1:10911"
SLAVE = "10.0.0.2:10911"


def broker(name: str = "broker-a", read: int = 4, write: int = 4, **more: Any) -> BrokerRoute:
    values = {"cluster": "c1", "addresses": {0: MASTER}, "perm": 6, **more}
    return BrokerRoute(name, read_queues=read, write_queues=write, **values)


def route(*brokers: BrokerRoute) -> Route:
    return Route("orders", brokers)


def queue_data(name: Any = "broker-a", **more: object) -> dict[str, object]:
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


def read(given: object) -> Route:
    body = given if isinstance(given, bytes) else json.dumps(given).encode()
    return GetRoute("orders").read(Frame(0, 1, body=body))


# --- reading


def test_an_answer_of_the_name_server_becomes_a_route() -> None:
    found = read(answer(orderTopicConf=None, filterServerTable={}))
    assert found == Route("orders", (BrokerRoute("broker-a", "c1", {0: MASTER}, 4, 4, 6),))


@pytest.mark.parametrize("key", [b'"1"', b"1"], ids=["string", "number"])
def test_a_broker_id_may_be_a_number_or_a_string(key: bytes) -> None:
    given = json.dumps(answer(brokers=[broker_data(brokerAddrs={"@": SLAVE})])).encode()
    assert read(given.replace(b'"@"', key)).brokers[0].addresses == {1: SLAVE}


def test_addresses_are_sorted_by_broker_id_so_the_master_comes_first() -> None:
    addresses = {"10": "c:1", "2": "b:1", "0": "a:1"}
    found = read(answer(brokers=[broker_data(brokerAddrs=addresses)])).brokers[0]
    assert list(found.addresses.items()) == [(0, "a:1"), (2, "b:1"), (10, "c:1")]
    assert found.master == "a:1"
    assert found.find_address(2) == "b:1"


def test_a_route_has_the_zones_of_its_brokers() -> None:
    given = answer(
        [queue_data("a"), queue_data("b"), queue_data("c")],
        [broker_data("a", zoneName="z1"), broker_data("b", zoneName=""), broker_data("c")],
    )
    assert [each.zone for each in read(given).brokers] == ["z1", None, None]


def test_a_broker_without_addresses_in_the_answer_is_unknown() -> None:
    found = read(answer(brokers=[])).brokers[0]
    assert (found.master, found.find_address(), found.cluster) == (None, None, "")


def test_a_broker_that_has_no_queues_of_the_topic_is_left_out() -> None:
    found = read(answer(brokers=[broker_data(), broker_data("broker-b")]))
    assert [each.broker for each in found.brokers] == ["broker-a"]


def test_an_old_name_server_that_sends_no_system_flag_is_understood() -> None:
    data = queue_data()
    del data["topicSysFlag"]
    assert [each.broker for each in read(answer([data])).brokers] == ["broker-a"]


def test_the_same_answer_in_another_order_is_the_same_route() -> None:
    names = ["a", "b", "c"]
    one = answer([queue_data(n) for n in names], [broker_data(n) for n in names])
    other = answer([queue_data(n) for n in names[::-1]], [broker_data(n) for n in "bca"])
    assert read(one) == read(other)


def test_brokers_are_sorted_as_java_sorts() -> None:
    """By UTF-16 units, an emoji (two units, of which the first is D83D) comes before U+FF5E."""
    names = ["\uff5e", "\U0001f600", "b10", "b2"]
    found = read(answer([queue_data(name) for name in names], []))
    assert [each.broker for each in found.brokers] == ["b10", "b2", "\U0001f600", "\uff5e"]


@pytest.mark.parametrize(("mapping", "is_static"), [(None, False), ({}, False), ({"a": {}}, True)])
def test_a_route_says_whether_its_topic_is_static(mapping: object, is_static: bool) -> None:
    assert read(answer(topicQueueMappingByBroker=mapping)).is_static is is_static


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        pytest.param([], "JSON object", id="a list"),
        pytest.param({"brokerDatas": []}, "queueDatas is missing", id="no queueDatas"),
        pytest.param({"queueDatas": []}, "brokerDatas is missing", id="no brokerDatas"),
        pytest.param(answer("abc"), "queueDatas", id="a string for a list"),
        pytest.param(answer([5]), "an entry of queueDatas", id="a number for an object"),
        pytest.param(answer([queue_data(5)]), "brokerName", id="broker name is a number"),
        pytest.param(answer([queue_data(perm=None)]), "perm", id="no perm"),
        pytest.param(answer(brokers=[broker_data(brokerAddrs=[])]), "brokerAddrs", id="a list"),
        pytest.param(
            answer(brokers=[broker_data(brokerAddrs={"one": "a:1"})]),
            "a broker id in brokerAddrs",
            id="broker id is a word",
        ),
        pytest.param(
            answer(brokers=[broker_data(brokerAddrs={"9" * 5000: "a:1"})]),
            "a broker id in brokerAddrs",
            id="broker id of 5000 digits",
        ),
        pytest.param(
            answer(brokers=[broker_data(brokerAddrs={"0": "a:1", "00": "a:2"})]),
            "two addresses for one broker id",
            id="one broker id twice",
        ),
        pytest.param(
            answer(brokers=[broker_data(), broker_data()]),
            "brokerDatas lists broker 'broker-a' twice",
            id="addresses of a broker twice",
        ),
        pytest.param(
            answer([queue_data(), queue_data()]),
            "queueDatas lists broker 'broker-a' twice",
            id="queues of a broker twice",
        ),
    ],
)
def test_a_bad_shape_is_refused_by_name(given: object, complaint: str) -> None:
    with pytest.raises(errors.ProtocolError, match=complaint):
        read(given)


@pytest.mark.parametrize("key", ["readQueueNums", "writeQueueNums", "perm"])
@pytest.mark.parametrize("count", [-1, 2**31, 1.5, "4", True, float("nan"), [4]])
def test_an_absurd_count_is_refused_by_name(key: str, count: object) -> None:
    with pytest.raises(errors.ProtocolError, match=key) as refusal:
        read(answer([queue_data() | {key: count}]))
    assert len(str(refusal.value)) < 300


def test_a_hostile_name_of_a_megabyte_makes_a_short_message() -> None:
    for bad in ([queue_data("b" * 2**20, readQueueNums=-1)], [queue_data("b" * 2**20)] * 2):
        with pytest.raises(errors.ProtocolError) as refusal:
            read(answer(bad))
        assert len(str(refusal.value)) < 300


# --- views


def test_the_publish_view_lists_all_of_one_broker_before_the_next() -> None:
    """An example from articles about RocketMQ: TBW102 on two brokers with 8 write queues each."""
    given = answer([queue_data(name, writeQueueNums=8) for name in ("broker-b", "broker-a")],
                   [broker_data("broker-a"), broker_data("broker-b")])  # fmt: skip
    assert read(given).writable == [
        MessageQueue("orders", name, number)
        for name in ("broker-a", "broker-b")
        for number in range(8)
    ]


@pytest.mark.parametrize(
    ("perm", "can_read", "can_write"),
    [(6, True, True), (4, True, False), (2, False, True), (1, False, False), (7, True, True)],
)
def test_perm_decides_which_view_a_broker_is_in(perm: int, can_read: bool, can_write: bool) -> None:
    given = route(broker(perm=perm))
    assert bool(given.readable) is can_read
    assert bool(given.writable) is can_write


def test_read_and_write_counts_are_kept_apart() -> None:
    given = route(broker(read=3, write=5))
    assert [len(given.readable), len(given.writable)] == [3, 5]


def test_brokers_may_have_different_queue_counts() -> None:
    given = route(broker("a", read=1), broker("b", read=7))
    assert [queue.broker for queue in given.readable] == ["a"] + ["b"] * 7


@pytest.mark.parametrize("addresses", [{}, {1: SLAVE}], ids=["unknown", "slaves alone"])
def test_without_a_master_a_broker_is_read_but_not_written(addresses: dict[int, str]) -> None:
    given = route(broker(addresses=addresses))
    assert given.writable == []
    assert len(given.readable) == 4


def test_a_broker_without_queues_is_in_no_view() -> None:
    given = route(broker(read=0, write=0))
    assert given.writable == given.readable == []


def test_what_consumers_see_can_be_planned() -> None:
    given = route(broker("a"), broker("b"))
    ranges = [QueueRange("orders", each.broker, 0, each.read_queues) for each in given.brokers]
    owned = plan.plan(None, ranges, [Member("c1")]).assignment["c1"]
    assert [MessageQueue(q.topic, q.broker, q.id) for run in owned for q in run] == given.readable
