"""How answers of brokers are read: which brokers are silent, and which queues are gone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from mq_client import errors
from mq_client.pulling import Position
from mq_client.values import (
    READ,
    WRITE,
    BrokerMap,
    BrokerRoute,
    MessageQueue,
    Offsets,
    Pulled,
    PullStatus,
    Route,
)  # fmt: skip
from spark_jobs import options, planning
from spark_jobs.asking import BrokerReply
from spark_jobs.observing import TopicObserver
from tests.scripted import Stage

A0, A1 = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
B0 = MessageQueue("orders", "broker-b", 0)
Answer = dict[MessageQueue, Offsets] | errors.MqError
SILENT = errors.DeadlineError("no answer")
UNKNOWN = errors.TopicUnknownError("GET_TOPIC_STATS_INFO", "a:1", 17, "no topic")


def held(*ends: int) -> dict[MessageQueue, Offsets]:
    """Make queues of broker-a that begin at 0 and have these ends."""
    return {MessageQueue("orders", "broker-a", n): Offsets(0, end, 0) for n, end in enumerate(ends)}


@dataclass
class Fake:
    """A cluster: which of its brokers run, what the route says, and what each broker answers."""

    answers: dict[str, Answer]
    running: tuple[str, ...] = ("broker-a", "broker-b")
    queues: int = 2
    masters: bool = True
    """Whether masters run; otherwise only slaves run."""
    perm: int = READ | WRITE
    topics: list[str] | None = None
    route_later: dict[str, Answer] | None = None
    ends: dict[MessageQueue, int | errors.MqError] = field(default_factory=dict)
    """The ends of closed queues."""

    def list_user_topics(self) -> list[str]:
        if self.topics is None:
            raise errors.NoNameServerError("none answers")
        return self.topics

    def list_brokers(self) -> BrokerMap:
        number = 0 if self.masters else 1
        return BrokerMap({}, {name: {number: "x"} for name in self.running})

    def broker(self, name: str) -> BrokerRoute:
        return BrokerRoute(name, "c", {0 if self.masters else 1: "x"}, self.queues, 2, self.perm)

    def find_route(self, topic: str, max_age: float | None = None) -> Route:
        names = self.answers if self.route_later is None else self.route_later
        if not names:
            raise UNKNOWN
        return Route(topic, tuple(map(self.broker, names)))


class Watched(TopicObserver):
    def __init__(self, cluster: Fake, **topics: str) -> None:
        given = {"nameServers": "mq:9876", **(topics or {"topics": "orders"})}
        super().__init__(cluster, options.parse_reading(given, is_stream=True))  # type: ignore[arg-type]  # it uses no more
        self.cluster = cluster

    def _ask_ends(
        self, at: Mapping[MessageQueue, str]
    ) -> Mapping[MessageQueue, int | errors.MqError]:
        return {queue: self.cluster.ends[queue] for queue in at}

    def _ask(self, topics: set[str]) -> Mapping[str, list[BrokerReply] | errors.TopicUnknownError]:
        cluster = self.cluster
        said = [
            BrokerReply(cluster.broker(name), answer, cluster.masters)
            for name, answer in cluster.answers.items()
        ]
        return dict.fromkeys(topics, said or UNKNOWN)


def test_queues_of_all_brokers_are_seen() -> None:
    answers: dict[str, Answer] = {"broker-a": held(5, 6), "broker-b": {B0: Offsets(0, 7, 0)}}
    seen = Watched(Fake(answers)).observe()
    assert {queue: ends.max for queue, ends in seen.queues.items()} == {A0: 5, A1: 6, B0: 7}
    assert seen.silent == {}


def test_only_queues_that_may_be_read_are_seen() -> None:
    seen = Watched(Fake({"broker-a": held(5, 6)}, queues=1, ends={A1: 6})).observe({A1: 3})
    assert seen.queues.keys() == {A0}
    assert seen.is_closed(A1)


@pytest.mark.parametrize(("end", "lost"), [(3, 0), (4, 1), (2, 1)], ids=["read", "more", "anew"])
def test_a_closed_queue_that_was_read_to_its_end_is_no_loss(end: int, lost: int) -> None:
    seen = Watched(Fake({"broker-a": held(5)}, ends={A1: end})).observe({A0: 5, A1: 3})
    assert len(planning.find_losses({A0: 5, A1: 3}, seen)) == lost
    assert planning.advance({A0: 5, A1: 3}, seen, {}) == {A0: 5}


def test_a_broker_that_does_not_tell_the_end_of_a_closed_queue_is_silent() -> None:
    seen = Watched(Fake({"broker-a": held(5)}, ends={A1: SILENT})).observe({A0: 5, A1: 3})
    assert seen.silent == {"broker-a": SILENT}
    assert planning.find_losses({A1: 3}, seen) == []
    assert planning.advance({A1: 3}, seen, {}) == {A1: 3}


def test_a_broker_that_does_not_answer_is_silent_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Fake({"broker-a": held(5), "broker-b": SILENT})
    watched = Watched(cluster)
    seen = watched.observe({B0: 3})
    watched.observe({B0: 3})
    assert seen.silent == {"broker-b": SILENT}
    assert not seen.is_closed(B0)
    cluster.answers = {"broker-a": held(5), "broker-b": {B0: Offsets(0, 7, 0)}}
    assert watched.observe({B0: 3}).silent == {}
    assert caplog.messages == [
        "broker-b is left out until it answers: no answer", "broker-b answers again",
    ]  # fmt: skip


def test_another_error_of_a_broker_is_an_error() -> None:
    refusal = errors.NotPermittedError("X", "a:1", 16, "no")
    with pytest.raises(errors.NotPermittedError):
        Watched(Fake({"broker-a": refusal})).observe({A0: 1})


def test_a_broker_that_left_the_route_is_silent_while_it_does_not_run() -> None:
    seen = Watched(Fake({"broker-a": held(5)}, running=("broker-a",))).observe({A0: 1, B0: 3})
    assert seen.silent.keys() == {"broker-b"}
    assert not seen.is_closed(B0)


def test_a_broker_that_runs_and_is_not_in_the_route_does_not_have_the_topic() -> None:
    seen = Watched(Fake({"broker-a": held(5)})).observe({A0: 1, B0: 3})
    assert seen.silent == {}
    assert seen.is_closed(B0)


def test_a_broker_that_came_back_in_between_is_not_taken_for_one_without_the_topic() -> None:
    later: dict[str, Answer] = {"broker-a": {}, "broker-b": {}}
    seen = Watched(Fake({"broker-a": held(5)}, route_later=later)).observe({A0: 1, B0: 3})
    assert not seen.is_closed(B0)
    assert seen.silent.keys() == {"broker-b"}


def test_a_topic_whose_brokers_are_all_away_is_not_taken_for_a_deleted_one() -> None:
    seen = Watched(Fake({}, running=())).observe({A0: 1, B0: 3})
    assert not seen.is_closed(A0)
    assert seen.silent.keys() == {"broker-a", "broker-b"}


def test_a_topic_that_no_running_broker_has_is_deleted() -> None:
    seen = Watched(Fake({})).observe({A0: 1, B0: 3})
    assert seen.is_closed(A0)
    assert seen.is_closed(B0)


def test_a_topic_that_a_broker_in_the_route_does_not_know_is_deleted_there() -> None:
    seen = Watched(Fake({"broker-a": held(5), "broker-b": UNKNOWN})).observe({A0: 1, B0: 3})
    assert (seen.is_closed(A0), seen.is_closed(B0)) == (False, True)


@pytest.mark.parametrize("answers", [{}, {"broker-a": UNKNOWN}], ids=["no route", "the broker"])
def test_a_topic_that_was_never_read_must_exist(answers: dict[str, Answer]) -> None:
    with pytest.raises(errors.TopicUnknownError):
        Watched(Fake(answers)).observe()


@pytest.mark.parametrize(
    ("answer", "start"),
    [
        (held(5, 9), {A0: 6, A1: 9}),
        ({A0: Offsets(4, 9, 0), A1: Offsets(0, 9, 0)}, {A0: 3, A1: 9}),
        ({A1: Offsets(0, 9, 0)}, {A0: 3, A1: 9}),
    ],
    ids=["it ends before", "it begins behind", "it does not know the queue"],
)
def test_what_a_slave_does_not_hold_is_left_out_and_is_no_loss(
    answer: dict[MessageQueue, Offsets], start: dict[MessageQueue, int]
) -> None:
    cluster = Fake({"broker-a": answer}, masters=False)
    seen = Watched(cluster).observe(start)
    assert seen.queues.keys() == {A1}
    assert planning.find_losses(start, seen) == []
    assert planning.advance(start, seen, {}) == start


def test_a_slave_that_does_not_know_a_topic_yet_is_no_loss() -> None:
    seen = Watched(Fake({"broker-a": UNKNOWN}, masters=False)).observe({A0: 3})
    assert seen.silent.keys() == {"broker-a"}
    assert planning.find_losses({A0: 3}, seen) == []


def test_a_slave_that_runs_and_is_not_in_the_route_is_no_loss() -> None:
    seen = Watched(Fake({}, masters=False)).observe({A0: 3})
    assert seen.silent.keys() == {"broker-a"}
    assert planning.find_losses({A0: 3}, seen) == []


def test_a_slave_that_is_not_behind_is_read() -> None:
    seen = Watched(Fake({"broker-a": held(5, 9)}, masters=False)).observe({A0: 5, A1: 2})
    assert (seen.silent, seen.queues[A1].max) == ({}, 9)
    assert seen.is_by_slave(A0)


# --- a perm without READ


def test_queues_that_may_not_be_read_now_stay_where_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Fake({"broker-a": {A0: Offsets(4, 9, 0), A1: Offsets(0, 9, 0)}}, perm=WRITE)
    watched, start = Watched(cluster), {A0: 3, A1: 5}
    watched.observe(start)
    seen = watched.observe(start)
    assert planning.find_losses(start, seen) == []
    assert planning.advance(start, seen, {}) == start
    assert planning.count_lag(start, seen) == {A0: 5, A1: 4}
    cluster.perm = READ
    seen = watched.observe(start)
    assert planning.advance(start, seen, {}) == {A0: 9, A1: 9}
    assert len(planning.find_losses(start, seen)) == 1
    first, last = caplog.messages
    assert first.startswith("orders@broker-a may not be read now: the perm")
    assert last == "orders@broker-a may be read again"


def test_a_master_that_is_behind_is_seen_for_it_lost_messages() -> None:
    assert Watched(Fake({"broker-a": held(5)})).observe({A0: 6}).queues[A0].max == 5


def test_a_pattern_finds_its_topics() -> None:
    cluster = Fake({"broker-a": held(5)}, topics=["orders", "orders-too", "my-orders"])
    assert Watched(cluster, topicPattern="orders").observe().queues.keys() == {A0}


def test_without_a_name_server_a_pattern_goes_on_with_what_it_has() -> None:
    watched = Watched(Fake({"broker-a": held(5)}), topicPattern="orders")
    assert watched.observe({A0: 3}).queues.keys() == {A0}
    with pytest.raises(errors.NoNameServerError):
        watched.observe()


# --- how large messages are


def test_a_reset_of_the_groups_offset_is_no_sample_of_its_messages() -> None:
    """The broker reports a reset once, in the answer to a pull."""
    stage = Stage()
    watched = Watched(Fake({}))
    watched._client = SimpleNamespace(directory=stage.directory)  # type: ignore[assignment]  # it uses no more
    here = Route("orders", (BrokerRoute("broker-a", "c", {0: "a:1"}, 2, 2, READ | WRITE),))
    reset = Pulled(PullStatus.OFFSET_MOVED, 90, 0, 100, 0, b"", "OFFSET_RESET")
    found = Pulled(PullStatus.FOUND, 14, 0, 100, 0, bytes(400))
    assert stage.play(watched._measure_sample(Position(A0, 10)), [here, reset, found]).value == 100
