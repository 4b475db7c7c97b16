"""The next step when a topic is created or resized."""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from evenkeel.control.provisioning import closing_queues, conversation, steps
from evenkeel.control.provisioning.closing_queues import QUIET_SECONDS, Quiet
from evenkeel.control.provisioning.conversation import TopicWish
from evenkeel.control.provisioning.steps import QueueCounts, StepOutcome, TopicStep
from evenkeel.control.provisioning.topic_settings import GetSettings, PutSettings, Settings
from evenkeel.control.topics.topic_status import SOON_SECONDS
from evenkeel.errors import EvenkeelError
from mq_client import errors
from mq_client.commands.base import Request
from mq_client.commands.cluster import GetCluster
from mq_client.commands.membership import GetReaders
from mq_client.commands.offsets import GetOffset, GetTopicOffsets
from mq_client.directory import Directory
from mq_client.flows import Ask, AskAll, Flow
from mq_client.frames import Frame
from mq_client.machine import Machine
from mq_client.values import BrokerMap, MessageQueue, Offsets

BOTH, READ, INHERITED = 6, 4, 1
A, B = "broker-a", "broker-b"


def counts(read: int, write: int | None = None, perm: int = BOTH) -> QueueCounts:
    return QueueCounts(read, read if write is None else write, perm)


def queue(number: int, broker: str = A) -> MessageQueue:
    return MessageQueue("orders", broker, number)


def test_a_missing_topic_is_made_on_all_brokers() -> None:
    step = steps.plan_step(counts(4), {A: None, B: None}, {})
    assert step == TopicStep({A: counts(4), B: counts(4)}, made=(A, B))


def test_a_new_broker_gets_the_topic_and_the_others_are_left_alone() -> None:
    step = steps.plan_step(counts(4), {A: counts(4), B: None}, {})
    assert step.puts == {B: counts(4)}


def test_as_asked_there_is_nothing_to_do() -> None:
    assert steps.plan_step(counts(4), {A: counts(4)}, {}) == TopicStep()


def test_more_queues_come_at_once() -> None:
    step = steps.plan_step(counts(8, 6), {A: counts(4)}, {})
    assert step == TopicStep({A: counts(8, 6)})


def test_of_fewer_queues_writing_ends_first() -> None:
    drained = {A: {2, 3}}  # a group has read them, but producers could still write to them
    step = steps.plan_step(counts(2), {A: counts(4)}, drained)
    assert step == TopicStep({A: counts(4, 2)}, closing={A: range(2, 4)})


def test_queues_that_are_not_all_drained_stay_readable() -> None:
    step = steps.plan_step(counts(2), {A: counts(4, 2)}, {A: {3}})
    assert step == TopicStep(closing={A: range(2, 4)})


def test_reading_ends_when_all_is_drained_on_that_broker() -> None:
    route = {A: counts(4, 2), B: counts(4, 2)}
    step = steps.plan_step(counts(2), route, {A: {2, 3}})
    assert step.puts == {A: counts(2)}


def test_fewer_writable_queues_alone_need_no_draining() -> None:
    assert steps.plan_step(counts(4, 2), {A: counts(4)}, {}) == TopicStep({A: counts(4, 2)})


def test_perm_changes_at_once_and_other_bits_of_it_stay() -> None:
    there = {A: counts(4, perm=BOTH | INHERITED)}
    step = steps.plan_step(counts(4, perm=READ), there, {})
    assert step.puts == {A: counts(4, perm=READ | INHERITED)}


# Which queues are drained.


ALL_QUIET = {queue(2), queue(3)}


def drained(held: Offsets, *committed: int | None) -> bool:
    """Whether queue 3 is drained if groups have read up to these offsets."""
    offsets = {queue(3): held}
    asked = closing_queues.list_filled(offsets)
    told = {(f"group-{n}", each): mark for each in asked for n, mark in enumerate(committed)}
    return closing_queues.measure_drain(offsets, told, ALL_QUIET).drained == {A: {3}}


@pytest.mark.parametrize(
    ("held", "committed", "is_drained"),
    [
        (Offsets(0, 9, 0), [9], True),
        (Offsets(0, 9, 0), [10], True),
        (Offsets(0, 9, 0), [8], False),
        (Offsets(0, 9, 0), [9, 8], False),
        (Offsets(0, 9, 0), [], True),
        (Offsets(0, 9, 0), [None], False),
        (Offsets(0, 0, 0), [None], True),
        (Offsets(9, 9, 0), [5], True),
        (Offsets(5, 9, 0), [3], False),
    ],
    ids=[
        "read to the end", "told to skip beyond it", "one message is left", "one group is behind",
        "nobody reads it", "never committed and it holds messages", "never committed and empty",
        "what was not read has expired", "some of what was not read has expired",
    ],
)  # fmt: skip
def test_a_queue_is_drained_when_every_group_has_read_what_it_holds(
    held: Offsets, committed: list[int | None], is_drained: bool
) -> None:
    assert drained(held, *committed) is is_drained


