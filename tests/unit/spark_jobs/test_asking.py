"""Brokers are asked concurrently, and silent ones only by separate probes."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from mq_client import errors
from mq_client.commands.cluster import GetRoute
from mq_client.directory import UNLISTED_SECONDS
from mq_client.flows import Ask
from mq_client.values import READ, WRITE, BrokerMap, BrokerRoute, MessageQueue, Offsets, Route
from spark_jobs.asking import Asker, BrokerReply
from tests.scripted import Stage

TOPICS = ["a", "b", "c", "d"]
SECONDS = 5.0


@dataclass
class Question:
    """A flow in flight, with one request."""

    flow: Generator[Any, Any, Any]
    ask: Ask
    deadline: float
    is_done: bool = False
    value: Any = None
    error: errors.MqError | None = None

    def get_result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class Brokers:
    """Two brokers with all topics. The clock moves only while a call waits for a silent broker."""

    def __init__(self) -> None:
        self.stage = Stage(answer=SECONDS)
        self.directory = self.stage.directory
        self.now = 0.0
        self.silent: set[str] = set()
        self.down: set[str] = set()
        """The brokers that refuse connections."""
        self.engine = SimpleNamespace(wait=self._look)
        self.addresses = {"broker-a": "a:1", "broker-b": "b:1"}
        self.names = {"a:1": "broker-a", "b:1": "broker-b", "b:2": "broker-b"}
        """Which broker answers at each address."""
        self.perm = READ | WRITE
        self.masters = {"broker-a", "broker-b"}
        """The masters in the list of all brokers; routes may differ."""
        self.asked: list[str] = []
        self._questions: list[Question] = []

    def start(self, flow: Generator[Any, Any, Any]) -> Question:
        ask = next(flow)
        if not isinstance(ask.request, GetRoute):
            self.asked.append(f"{ask.request.topic} {ask.address}")
        question = Question(flow, ask, self.now + ask.timeout)
        self._questions.append(question)
        return question

    def wait(self, question: Question) -> Any:
        self._go_on()
        if not question.is_done:
            self.now = question.deadline
            self._go_on()
        return question.get_result()

    def _look(self, is_done: Callable[[], bool], seconds: float) -> bool:
        self._go_on()
        return is_done()

    def list_brokers(self) -> BrokerMap:
        return BrokerMap({}, {name: {0: "x"} for name in self.masters})

    def _go_on(self) -> None:
        for question in [each for each in self._questions if not each.is_done]:
            if question.ask.address not in self.silent:
                self._end(question, self._answer(question.ask))
            elif question.deadline <= self.now:
                self._end(question, errors.DeadlineError("no answer"))

    def _end(self, question: Question, answer: Any) -> None:
        question.is_done = True
        try:
            if isinstance(answer, errors.MqError):
                question.flow.throw(answer)
            else:
                question.flow.send(answer)
        except StopIteration as stop:
            question.value = stop.value
        except errors.MqError as error:
            question.error = error

    def _answer(self, ask: Ask) -> Any:
        if ask.address in self.down:
            return errors.ConnectionLostError("refused")
        topic: str = ask.request.topic  # type: ignore[attr-defined]  # both kinds have it
        if topic == "unknown":
            return errors.TopicUnknownError("X", ask.address, 17, "no topic")
        if isinstance(ask.request, GetRoute):
            made = [
                BrokerRoute(name, "c", {0: address}, 1, 1, self.perm)
                for name, address in self.addresses.items()
            ]
            return Route(topic, tuple(made))
        return {MessageQueue(topic, self.names[ask.address], 0): Offsets(0, 9, 0)}


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def asker(brokers: Brokers) -> Asker:
    return Asker(brokers)  # type: ignore[arg-type]  # it uses no more


def silent(asker: Asker, topics: list[str] = TOPICS) -> set[str]:
    """Ask all brokers, and return those that did not answer."""
    found = asker.ask(topics)
    assert found.keys() == set(topics)
    return {
        each.broker.broker
        for said in found.values()
        if isinstance(said, list)
        for each in said
        if isinstance(each.answer, errors.UnavailableError)
    }


def test_all_brokers_are_asked_for_all_topics(asker: Asker, brokers: Brokers) -> None:
    assert silent(asker) == set()
    assert brokers.asked == [f"{topic} {place}" for topic in TOPICS for place in ("a:1", "b:1")]


def test_a_frozen_broker_costs_one_wait_whatever_the_topics(asker: Asker, brokers: Brokers) -> None:
    brokers.silent = {"b:1"}
    assert silent(asker) == {"broker-b"}
    assert brokers.now == SECONDS


def test_a_broker_that_is_known_to_be_silent_is_not_waited_for_again(
    asker: Asker, brokers: Brokers
) -> None:
    brokers.silent = {"b:1"}
    silent(asker)
    for _ in range(5):
        assert silent(asker) == {"broker-b"}
    assert brokers.now == SECONDS


def test_a_broker_that_answers_its_probe_is_asked_as_before(asker: Asker, brokers: Brokers) -> None:
    brokers.silent = {"b:1"}
    silent(asker)
    brokers.now += 2 * SECONDS  # between two batches
    assert silent(asker) == {"broker-b"}
    brokers.silent = set()
    assert silent(asker) == set()
    assert brokers.now == 3 * SECONDS


def test_a_broker_that_runs_again_is_asked_at_once(asker: Asker, brokers: Brokers) -> None:
    brokers.down = {"b:1"}
    assert silent(asker) == silent(asker) == {"broker-b"}
    brokers.down = set()
    assert silent(asker) == set()
    assert brokers.now == 0


def test_a_broker_that_has_moved_is_asked_at_its_new_place(asker: Asker, brokers: Brokers) -> None:
    brokers.silent = {"b:1"}
    silent(asker)
    brokers.addresses["broker-b"] = "b:2"
    assert silent(asker) == set()


def list_answered(asker: Asker) -> set[str]:
    said = asker.ask(["a"])["a"]
    assert isinstance(said, list)
    return {
        queue.broker
        for each in said
        if not isinstance(each.answer, errors.MqError)
        for queue in each.answer
    }


def test_a_broker_that_routes_have_lost_is_asked_and_nobody_waits_for_it(
    asker: Asker, brokers: Brokers
) -> None:
    both = {"broker-a", "broker-b"}
    assert list_answered(asker) == both
    del brokers.addresses["broker-b"]
    brokers.silent = {"b:1"}
    assert list_answered(asker) == list_answered(asker) == {"broker-a"}
    assert brokers.now == 0
    brokers.silent = set()
    assert list_answered(asker) == list_answered(asker) == both
    brokers.stage.seconds += UNLISTED_SECONDS + 1
    assert list_answered(asker) == {"broker-a"}
    brokers.addresses["broker-b"] = "b:2"
    assert list_answered(asker) == both


def test_nobody_answers_for_a_broker_that_routes_have_lost(asker: Asker, brokers: Brokers) -> None:
    list_answered(asker)
    del brokers.addresses["broker-b"]
    brokers.names["b:1"] = "broker-c"
    for _ in range(3):
        assert list_answered(asker) == {"broker-a"}


def test_a_topic_that_no_name_server_knows_is_told_beside_the_others(asker: Asker) -> None:
    found = asker.ask(["a", "unknown"])
    assert isinstance(found["a"], list)
    assert isinstance(found["unknown"], errors.TopicUnknownError)


@pytest.mark.parametrize(
    ("perm", "masters", "expected"),
    [(READ | WRITE, set(), True), (READ, {"broker-a", "broker-b"}, True), (READ, set(), False)],
    ids=["writable", "read-only", "acting"],
)
def test_a_slave_that_acts_as_master_is_no_master(
    asker: Asker, brokers: Brokers, perm: int, masters: set[str], expected: bool
) -> None:
    """Name servers with supportActingMaster list the slave as master, with read-only topics."""
    brokers.perm, brokers.masters = perm, masters
    said = asker.ask(["a"])["a"]
    assert isinstance(said, list)
    assert [each.is_master for each in said] == [expected] * 2
    assert all(isinstance(each, BrokerReply) for each in said)
