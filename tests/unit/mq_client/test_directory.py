"""What a client remembers, and how it finds brokers."""

from typing import Any

import pytest

from mq_client import directory, errors
from mq_client.choosers import RoundRobin
from mq_client.directory import Directory
from mq_client.machine import Machine
from mq_client.values import BrokerRoute, MessageQueue, Route


def route(*names: str, perm: int = 6, master: bool = True) -> Route:
    addresses = {0 if master else 1: "h:1"}
    return Route("orders", tuple(BrokerRoute(name, "c", addresses, 3, 2, perm) for name in names))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("localhost:9876", ("localhost", 9876)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("[::1]:9876", ("::1", 9876)),
        ("::1:9876", ("::1", 9876)),
        (" spaced:80 ", ("spaced", 80)),
    ],
    ids=lambda value: str(value),
)
def test_addresses_are_split_with_ipv6_in_brackets_or_without(
    text: str, place: tuple[str, int]
) -> None:
    assert directory.split_address(text) == place


@pytest.mark.parametrize("text", ["", "host", "host:", ":9876", "host:x", "host:0", "host:65536"])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(errors.UsageError, match="localhost:9876"):
        Directory([text], Machine())


def test_name_servers_come_as_a_list_or_as_rocketmq_writes_them() -> None:
    assert Directory("a:1; b:2;", Machine()).name_servers == ["a:1", "b:2"]


def test_the_name_server_that_answered_is_asked_first() -> None:
    known = Directory(["a:1", "b:2", "c:3"], Machine())
    known.trust("c:3")
    assert known.name_servers == ["c:3", "a:1", "b:2"]


def test_a_route_is_young_for_as_long_as_asked() -> None:
    clock = [0.0]
    known = Directory("a:1", Machine(now=lambda: clock[0]))
    known.note(route("x"))
    clock[0] = 30
    assert known.find_route("orders", max_age=30) == route("x")
    assert known.find_route("orders", max_age=29) is None
    assert known.find_last_route("orders") == route("x")


def test_a_change_of_route_is_told_once() -> None:
    known = Directory("a:1", Machine())
    told: list[Any] = []
    known.on_route_change = lambda *change: told.append(change)
    for seen in (route("x"), route("x"), route("x", "y")):
        known.note(seen)
    assert told == [("orders", None, route("x")), ("orders", route("x"), route("x", "y"))]


def test_queues_are_readable_and_writable_by_perm_and_only_a_master_takes_messages() -> None:
    both = route("x")
    assert [len(both.readable), len(both.writable)] == [3, 2]
    assert [len(route("x", perm=4).readable), len(route("x", perm=4).writable)] == [3, 0]
    assert [len(route("x", perm=2).readable), len(route("x", perm=2).writable)] == [0, 2]
    assert [len(route("x", master=False).readable), len(route("x", master=False).writable)] == [
        3,
        0,
    ]


def test_round_robin_takes_every_queue_in_turn_and_avoids_who_failed() -> None:
    chooser = RoundRobin()
    here = route("x", "y")
    assert {chooser.choose(here, None) for _ in range(4)} == set(here.writable)
    assert {chooser.choose(here, "x").broker for _ in range(4)} == {"y"}
    assert chooser.choose(route("x"), "x") in [
        MessageQueue("orders", "x", 0),
        MessageQueue("orders", "x", 1),
    ]


def test_no_writable_queue_is_an_error_that_names_the_topic() -> None:
    with pytest.raises(errors.NoBrokerError, match="orders"):
        RoundRobin().choose(route("x", perm=4), None)
