"""
The loop: look at an object and what is around it, decide, publish. It always looks again.

A group is looked at when it, one of its topics or what its job reports has changed, and at least
every `rebalance.interval`; a topic every `refreshInterval`. Nothing that is needed lives only here.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime

from contract.kinds.topics import Provision, TopicSpec
from evenkeel import times
from evenkeel.control import rivals
from evenkeel.control.brokers import Brokers
from evenkeel.control.conflicts import Conflict
from evenkeel.control.groups import group_status
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
from evenkeel.control.work_queue import WorkCounts, WorkPace, WorkQueue
from evenkeel.control.world import World
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup, Key, Topic
from evenkeel.planning import NotReadyError

MOST_DEBOUNCE_SECONDS = 2.0
LEAST_SECONDS = 0.1
"""Nothing is looked at more often without a cause."""
WAITING = WorkPace(at_once=256)
"""For what waits for servers elsewhere: slow ones must not take the place of others."""


def _utc() -> datetime:
    return datetime.now(UTC)


def _about(seconds: float) -> float:
    """Make a period a little shorter, so that what began together does not come together again."""
    return max(seconds, LEAST_SECONDS) * random.uniform(0.8, 1.0)  # noqa: S311 nothing secret


def _interval(group: ConsumerGroup) -> float:
    return _about(times.seconds(group.spec.rebalance.interval))


class Loop:
    """Keeps all topics and groups of a world."""

    def __init__(self, world: World, clock: Clock = _utc) -> None:
        """Look at nothing yet: the world says what is there."""
        self._world = world
        self._clock = clock
        self._brokers = Brokers()
        self._observer = GroupObserver(world, clock, self._brokers)
        self._topics: WorkQueue[Key] = WorkQueue(self._look_at_topic, WAITING)
        self._groups: WorkQueue[Key] = WorkQueue(self._look_at_group, rests=self._group_rests)
        self._censuses: WorkQueue[Key] = WorkQueue(self._ask_brokers, WAITING)
        self._rival_topics: Rivals[Topic] = Rivals(rivals.topic_claim)
        self.moved = MoveCounts()
        self._quiet: dict[Key, Quiet] = defaultdict(Quiet)
        """Of topics whose queues close."""
        self._specs: dict[Key, TopicSpec] = {}
        self._settled: dict[Key, GroupView | None] = {}
        """What groups looked like when there was nothing to do, and time changes nothing."""
        self._users: dict[Key, set[Key]] = defaultdict(set)
        """Groups by the topics that they name."""
        self._named: dict[Key, set[Key]] = {}

    def topic_changed(self, key: Key) -> None:
        """Say that a topic was made, changed or deleted."""
        topic = self._world.topic(key)
        for other in self._rival_topics.changed(key, topic):
            self._topics.touch(other)
        if topic is None:
            self._topics.forget(key)
            self._specs.pop(key, None)
            self._quiet.pop(key, None)
        elif self._specs.get(key) != topic.spec:  # and not what this loop has written itself
            self._specs[key] = topic.spec
            self._topics.touch(key)
        for user in list(self._users[key]):  # a look at them may change the set
            self.group_changed(user)

    def group_changed(self, key: Key) -> None:
        """Say that a group, or what is seen of it, was made, changed or deleted."""
        group = self._world.group(key)
        self._name(key, set(group.topic_keys) if group else set())
        for other in self._observer.changed(key, group):
            self._touch_group(other)
        if group is None:
            self._groups.forget(key)
            self._censuses.forget(key)
            self._settled.pop(key, None)
            return
        self._touch_group(key)
        is_known = self._observer.knows_readers(group)
        self._censuses.touch(key, _about(CENSUS_SECONDS if is_known else SOON_SECONDS))

    @property
    def counts(self) -> dict[str, WorkCounts]:
        """What was done, by kind."""
        return {
            "Topic": self._topics.counts,
            "ConsumerGroup": self._groups.counts,
            "census": self._censuses.counts,
        }

    @property
    def name_server_requests(self) -> Mapping[str, int]:
        """Routes that were asked for, by how that ended."""
        return self._brokers.requests

    @property
    def lags(self) -> Mapping[Key, int]:
        """Messages behind, of each group that brokers tell of."""
        return self._observer.lags

    async def close(self) -> None:
        """Finish what has begun."""
        await asyncio.gather(self._topics.close(), self._groups.close(), self._censuses.close())
        await self._brokers.close()

    def _touch_group(self, key: Key) -> None:
        group = self._world.group(key)
        if group is not None:
            debounce = times.seconds(group.spec.rebalance.debounce)
            most = 0.0 if group.rebalance_asked else MOST_DEBOUNCE_SECONDS
            self._groups.touch(key, min(debounce, most))

    def _name(self, key: Key, named: set[Key]) -> None:
        for gone in self._named.get(key, set()) - named:
            self._users[gone].discard(key)
        for each in named:
            self._users[each].add(key)
        self._named[key] = named

    async def _look_at_topic(self, key: Key) -> float | None:
        topic = self._world.topic(key)
        if topic is None:
            return None
        conflict = rivals.topic_conflict(topic, self._rival_topics.of(topic))
        decision = topic_status.decide(topic, await self._sight(topic, conflict), self._clock())
        if decision.status != topic.status:
            await self._world.write_topic(topic, decision.status)
        return _about(decision.look_again_seconds)

    async def _sight(self, topic: Topic, conflict: Conflict | None) -> Sight:
        """Take a topic one step further if that is asked for, and see where it is then."""
        if topic.spec.route is not None:
            return Sight(topic.spec.route)
        try:
            cluster = await self._world.cluster(topic)
        except NotReadyError as error:
            return Sight(ReadFailure(error.reason, str(error)), conflict=conflict)
        outcome = None
        spec = topic_status.to_follow(topic, conflict)
        if spec is not None:
            outcome = await self._brokers.provision(cluster, self._task(topic, spec))
        else:
            self._quiet.pop(topic.head.key, None)  # others may write to its queues meanwhile
        return Sight(await self._brokers.route(cluster, topic.topic), outcome, conflict)

    def _task(self, topic: Topic, spec: Provision) -> TopicWish:
        def readers() -> list[str]:
            place = topic_keys.of_topic(topic)
            return topic_keys.readers(place, self._world.groups(), self._world.topic)

        goal = steps.wanted(spec)
        refuse = self._world.refuse_unless_leading
        return TopicWish(topic.topic, goal, readers, self._quiet[topic.head.key], refuse)

    def _group_rests(self, key: Key) -> float | None:
        """Tell when to come again, if all is as it was when there was nothing to do."""
        group, last = self._world.group(key), self._settled.get(key)
        if (
            group is None
            or last is None
            or last.group is not group
            or self._observer.view(group) != last
        ):
            return None
        return _interval(group)

    async def _look_at_group(self, key: Key) -> float | None:
        group = self._world.group(key)
        if group is None:
            return None
        view = self._observer.view(group)
        drive = view.drive
        decision = group_status.decide(group, view.seen, self._clock())
        soon = (decision.look_again_seconds, drive.look_again_seconds if drive else None)
        is_written = decision.status == group.status
        is_idle = drive is None or drive.action is Action.NOTHING
        self._settled[key] = view if is_written and is_idle and soon == (None, None) else None
        if not is_written:
            await self._world.write_group(group, decision.status, decision.happened)
            self._note_moves(group, decision)
        if drive is not None:
            await self._act(drive.action, group, view.seen.conflict)
            self._observer.note_trouble(group, None)
        return min([_interval(group), *(each for each in soon if each is not None)])

    def _note_moves(self, group: ConsumerGroup, decision: group_status.GroupDecision) -> None:
        """Count what moved, unless the object had changed and nothing was written."""
        written = self._world.group(group.head.key)
        is_published = written is not None and written.status.moved == decision.status.moved
        if decision.plan and is_published and decision.status.moved > group.status.moved:
            self.moved.note(decision.plan)

    async def _act(self, action: Action, group: ConsumerGroup, conflict: Conflict | None) -> None:
        """Do it; a driver starts with something to follow, and when others are known."""
        is_known = group.status.epoch > 0 and self._observer.knows_readers(group)
        match action:
            case Action.START if is_known and conflict is None:
                try:
                    await self._world.start_driver(group)
                except EvenkeelError as error:
                    self._observer.note_trouble(group, str(error))
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
        group = self._world.group(key)
        if group is None:
            return None
        if await self._observer.ask(group):
            self._touch_group(key)
        seconds = self._observer.ask_again_seconds(group)
        return None if seconds is None else _about(seconds)