def test_groups_that_are_behind_are_named_with_their_queues() -> None:
    offsets = {queue(n): Offsets(0, 9, 0) for n in (4, 5, 6)}
    told = {("billing", queue(4)): 9, ("billing", queue(5)): 3, ("billing", queue(6)): None}
    found = closing_queues.measure_drain(offsets, told, set(offsets))
    assert found.drained == {A: {4}}
    assert found.waits == ("billing has not read all of orders@broker-a 5-6",)


def test_a_queue_that_was_written_to_just_now_is_not_drained() -> None:
    quiet = Quiet()
    assert quiet.note({queue(2): 7, queue(3): 0}, 0.0) == set()
    assert quiet.note({queue(2): 8, queue(3): 0}, QUIET_SECONDS - 1) == set()
    assert quiet.note({queue(2): 8, queue(3): 0}, QUIET_SECONDS) == {queue(3)}
    found = closing_queues.measure_drain({queue(2): Offsets(0, 0, 0)}, {}, {queue(3)})
    assert found.drained == {}
    assert "producers may write to orders@broker-a 2" in found.waits[0]


def test_a_queue_that_was_open_meanwhile_is_watched_anew() -> None:
    quiet = Quiet()
    quiet.note({queue(3): 0}, 0.0)
    quiet.note({}, 10.0)
    assert quiet.note({queue(3): 0}, QUIET_SECONDS) == set()


# The changes that are written to a broker.


def test_what_else_a_broker_keeps_of_a_topic_stays() -> None:
    told = {
        "topicName": "orders", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
        "topicFilterType": "MULTI_TAG", "topicSysFlag": 1, "order": True,
        "attributes": {"message.type": "FIFO"},
    }  # fmt: skip
    old = GetSettings("orders").read(Frame(0, 1, body=json.dumps(told).encode()))
    assert old == Settings(counts(4), told)
    (sent,) = json.loads(PutSettings("orders", counts(8), old).encode_body())["topicConfigList"]
    # No attribute is changed.
    changes = {"readQueueNums": 8, "writeQueueNums": 8, "attributes": {}}
    assert sent == told | changes


def test_a_broker_without_the_topic_has_no_settings() -> None:
    request = GetSettings("orders")
    assert 17 in request.good_codes
    assert request.read(Frame(17, 1)) is None


# Steps with scripted brokers.


@dataclass
class Played:
    """A broker: its topics and offsets, and whether it answers."""

    counts: QueueCounts | None
    ends: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    fails: Mapping[type, errors.MqError] = field(default_factory=dict)
    """The error of each kind of request that fails."""

    def answer(self, request: Request[Any]) -> object:
        if type(request) in self.fails:
            return self.fails[type(request)]
        match request:
            case GetSettings():
                return Settings(self.counts) if self.counts else None
            case PutSettings():
                self.counts = request.counts
                return None
            case GetReaders():
                return sorted({group for group, _ in self.committed})
            case GetOffset():
                key = request.group, request.queue_id
                missing = errors.OffsetUnknownError("", "", 22, "")
                return self.committed.get(key, missing)
            case _:
                raise AssertionError(request)

    def offsets(self, name: str) -> dict[MessageQueue, Offsets]:
        assert self.counts
        number = max(self.counts.read_queues, self.counts.write_queues)
        return {queue(n, name): Offsets(0, self.ends[n], 0) for n in range(number)}


