"""
The control loop observes an object and its surroundings, decides, publishes, and repeats.

A group is reconciled when the group, one of its topics or its job's report has changed, and at
least once per `rebalance.interval`. A topic is reconciled once per `refreshInterval`. All important
state is in the objects, so the process can be restarted at any time.
"""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from contract.kinds.topics import Provision, TopicSpec
from evenkeel import planning, times
from evenkeel.control import rivals
from evenkeel.control.brokers import Brokers
from evenkeel.control.conflicts import Conflict
from evenkeel.control.groups import group_status
from evenkeel.control.groups.census import Census
from evenkeel.control.groups.move_counts import MoveCounts
from evenkeel.control.groups.observer import (
    CENSUS_SECONDS,
    SOON_SECONDS,
    Clock,
    GroupObserver,
    GroupView,
)
from evenkeel.control.jobs.driver_actions import Action
from evenkeel.control.provisioning import steps
from evenkeel.control.provisioning.closing_queues import Quiet
from evenkeel.control.provisioning.conversation import TopicWish
from evenkeel.control.rivals import Rivals
from evenkeel.control.topics import topic_keys, topic_status
from evenkeel.control.topics.topic_status import ReadFailure, Sight
from evenkeel.control.topics.topic_users import TopicUsers
from evenkeel.control.work_queue import WorkPace, WorkQueue
from evenkeel.control.world import World
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup, Key, Topic
from evenkeel.planning import NotReadyError

MOST_DEBOUNCE_SECONDS = 2.0
MEMBERS_SECONDS = 0.2
"""
Delay between a change of a group's sessions and the reconcile of the group.

A member that joins causes several changes in a row: its session begins, other members release
queues, and the new member holds these queues. With the delay, these changes cost one write of the
status, not three.
"""
LEAST_SECONDS = 0.1
"""Minimum time between two reconciles without a change."""
WAITING = WorkPace(limit_seconds=90.0, at_once=256)
"""
The pace of work that waits for RocketMQ. `at_once` is high, so that a slow cluster does not delay
other clusters. The limit is longer than a move of positions and all questions around it take.
"""


def _read_clock() -> datetime:
    return datetime.now(UTC)


def _shorten(seconds: float) -> float:
    """Shorten an interval at random, so that objects are not all reconciled at the same time."""
    return max(seconds, LEAST_SECONDS) * random.uniform(0.8, 1.0)  # noqa: S311 nothing secret


def _choose_interval(group: ConsumerGroup) -> float:
    return _shorten(times.parse_duration(group.spec.rebalance.interval))


@dataclass(slots=True)
class _TopicNotes:
    """What the loop remembers about one topic."""

    spec: TopicSpec
    """The last spec. If only the status changes, no reconcile is needed."""
    quiet: Quiet = field(default_factory=Quiet)
    """For how long the closing queues have received no messages."""


