"""Which queue a message is sent to: in turn, by its key, and not to a broker that is slow."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from lb_core.model import QueueRange
from lb_core.producer import FAILED_COUNTS_AS_MS, choose_pause
from mq_client import choosers, errors
from mq_client.choosers import TEST_SECONDS, AvoidSlow, ByKey, Chooser, RoundRobin
from mq_client.values import BrokerRoute, Route

LOST = errors.ConnectionLostError("reset")
SLOW_SECONDS = 0.55
PAUSE = choose_pause(SLOW_SECONDS * 1000) / 1000
LONG_PAUSE = choose_pause(FAILED_COUNTS_AS_MS) / 1000


def make_broker(name: str, perm: int = 6, queues: int = 2, zone: str | None = None) -> BrokerRoute:
    return BrokerRoute(name, "c", {0: f"{name}:1"}, 4, queues, perm, zone)


THREE = Route("orders", (make_broker("a"), make_broker("b"), make_broker("c")))
EVENLY = {"a": 20, "b": 20, "c": 20}
NOTHING = Route("orders", (make_broker("a", perm=4), make_broker("b", queues=0)))


class Producer:
    """Sends to three brokers, on a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.chooser = AvoidSlow(clock=lambda: self.now)

    def choose_many(self) -> Counter[str]:
        """Choose for many messages; their outcomes are not known yet."""
        return Counter(self.chooser.choose(THREE, None).broker for _ in range(60))

    def send_many(self, slow: str = "") -> Counter[str]:
        """Send many messages, one after the other. Only those to the slow broker take time."""
        sent: Counter[str] = Counter()
        for _ in range(60):
            broker = self.chooser.choose(THREE, None).broker
            taken = SLOW_SECONDS if broker == slow else 0.0
            self.now += taken
            self.chooser.note_end(broker, taken, None)
            sent[broker] += 1
        return sent


def test_all_brokers_get_messages_while_none_is_slow() -> None:
    here = Producer()
    assert here.send_many() == EVENLY
    here.chooser.note_end("a", SLOW_SECONDS - 0.01, None)
    assert here.send_many() == EVENLY


def test_a_slow_broker_gets_one_message_after_each_pause_until_it_is_fast_again() -> None:
    here = Producer()
    for _ in range(5):
        assert here.send_many(slow="b")["b"] == 1
        here.now += PAUSE - 0.1
        assert here.send_many(slow="b")["b"] == 0
        here.now += 0.2
    assert here.send_many() == EVENLY


def test_while_one_message_tests_a_broker_the_others_go_elsewhere() -> None:
    here = Producer()
    here.chooser.note_end("b", 5.0, LOST)
    here.now += LONG_PAUSE
    assert here.choose_many()["b"] == 1
    here.now += TEST_SECONDS  # the caller of that one was cancelled, so its outcome never comes
    assert here.choose_many()["b"] == 1
    here.chooser.note_end("b", 0.1, None)
    assert here.choose_many() == EVENLY


def test_an_answer_to_an_earlier_send_does_not_restore_the_trust() -> None:
    here = Producer()
    here.chooser.note_end("b", 1.0, LOST)
    here.chooser.note_end("b", 0.1, None)
    here.now += LONG_PAUSE
    assert here.choose_many()["b"] == 1
    here.chooser.note_end("b", LONG_PAUSE / 100, None)
    assert here.choose_many()["b"] == 0


def test_if_all_brokers_are_avoided_all_are_used_but_for_the_one_that_just_failed() -> None:
    here = Producer()
    for broker in "abc":
        here.chooser.note_end(broker, 1.0, LOST)
    assert {here.chooser.choose(THREE, None).broker for _ in range(6)} == {"a", "b", "c"}
    assert {here.chooser.choose(THREE, "a").broker for _ in range(6)} == {"b", "c"}


def test_a_retry_goes_to_a_broker_that_is_being_tested_rather_than_to_the_one_that_failed() -> None:
    here = Producer()
    here.chooser.note_end("b", 1.0, LOST)
    here.now += LONG_PAUSE
    two = Route("orders", THREE.brokers[:2])
    while here.chooser.choose(two, None).broker != "b":
        pass
    assert here.chooser.choose(two, "a").broker == "b"


def test_choosers_begin_at_different_queues() -> None:
    """Otherwise many producers that start together would all begin with the same broker."""
    many = Route("orders", (make_broker("a", queues=1000),))
    for make in (RoundRobin, AvoidSlow):
        assert len({make().choose(many, None) for _ in range(9)}) > 1


def test_if_all_brokers_are_being_tested_all_are_used() -> None:
    here = Producer()
    for broker in "abc":
        here.chooser.note_end(broker, 1.0, LOST)
    here.now += LONG_PAUSE
    assert set(here.choose_many()) == {"a", "b", "c"}


def test_a_key_keeps_its_queue_even_if_the_broker_has_just_failed(rng: random.Random) -> None:
    for _ in range(100):
        chooser = ByKey(str(rng.random()))
        queue = chooser.choose(THREE, None)
        chooser.note_end(queue.broker, 9.0, LOST)
        assert chooser.choose(THREE, queue.broker) == queue
    assert len({ByKey(str(each)).choose(THREE, None) for each in range(100)}) == 6


def test_a_key_gets_the_queue_that_rocketmqs_java_client_gives_it() -> None:
    hundred = Route("orders", (make_broker("a", queues=50), make_broker("b", queues=50)))
    known = {"": 0, "hello": 22, "polygenelubricants": 48, "\U0001f600": 99}
    for key, place in known.items():  # the hashes of these strings modulo 100
        assert ByKey(key).choose(hundred, None) == hundred.writable[place]


def test_the_writable_queues_are_ranges_in_the_zones_of_their_brokers() -> None:
    brokers = (make_broker("a", zone="z1"), make_broker("b", perm=4), make_broker("c", queues=0))
    found = choosers.list_writable(Route("orders", brokers))
    assert found == [QueueRange("orders", "a", 0, 2, "z1")]


def test_a_static_topic_is_refused_by_name() -> None:
    with pytest.raises(errors.UsageError, match=r"orders.* is a static"):
        choosers.list_writable(Route("orders", (make_broker("a"),), is_static=True))


@pytest.mark.parametrize("make", [RoundRobin, AvoidSlow, lambda: ByKey("x")])
def test_a_topic_without_a_writable_queue_is_an_error(make: Callable[[], Chooser]) -> None:
    with pytest.raises(errors.NoBrokerError, match="'orders' has no writable queue"):
        make().choose(NOTHING, None)