class Brokers:
    """A scripted name server and brokers."""

    def __init__(self, **brokers: Played) -> None:
        self.brokers = {f"broker-{name}": broker for name, broker in brokers.items()}
        self.slaves_only: set[str] = set()
        self.seconds = 0.0
        machine = Machine(lambda: self.seconds, lambda: 0, lambda: "KEY")
        self.directory = Directory("ns:1", machine)
        self.quiet = Quiet()
        self.readers = ["billing"]
        self.before_a_write: Callable[[], None] = lambda: None
        self.refuse: Callable[[], None] = lambda: None

    def step(self, goal: QueueCounts) -> StepOutcome:
        task = TopicWish("orders", goal, lambda: self.readers, self.quiet, self.refuse)
        return self._played(conversation.take_step(self.directory, task))

    def _played(self, flow: Flow[StepOutcome]) -> StepOutcome:
        outcome: Any = None
        while True:
            try:
                asked = flow.send(outcome)
            except StopIteration as stop:
                found: StepOutcome = stop.value
                return found
            if isinstance(asked, AskAll):
                outcome = [self._answer(each) for each in asked.asks]
            else:
                assert isinstance(asked, Ask)
                outcome = self._answer(asked)

    def _answer(self, ask: Ask) -> object:
        if isinstance(ask.request, GetCluster):
            return BrokerMap(
                {}, {name: {name in self.slaves_only: f"{name}:1"} for name in self.brokers}
            )
        name = ask.address.partition(":")[0]
        broker = self.brokers[name]
        if isinstance(ask.request, PutSettings):
            self.before_a_write()
        if isinstance(ask.request, GetTopicOffsets) and GetTopicOffsets not in broker.fails:
            return broker.offsets(name)
        return broker.answer(ask.request)


AWAY = errors.ConnectionLostError("refused")
REFUSED = errors.NotPermittedError("PUT", "a:1", 16, "no right to change topics")


def test_a_topic_is_made_and_then_nothing_is_left_to_do() -> None:
    brokers = Brokers(a=Played(None), b=Played(counts(2)))
    assert brokers.step(counts(4)).step.puts.keys() == {A, B}
    again = brokers.step(counts(4))
    assert again == StepOutcome(TopicStep(), (A, B))
    assert not again.is_under_way


def test_brokers_are_told_nothing_by_who_leads_no_more() -> None:
    """The brokers would accept changes from any process."""

    def refuse() -> None:
        raise EvenkeelError("this process is no longer the leader")

    brokers = Brokers(a=Played(None), b=Played(counts(4)))
    brokers.refuse = refuse
    with pytest.raises(EvenkeelError, match="no longer the leader"):
        brokers.step(counts(4))
    assert brokers.brokers[A].counts is None
    brokers.brokers[A].counts = counts(4)
    # There is nothing to do, so no broker is asked.
    assert brokers.step(counts(4)).step == TopicStep()


def test_a_broker_out_of_reach_leaves_the_others_alone() -> None:
    brokers = Brokers(a=Played(None), b=Played(None, fails={GetSettings: AWAY}))
    outcome = brokers.step(counts(4))
    assert brokers.brokers[A].counts == counts(4)
    assert outcome.failed == {B: AWAY}


def test_a_broker_without_a_master_is_out_of_reach() -> None:
    brokers = Brokers(a=Played(None), b=Played(None))
    brokers.slaves_only = {B}
    outcome = brokers.step(counts(4))
    assert brokers.brokers[A].counts == counts(4)
    assert isinstance(outcome.failed[B], errors.NoBrokerError)


def test_a_cluster_without_brokers_is_no_cluster_that_is_as_asked() -> None:
    with pytest.raises(errors.NoBrokerError):
        Brokers().step(counts(4))


@pytest.mark.parametrize("request_type", [GetTopicOffsets, GetOffset, GetReaders])
def test_what_a_broker_does_not_tell_is_not_drained(request_type: type) -> None:
    silent = Played(counts(4, 2), defaultdict(int, {3: 1}), fails={request_type: AWAY})
    brokers = Brokers(a=silent, b=Played(counts(4, 2)))
    brokers.step(counts(2))
    brokers.seconds += QUIET_SECONDS
    outcome = brokers.step(counts(2))
    assert outcome.step.puts == {B: counts(2)}
    assert silent.counts == counts(4, 2)
    assert outcome.failed == {A: AWAY}


def test_a_broker_that_has_failed_is_told_nothing_more() -> None:
    failing = Played(counts(4, 2), fails={GetTopicOffsets: AWAY})
    Brokers(a=failing).step(counts(2, perm=READ))
    assert failing.counts == counts(4, 2)


def test_a_broker_that_refuses_again_and_again_is_not_under_way() -> None:
    brokers = Brokers(a=Played(None, fails={PutSettings: REFUSED}))
    outcome = brokers.step(counts(4))
    assert outcome.failed == {A: REFUSED}
    assert not outcome.is_under_way


def test_lowering_waits_for_the_last_message_and_for_producers() -> None:
    broker = Played(counts(4), defaultdict(int, {3: 5}), {("billing", 3): 4})
    brokers = Brokers(a=broker)
    brokers.step(counts(2))
    assert broker.counts == counts(4, 2)
    brokers.step(counts(2))
    brokers.seconds += QUIET_SECONDS
    behind = brokers.step(counts(2))
    assert broker.counts == counts(4, 2)
    assert behind.waits == ("billing has not read all of orders@broker-a 3",)
    broker.committed["billing", 3] = 5
    brokers.step(counts(2))
    assert broker.counts == counts(2)
    assert brokers.step(counts(2)) == StepOutcome(TopicStep(), (A,))


