"""Other clients that read in a group's name, and what a driver waits for."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import msgspec
import pytest

from contract.conditions import ConditionType
from contract.kinds.groups import (
    Balance,
    Consumers,
    JobRecord,
    MemberTerms,
    PopStore,
    StaticConsumer,
    TopicRef,
    WaitingSum,
)
from contract.kinds.topics import BrokerQueues, TopicStatus
from coordinator.sessions import HeldQueues
from evenkeel.control import conditions
from evenkeel.control.brokers import Brokers, ClusterAddress
from evenkeel.control.conflicts import Conflict
from evenkeel.control.groups import census, group_status
from evenkeel.control.groups.census import Census
from evenkeel.control.groups.member_slots import LiveMember
from evenkeel.control.groups.observer import (
    CENSUS_SECONDS,
    CHANGE_SECONDS,
    SOON_SECONDS,
    GroupObserver,
    GroupView,
)
from evenkeel.control.groups.pop_brokers import PreparedBrokers
from evenkeel.control.groups.surroundings import NOT_ASKED
from evenkeel.control.jobs.driver_actions import Action
from evenkeel.control.jobs.states import ABSENT, DriverSeen, DriverState, Ending, JobState
from evenkeel.control.world import World
from evenkeel.objects import ConsumerGroup, Key, Topic
from mq_client.errors import NoBrokerError
from mq_client.popping import Waiting
from mq_client.values import GroupMember, Lag, MessageQueue
from tests.job_objects import a_group, a_topic

Value = TypeVar("Value")
NOW = datetime(2026, 1, 2, tzinfo=UTC)
SILENT = NoBrokerError("broker-a has not answered")
JAVA = GroupMember("10.0.0.9@4711", "10.0.0.9:4711", "JAVA", 401)


def known() -> Topic:
    """Make a topic whose route was read."""
    found = a_topic()
    return replace(found, status=TopicStatus(brokers=[BrokerQueues("broker-a", 4, 4)]))


class ScriptedWorld:
    """A group, its topics and its driver, as the test sets them."""

    def __init__(self, group: ConsumerGroup, *topics: Topic) -> None:
        self.found = group
        self.topics = {each.head.key: each for each in topics or (known(),)}
        self.seen = ABSENT
        self.hidden: str | None = None
        self.client_ids: frozenset[str] | None = None
        self.poppers: frozenset[str] | None = None
        self.held: HeldQueues | None = None

    def find_group(self, key: Key) -> ConsumerGroup | None:
        return self.found if key == self.found.head.key else None

    def find_topic(self, key: Key) -> Topic | None:
        return self.topics.get(key)

    def explain_unseen(self, namespace: str) -> str | None:
        return self.hidden

    def list_live(self, group: ConsumerGroup) -> None:
        return None

    def find_held(self, key: Key) -> HeldQueues | None:
        return self.held

    def find_poppers(self, key: Key) -> frozenset[str] | None:
        return self.poppers

    def list_client_ids(self, key: Key) -> frozenset[str] | None:
        return self.client_ids

    def list_pods(self, group: ConsumerGroup) -> None:
        return None

    def observe_driver(self, key: Key) -> DriverSeen:
        return self.seen

    def compute_identity(self, group: ConsumerGroup) -> str:
        return "hash"

    def refuse_unless_leading(self) -> None:
        pass

    async def find_cluster(self, topic: Topic) -> ClusterAddress:
        return ClusterAddress(tuple(topic.spec.name_servers or ()))


class ScriptedBrokers:
    """Brokers whose answers the test sets; they may be silent."""

    def __init__(self) -> None:
        self.members_told: Sequence[GroupMember] | NoBrokerError = ()
        self.lags_told: list[Lag] | NoBrokerError = []
        self.waiting_told: list[dict[str, Waiting]] = []
        """An answer for each question, in turn."""
        self.oldest_told: dict[str, dict[str, int]] = {}
        """By topic and broker."""
        self.dead_letters_told: list[int] | NoBrokerError = [0]
        self.unfit: list[str] | NoBrokerError = []
        self.stores = {"broker-a": PopStore.FILES}
        self.moving: NoBrokerError | None = None
        self.moves: list[tuple[bool, bool, int]] = []
        self.least_quiet_seconds = self.quiet_seconds = 0.0

    async def fetch_lags(self, cluster: ClusterAddress, group: str, topic: str) -> list[Lag]:
        return list(told(self.lags_told))

    async def fetch_waiting(
        self, cluster: ClusterAddress, group: str, topic: str
    ) -> dict[str, Waiting]:
        if not self.waiting_told:
            raise SILENT
        return self.waiting_told.pop(0)

    async def fetch_oldest(self, cluster: ClusterAddress, group: str, topic: str) -> dict[str, int]:
        return self.oldest_told.get(topic, {})

    async def fetch_dead_letters(self, cluster: ClusterAddress, group: str) -> int:
        return told(self.dead_letters_told)[0]

    async def fetch_members(
        self, cluster: ClusterAddress, group: str, topic: str
    ) -> list[GroupMember]:
        return list(told(self.members_told))

    async def prepare_pops(
        self, cluster: ClusterAddress, group: str, topic: str, refuse: Callable[[], None]
    ) -> PreparedBrokers:
        refuse()
        return PreparedBrokers(list(told(self.unfit)), self.stores)

    async def move_positions(
        self,
        cluster: ClusterAddress,
        group: str,
        queues: Sequence[MessageQueue],
        quiet_seconds: float,
        refuse: Callable[[], None],
        *,
        had_owners: bool,
        has_owners: bool,
    ) -> bool:
        refuse()
        self.quiet_seconds = quiet_seconds
        if self.moving is not None:
            raise self.moving
        if quiet_seconds < self.least_quiet_seconds:
            return False
        self.moves.append((had_owners, has_owners, len(queues)))
        return True


def told(answer: Sequence[Value] | NoBrokerError) -> Sequence[Value]:
    if isinstance(answer, NoBrokerError):
        raise answer
    return answer


class Scene:
    """An observer of one group."""

    def __init__(self, group: ConsumerGroup, *topics: Topic) -> None:
        self.world = ScriptedWorld(group, *topics)
        self.brokers = ScriptedBrokers()
        self.observer = GroupObserver(
            cast("World", self.world), lambda: NOW, cast("Brokers", self.brokers)
        )
        self.observer.note_change(group.head.key, group)

    @property
    def group(self) -> ConsumerGroup:
        return self.world.found

    def ask(self) -> bool:
        return asyncio.run(self.observer.ask_brokers(self.group))

    def view(self) -> GroupView:
        return self.observer.view(self.group)

    def job(self) -> tuple[Action, JobState, str]:
        drive = self.view().drive
        assert drive is not None
        return drive.action, drive.job.state, drive.job.message


def assigned(**job: Any) -> ConsumerGroup:
    return a_group(status={"epoch": 1}, **job)


def test_a_first_census_that_fails_is_not_an_empty_one() -> None:
    scene = Scene(assigned())
    scene.brokers.members_told = SILENT
    assert scene.ask()
    assert not scene.observer.knows_readers(scene.group)
    assert scene.job() == (
        Action.START,
        JobState.BACKING_OFF,
        "the driver waits until all brokers have listed the readers of 'billing': "
        "broker-a has not answered",
    )
    assert scene.observer.ask_again_seconds(scene.group) == SOON_SECONDS
    assert not scene.ask(), "an equal observation is no news"
    scene.brokers.members_told = ()
    assert scene.ask()
    assert scene.observer.knows_readers(scene.group)
    assert scene.job()[1:] == (JobState.STARTING, "the driver starts")
    assert scene.observer.ask_again_seconds(scene.group) == CENSUS_SECONDS


def test_before_anybody_was_asked_the_driver_waits() -> None:
    scene = Scene(assigned())
    assert not scene.observer.knows_readers(scene.group)
    assert scene.job()[1:] == (
        JobState.STARTING,
        "the driver waits until all brokers have listed the readers of 'billing'",
    )


def test_a_driver_does_not_start_again_on_what_was_known_before_brokers_fell_silent() -> None:
    scene = Scene(assigned())
    scene.ask()
    scene.brokers.members_told = SILENT
    scene.ask()
    assert not scene.observer.knows_readers(scene.group)
    scene.world.seen = DriverSeen(DriverState.RUNNING, "hash")
    assert scene.job()[0] is Action.NOTHING, "a running driver goes on"


def test_who_reads_a_topic_that_was_not_asked_about_is_not_known() -> None:
    """Other clients may read a topic that a group gets later."""
    scene = Scene(assigned(), a_topic(), a_topic("refunds"))
    scene.ask()
    assert scene.observer.knows_readers(scene.group)
    scene.world.found = a_group(status={"epoch": 1}, topics=("orders", "refunds"))
    assert not scene.observer.knows_readers(scene.group)
    moved = a_topic(nameServers=["other:9876"])
    scene.world.found, scene.world.topics[moved.head.key] = assigned(), moved
    assert not scene.observer.knows_readers(scene.group)


def test_lag_that_cannot_be_told_keeps_no_driver_waiting() -> None:
    scene = Scene(assigned())
    scene.brokers.lags_told = SILENT
    scene.ask()
    assert scene.observer.knows_readers(scene.group)


def test_a_job_beside_others_waits_for_no_census() -> None:
    scene = Scene(assigned(allowForeignConsumers=True))
    scene.brokers.members_told = SILENT
    scene.ask()
    assert scene.observer.knows_readers(scene.group)
    assert scene.job()[1:] == (JobState.STARTING, "the driver starts")


def test_that_a_driver_has_failed_is_told_before_who_reads() -> None:
    scene = Scene(assigned())
    scene.world.seen = DriverSeen(
        DriverState.ENDED, "hash", ending=Ending(75, "2026-01-01T00:00:00Z", 5.0, "it broke")
    )
    record = JobRecord("2026-01-01T00:00:00Z", 75, 1, "hash", "it broke")
    assert scene.view().drive is not None
    assert scene.view().seen.job is not None
    assert scene.job()[2] == record.message


def test_the_driver_of_a_job_that_a_group_had_is_stopped_before_its_consumers_read() -> None:
    had = assigned()
    without = msgspec.structs.replace(
        had.spec, job=None, consumers=Consumers(static=[StaticConsumer("pod-a")])
    )
    scene = Scene(replace(had, spec=without))
    scene.world.seen = DriverSeen(DriverState.RUNNING, "hash")
    view = scene.view()
    assert view.drive is not None
    assert view.drive.action is Action.STOP
    waits = group_status.decide(scene.group, view.seen, NOW).status
    ready = conditions.find(waits.conditions, ConditionType.READY)
    assert ready is not None
    assert (ready.status.value, ready.reason) == ("False", "JobEnds")
    assert waits.epoch == 1
    assert not waits.assignments

    scene.world.seen = DriverSeen(DriverState.STOPPING, "hash")
    stopping = scene.view()
    assert stopping.drive is not None
    assert stopping.drive.action is Action.NOTHING
    assert group_status.decide(scene.group, stopping.seen, NOW).status == waits

    scene.world.seen = ABSENT
    gone = scene.view()
    assert gone.drive is None
    done = group_status.decide(scene.group, gone.seen, NOW).status
    assert [each.consumer for each in done.assignments] == ["pod-a"]


def driver(created: str, uid: str, host: str = "billing-driver") -> GroupMember:
    return GroupMember(f"evenkeel-billing@{host}#{created}/{uid}", "10.0.0.7:1", "PYTHON", 1)


def made(created: str, **job: Any) -> ConsumerGroup:
    found = assigned(**job)
    return replace(found, head=replace(found.head, created=created))


def find_conflict(group: ConsumerGroup, *members: GroupMember, has_driver: bool) -> Conflict | None:
    return census.find_conflict(
        group, Census(members=members), has_driver=has_driver, client_ids=None
    )


def test_the_groups_own_driver_is_known_by_the_object_it_runs_for() -> None:
    group = made("2026-01-01T00:00:00Z")
    ours = driver("2026-01-01T00:00:00Z", "1234")
    assert find_conflict(group, ours, has_driver=True) is None


@pytest.mark.parametrize(
    ("other", "stops"),
    [
        (driver("2025-12-31T00:00:00Z", "5678"), True),
        (driver("2026-01-01T00:00:00Z", "0999"), True),
        (driver("2026-01-01T00:00:00Z", "5678"), False),
        (driver("2026-01-02T00:00:00Z", "5678"), False),
        (GroupMember("evenkeel-billing@billing-driver", "10.0.0.7:1", "PYTHON", 1), False),
    ],
    ids=["older", "as old, the lower uid", "as old, the higher uid", "younger", "says nothing"],
)
@pytest.mark.parametrize("allows", [False, True])
def test_another_objects_driver_is_a_conflict_and_the_younger_one_stops(
    other: GroupMember, stops: bool, allows: bool
) -> None:
    group = made("2026-01-01T00:00:00Z", allowForeignConsumers=allows)
    ours = driver("2026-01-01T00:00:00Z", "1234")
    found = find_conflict(group, ours, other, has_driver=True)
    assert found is not None
    assert found.reason == "OtherDriver"
    assert found.stops is stops
    assert f"{other.client_id} at 10.0.0.7:1 read as 'billing'" in found.message
    assert group_status.is_wanted(group, found) is not stops


def test_a_driver_of_an_earlier_version_is_the_groups_own_if_it_has_one() -> None:
    bare = GroupMember("evenkeel-billing@billing-driver", "10.0.0.7:1", "PYTHON", 1)
    assert find_conflict(assigned(), bare, has_driver=True) is None
    found = find_conflict(assigned(), bare, has_driver=False)
    assert found is not None
    assert (found.reason, found.stops) == ("OtherDriver", False)


def test_clients_that_are_not_evenkeels_are_foreign_unless_allowed() -> None:
    found = census.find_conflict(
        assigned(), Census(members=(JAVA,)), has_driver=False, client_ids=None
    )
    assert found is not None
    assert (found.reason, found.stops) == ("ForeignConsumers", False)
    allowed = assigned(allowForeignConsumers=True)
    assert find_conflict(allowed, JAVA, has_driver=False) is None


def of_members() -> ConsumerGroup:
    found = assigned()
    consumers = Consumers(members=MemberTerms())
    return replace(found, spec=msgspec.structs.replace(found.spec, job=None, consumers=consumers))


def test_clients_that_are_not_members_are_foreign_and_members_read_on() -> None:
    scene = Scene(of_members())
    other = replace(JAVA, client_id="10.0.0.8@1")
    scene.brokers.members_told = (JAVA, other)
    assert scene.ask()
    assert scene.view().seen.conflict is None  # it is not known yet which clients are members
    scene.world.client_ids = frozenset([JAVA.client_id, "of one that the brokers do not list"])
    seen = scene.view().seen
    assert seen.conflict is not None
    assert (seen.conflict.reason, seen.conflict.stops) == ("ForeignConsumers", False)
    assert "10.0.0.8@1 at 10.0.0.9:4711 also read as 'billing'" in seen.conflict.message
    assert JAVA.client_id not in seen.conflict.message
    assert scene.observer.ask_again_seconds(scene.group) == SOON_SECONDS
    live = replace(seen, live=[LiveMember("a", NOW)])
    status = group_status.decide(scene.group, live, NOW).status
    assert [each.pod for each in status.assignments if each.queues] == ["a"]
    ready = conditions.find(status.conditions, ConditionType.READY)
    assert ready is not None
    assert ready.reason == "ForeignConsumers"


def test_in_a_group_by_message_other_clients_are_reported_because_they_may_pull() -> None:
    scene = Scene(by_message(of_members()))
    scene.world.client_ids = frozenset()
    scene.brokers.members_told = (JAVA,)
    scene.ask()
    conflict = scene.view().seen.conflict
    assert conflict is not None
    assert (conflict.reason, conflict.stops) == ("ForeignConsumers", False)
    assert "if they pull, messages are read twice" in conflict.message


def test_the_brokers_of_a_group_by_message_are_prepared_with_each_census() -> None:
    scene = Scene(by_message(of_members()))
    scene.world.client_ids = frozenset()
    assert scene.view().seen.pop_trouble == NOT_ASKED
    scene.brokers.unfit = NoBrokerError("all brokers are away")
    assert scene.ask()
    assert _explain(scene) == "the brokers cannot be prepared: all brokers are away"
    assert scene.observer.ask_again_seconds(scene.group) == SOON_SECONDS
    scene.brokers.unfit = ["broker-b: away", "broker-a: no pops"]
    assert scene.ask()
    assert _explain(scene) == "broker-a: no pops; broker-b: away"
    assert scene.view().seen.stores == {"broker-a": PopStore.FILES}
    scene.brokers.stores = {"broker-b": PopStore.ROCKSDB}
    scene.ask()
    assert scene.view().seen.stores == {"broker-a": PopStore.FILES, "broker-b": PopStore.ROCKSDB}
    scene.brokers.unfit = []
    assert scene.ask()
    assert scene.view().seen.stores == {"broker-b": PopStore.ROCKSDB}
    assert scene.view().seen.pop_trouble is None
    assert scene.observer.ask_again_seconds(scene.group) == CENSUS_SECONDS
    assert not scene.ask()


def test_what_waits_for_a_group_by_message_is_summed_over_its_topics() -> None:
    found = by_message(of_members())
    both = msgspec.structs.replace(found.spec, topics=[TopicRef("orders"), TopicRef("returns")])
    scene = Scene(replace(found, spec=both), a_topic("orders"), a_topic("returns"))
    scene.brokers.waiting_told = [
        {"broker-a": Waiting(5, 1, 2), "broker-b": Waiting(7, 0, 0)},
        {"broker-a": Waiting(10, 20, 30)},
    ]
    scene.brokers.oldest_told = {
        "orders": {"broker-a": 1_790_000_060_000, "broker-b": 1_790_000_030_000},
        "returns": {"broker-a": 1_790_000_000_999},
    }
    for _ in ("brokers answer", "brokers are silent, and what they said before stays"):
        scene.ask()
        seen = scene.view().seen
        waiting = WaitingSum(22, 21, 32, oldest="2026-09-21T14:13:20Z")
        assert (seen.lag, seen.waiting) == (43, waiting)
        found_now = scene.observer.censuses[scene.group.head.key]
        assert found_now.waiting_at["broker-a"] == Waiting(15, 21, 32)
        assert found_now.oldest_ms_at["broker-a"] == 1_790_000_000_999


def test_dead_letters_are_counted_without_a_job_and_stay_while_brokers_are_silent() -> None:
    scene = Scene(of_members(), a_topic("orders"))
    for told, counted in (([0], 0), ([3], 3), (SILENT, 3)):
        scene.brokers.dead_letters_told = told
        scene.ask()
        assert scene.view().seen.dead_letters == counted
    job = Scene(assigned(), a_topic("orders"))
    job.ask()
    assert job.view().seen.dead_letters is None


def changing_to_queues(generation: int) -> ConsumerGroup:
    """Make a group whose members must stop popping, and nobody reads."""
    found = by_message(of_members())
    by_queue = msgspec.structs.replace(found.spec, balance=Balance.QUEUES)
    return replace(found, spec=by_queue, head=replace(found.head, generation=generation))


def test_positions_are_moved_once_for_each_change_and_only_while_nobody_pops() -> None:
    scene = Scene(changing_to_queues(1), known())
    scene.world.held = HeldQueues()
    for poppers in (None, frozenset("a")):
        scene.world.poppers = poppers
        assert not scene.ask()
        assert not scene.view().seen.are_positions_ready
    assert not scene.brokers.moves
    assert scene.observer.ask_again_seconds(scene.group) == CHANGE_SECONDS
    scene.world.poppers = frozenset()
    scene.brokers.moving = NoBrokerError("broker-b is away")
    assert scene.ask()
    assert scene.view().seen.positions_trouble == (
        "the positions at the brokers cannot be moved: broker-b is away"
    )
    assert not scene.ask(), "an equal observation is no news"
    scene.brokers.moving = None
    assert scene.ask()
    seen = scene.view().seen
    assert (seen.are_positions_ready, seen.positions_trouble) == (True, None)
    scene.ask()
    assert scene.brokers.moves == [(False, True, 4)]
    scene.world.held = HeldQueues(granted_queues=1)
    scene.ask()
    assert not scene.view().seen.are_positions_ready, "somebody has read since then"
    scene.world.held = HeldQueues()
    scene.ask()
    assert scene.view().seen.are_positions_ready
    scene.world.found = changing_to_queues(2)
    assert not scene.view().seen.are_positions_ready
    scene.brokers.moves.clear()
    scene.ask()
    assert scene.brokers.moves, "another change needs another move"


def test_brokers_are_asked_again_only_when_their_pulls_have_ended() -> None:
    scene = Scene(changing_to_queues(1), known())
    scene.world.held, scene.world.poppers = HeldQueues(), frozenset()
    scene.brokers.least_quiet_seconds = 600.0
    assert scene.ask()
    assert "pulls that wait for a message" in (scene.view().seen.positions_trouble or "")
    scene.brokers.least_quiet_seconds = 0.0
    assert not scene.ask()
    assert not scene.brokers.moves, "it is too early"


def test_each_change_waits_anew_for_pulls_at_the_brokers() -> None:
    scene = Scene(changing_to_queues(1), known())
    scene.world.held, scene.world.poppers = HeldQueues(), frozenset()
    scene.ask()
    scene.observer.note_change(scene.group.head.key, of_members())  # the change is done
    scene.world.found = changing_to_queues(2)
    began = time.monotonic()
    scene.observer.note_change(scene.group.head.key, scene.group)
    scene.ask()
    assert len(scene.brokers.moves) == 2
    assert scene.brokers.quiet_seconds <= time.monotonic() - began


def test_retries_are_counted_beside_the_lag_of_queues_while_there_may_be_leftovers() -> None:
    found = of_members()
    left = msgspec.structs.replace(found.status, leftovers=True)
    scene = Scene(replace(found, status=left), a_topic("orders"))
    queue = MessageQueue("orders", "broker-a", 0)
    scene.brokers.lags_told = [Lag(queue, 10, 4, 0)]
    scene.brokers.waiting_told = [{"broker-a": Waiting(6, 3, 0)}]
    scene.ask()
    seen = scene.view().seen
    assert (seen.lag, seen.waiting) == (9, WaitingSum(0, 3, 0))


def by_message(found: ConsumerGroup) -> ConsumerGroup:
    """Balance a group by message, and let its members pop."""
    return replace(
        found,
        spec=msgspec.structs.replace(found.spec, balance=Balance.MESSAGES),
        status=msgspec.structs.replace(found.status, balance=Balance.MESSAGES),
    )


def _explain(scene: Scene) -> str:
    return scene.view().seen.pop_trouble or ""


def test_a_group_whose_pods_may_not_be_listed_stays_as_it_is_and_nothing_is_started() -> None:
    scene = Scene(assigned())
    assert scene.ask()
    scene.world.hidden = "the operator may not list the pods of namespace team: no right"
    view = scene.observer.view(scene.group)
    assert view.drive is None
    decision = group_status.decide(scene.group, view.seen, NOW)
    assert decision.status.assignments == scene.group.status.assignments
    assert decision.status.epoch == scene.group.status.epoch
    ready, _, job = decision.status.conditions
    assert (ready.reason, job.type, job.status.value) == (
        "NamespaceForbidden", "JobRunning", "Unknown",
    )  # fmt: skip
    assert scene.world.hidden in ready.message