class Loop:
    """Reconciles all topics and groups of a world."""

    def __init__(self, world: World, clock: Clock = _read_clock) -> None:
        """Begin without any objects. The world reports them later."""
        self._world = world
        self._clock = clock
        self._brokers = Brokers()
        self._observer = GroupObserver(world, clock, self._brokers)
        self._topics: WorkQueue[Key] = WorkQueue(self._reconcile_topic, WAITING)
        self._groups: WorkQueue[Key] = WorkQueue(self._reconcile_group, rests=self._find_rest)
        self._censuses: WorkQueue[Key] = WorkQueue(self._ask_brokers, WAITING)
        self._rival_topics: Rivals[Topic] = Rivals(rivals.build_topic_claim)
        self.moved = MoveCounts()
        self._topic_notes: dict[Key, _TopicNotes] = {}
        self._settled: dict[Key, GroupView] = {}
        """The last view of each group that needs no action until something changes."""
        self._users = TopicUsers()

    def topic_changed(self, key: Key) -> None:
        """Note that a topic was created, changed or deleted."""
        topic = self._world.find_topic(key)
        for other in self._rival_topics.note_change(key, topic):
            self._topics.touch(other)
        known = self._topic_notes.get(key)
        if topic is None:
            self._topics.forget(key)
            self._topic_notes.pop(key, None)
        elif known is None:
            self._topic_notes[key] = _TopicNotes(topic.spec)
            self._topics.touch(key)
        elif (
            known.spec != topic.spec
        ):  # otherwise only the status has changed, because this loop has written it
            known.spec = topic.spec
            self._topics.touch(key)
        for user in self._users.list_groups(key):
            self.group_changed(user)

    def group_changed(self, key: Key) -> None:
        """Note that a group, its driver or one of its pods was created, changed or deleted."""
        group = self._world.find_group(key)
        self._users.note(key, group.topic_keys if group else ())
        for other in self._observer.note_change(key, group):
            self._touch_group(other)
        if group is None:
            self._groups.forget(key)
            self._censuses.forget(key)
            self._settled.pop(key, None)
            return
        self._touch_group(key)
        is_known = self._observer.knows_readers(group)
        self._censuses.touch(key, _shorten(CENSUS_SECONDS if is_known else SOON_SECONDS))
        self._touch_census_of_change(group)

    def note_members_change(self, key: Key) -> None:
        """Note that members of a group joined or left, or hold other queues."""
        self._touch_group(key, MEMBERS_SECONDS)
        group = self._world.find_group(key)
        if group is not None:
            self._touch_census_of_change(group)

    def _touch_census_of_change(self, group: ConsumerGroup) -> None:
        """Look at once whether positions can be moved, if the balance of a group changes."""
        if planning.is_changing_balance(group):
            self._censuses.touch(group.head.key, LEAST_SECONDS)

    @property
    def queues(self) -> dict[str, WorkQueue[Key]]:
        """The work queues by kind."""
        return {"Topic": self._topics, "ConsumerGroup": self._groups, "census": self._censuses}

    @property
    def name_server_requests(self) -> Mapping[str, int]:
        """The number of route requests by outcome."""
        return self._brokers.requests

    @property
    def censuses(self) -> Mapping[Key, Census]:
        """What brokers last reported about each group."""
        return self._observer.censuses

    async def close(self) -> None:
        """Finish the work in progress."""
        await asyncio.gather(self._topics.close(), self._groups.close(), self._censuses.close())
        await self._brokers.close()

    def _touch_group(self, key: Key, delay: float = 0.0) -> None:
        group = self._world.find_group(key)
        if group is not None:
            debounce = times.parse_duration(group.spec.rebalance.debounce)
            most = 0.0 if group.rebalance_asked else MOST_DEBOUNCE_SECONDS
            self._groups.touch(key, min(debounce, most), delay)

    async def _reconcile_topic(self, key: Key) -> float | None:
        topic = self._world.find_topic(key)
        if topic is None:
            return None
        conflict = rivals.find_topic_conflict(topic, self._rival_topics.list_others(topic))
        decision = topic_status.decide(
            topic, await self._observe_topic(topic, conflict), self._clock()
        )
        if decision.status != topic.status:
            await self._world.write_topic(topic, decision.status)
        return _shorten(decision.look_again_seconds)

    async def _observe_topic(self, topic: Topic, conflict: Conflict | None) -> Sight:
        """Take the next provisioning step, if there is one. Then read the route."""
        if topic.spec.route is not None:
            return Sight(topic.spec.route)
        try:
            cluster = await self._world.find_cluster(topic)
        except NotReadyError as error:
            return Sight(ReadFailure(error.reason, str(error)), conflict=conflict)
        outcome = None
        spec = topic_status.choose_provision(topic, conflict)
        notes = self._topic_notes.get(topic.head.key) or _TopicNotes(topic.spec)
        if spec is not None:
            outcome = await self._brokers.provision(
                cluster, self._build_wish(topic, spec, notes.quiet)
            )
        else:
            notes.quiet = Quiet()  # until the next step, messages may arrive unnoticed
        return Sight(await self._brokers.fetch_route(cluster, topic.topic), outcome, conflict)

    def _build_wish(self, topic: Topic, spec: Provision, quiet: Quiet) -> TopicWish:
        def list_readers() -> list[str]:
            place = topic_keys.build_key(topic)
            return topic_keys.list_readers(place, self._world.list_groups(), self._world.find_topic)

        goal = steps.build_goal(spec)
        refuse = self._world.refuse_unless_leading
        return TopicWish(topic.topic, goal, list_readers, quiet, refuse)

    def _find_rest(self, key: Key) -> float | None:
        """
        Return after how many seconds to look again if the last view is valid and needs no action.

        None means that the group must be reconciled now.
        """
        group, last = self._world.find_group(key), self._settled.get(key)
        if (
            group is None
            or last is None
            or last.group is not group
            or self._observer.view(group) != last
        ):
            return None
        return _choose_interval(group)

    async def _reconcile_group(self, key: Key) -> float | None:
        group = self._world.find_group(key)
        if group is None:
            return None
        view = self._observer.view(group)
        drive = view.drive
        decision = group_status.decide(group, view.seen, self._clock())
        soon = (decision.look_again_seconds, drive.look_again_seconds if drive else None)
        is_written = decision.status == group.status
        is_idle = drive is None or drive.action is Action.NOTHING
        if is_written and is_idle and soon == (None, None):
            self._settled[key] = view
        else:
            self._settled.pop(key, None)
        if not is_written:
            await self._world.write_group(group, decision.status, decision.happened)
            self._note_moves(group, decision)
        if drive is not None:
            await self._act(drive.action, group, view.seen.conflict)
            self._observer.note_start_error(group, None)
        return min([_choose_interval(group), *(each for each in soon if each is not None)])

    def _note_moves(self, group: ConsumerGroup, decision: group_status.GroupDecision) -> None:
        """Count the moves, unless a conflict has prevented the write of the status."""
        written = self._world.find_group(group.head.key)
        is_published = written is not None and written.status.moved == decision.status.moved
        if decision.plan and is_published and decision.status.moved > group.status.moved:
            self.moved.note(decision.plan)

    async def _act(self, action: Action, group: ConsumerGroup, conflict: Conflict | None) -> None:
        """Act on the driver. Start it only if a plan is published and the readers are known."""
        is_known = group.status.epoch > 0 and self._observer.knows_readers(group)
        match action:
            case Action.START if is_known and conflict is None:
                try:
                    await self._world.start_driver(group)
                except EvenkeelError as error:
                    self._observer.note_start_error(group, str(error))
                    raise
            case Action.STOP:
                await self._world.stop_driver(group)
            case Action.CLEAR:
                await self._world.clear_driver(group)
            case Action.GIVE_UP:
                await self._world.give_up_driver(group)
            case _:
                pass

    async def _ask_brokers(self, key: Key) -> float | None:
        group = self._world.find_group(key)
        if group is None:
            return None
        if await self._observer.ask_brokers(group):
            self._touch_group(key)
        seconds = self._observer.ask_again_seconds(group)
        return None if seconds is None else _shorten(seconds)