def test_lowering_waits_for_groups_that_only_the_brokers_know() -> None:
    """Each group is looked up on all brokers, although it has committed only on one."""
    read = Played(counts(4, 2), defaultdict(int, {3: 5}), {("of-java", 3): 5})
    unread = Played(counts(4, 2), defaultdict(int, {3: 5}))
    brokers = Brokers(a=read, b=unread)
    brokers.readers = []
    brokers.step(counts(2))
    brokers.seconds += QUIET_SECONDS
    behind = brokers.step(counts(2))
    assert (read.counts, unread.counts) == (counts(2), counts(4, 2))
    assert behind.waits == ("of-java has not read all of orders@broker-b 3",)
    unread.committed["of-java", 3] = 5
    brokers.step(counts(2))
    assert unread.counts == counts(2)


class Traffic:
    """Producers whose routes can be outdated, and groups that read at any time."""

    def __init__(self, brokers: Brokers, rng: random.Random) -> None:
        self.brokers, self.rng = brokers, rng
        self.known = [self._route() for _ in range(2)]
        self.asked = [0.0, 0.0]

    def _route(self) -> dict[str, int]:
        found = self.brokers.brokers.items()
        return {name: each.counts.write_queues for name, each in found if each.counts}

    def flow(self) -> None:
        self.send()
        self.read(lambda: self.rng.random() < 0.3)

    def send(self) -> None:
        for number in range(2):
            if self.brokers.seconds - self.asked[number] >= closing_queues.ROUTE_AGE_SECONDS:
                self.known[number], self.asked[number] = self._route(), self.brokers.seconds
            for name, writable in self.known[number].items():
                if self.rng.random() < 0.3:
                    self._send(self.brokers.brokers[name], self.rng.randrange(writable))

    def _send(self, broker: Played, number: int) -> None:
        there = broker.counts
        assert there
        # A broker refuses other queues; producers renew their routes often enough to avoid that.
        assert number < max(there.read_queues, there.write_queues)
        broker.ends[number] += 1

    def read(self, does: Callable[[], bool]) -> None:
        for broker in self.brokers.brokers.values():
            for number in range(broker.counts.read_queues if broker.counts else 0):
                for group in self.brokers.readers:
                    if does():
                        broker.committed[group, number] = broker.ends[number]

    def lost(self) -> list[str]:
        """List the queues with messages that some group has not read and cannot read any more."""
        return [
            f"{name} {number} of {broker.counts}"
            for name, broker in self.brokers.brokers.items()
            for number, end in broker.ends.items()
            for group in self.brokers.readers
            if broker.counts and number >= broker.counts.read_queues
            if broker.committed.get((group, number), 0) < end
        ]


def test_whatever_happens_no_message_is_left_in_a_closed_queue(seed: int) -> None:
    """Goals change, brokers go and come, groups lag; at the end everything is as requested."""
    for number in range(60):
        rng = random.Random(seed + number)
        had = rng.choice([None, counts(rng.randint(1, 6))])
        brokers = Brokers(a=Played(had), b=Played(counts(rng.randint(1, 6))), c=Played(None))
        brokers.readers = ["billing", "audit"][: rng.randint(0, 2)]
        traffic = Traffic(brokers, rng)
        brokers.before_a_write = traffic.send
        goal = counts(4)
        for _ in range(80):
            if rng.random() < 0.05:
                goal = counts(rng.randint(3, 6), rng.randint(1, 3))
            for broker in brokers.brokers.values():
                broker.fails = {}
                if rng.random() < 0.1:
                    asked = rng.choice(
                        [GetSettings, GetTopicOffsets, GetOffset, GetReaders, PutSettings]
                    )
                    broker.fails = {asked: AWAY}
            traffic.flow()
            brokers.step(goal)
            assert traffic.lost() == [], f"case {number} of seed {seed}"
            brokers.seconds += rng.choice([SOON_SECONDS, SOON_SECONDS, 30.0])
        for broker in brokers.brokers.values():
            broker.fails = {}
        brokers.step(goal)
        traffic.read(lambda: True)
        looks = 0
        while brokers.step(goal).is_under_way:
            brokers.seconds += SOON_SECONDS
            looks += 1
            assert looks <= QUIET_SECONDS / SOON_SECONDS + 2, f"case {number} of seed {seed}"
        assert {each.counts for each in brokers.brokers.values()} == {goal}
