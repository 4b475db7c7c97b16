"""What is seen around a group: its topics, pods and rivals, its driver, what brokers tell of it."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from contract.kinds.groups import TopicClaim
from evenkeel.control import rivals
from evenkeel.control.brokers import Brokers
from evenkeel.control.conflicts import Conflict
from evenkeel.control.groups import census, group_status, rates
from evenkeel.control.groups.census import Census
from evenkeel.control.groups.rates import Rates
from evenkeel.control.groups.surroundings import GroupSurroundings
from evenkeel.control.jobs import driver_actions, schedule
from evenkeel.control.jobs.driver_actions import Action, Drive, Refused, Wanted
from evenkeel.control.jobs.schedule import Turn
from evenkeel.control.jobs.states import DriverState, JobSeen, JobState
from evenkeel.control.rivals import Rivals
from evenkeel.control.topics import topic_keys
from evenkeel.control.world import World
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic
from evenkeel.planning import NotReadyError
from mq_client.errors import MqError
from mq_client.values import GroupMember, Lag

CENSUS_SECONDS = 30.0
SOON_SECONDS = 5.0
"""While others read in a group's name."""
Clock = Callable[[], datetime]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group and all that a decision about it rests on, beside the clock."""

    group: ConsumerGroup
    drive: Drive | None
    seen: GroupSurroundings


class GroupObserver:
    """Looks at groups, and remembers what brokers have told."""

    def __init__(self, world: World, clock: Clock, brokers: Brokers) -> None:
        """Know of no group yet."""
        self._world = world
        self._clock = clock
        self._brokers = brokers
        self._rivals: Rivals[ConsumerGroup] = Rivals(rivals.group_claim)
        self._census: dict[Key, Census] = {}
        self._untold: dict[Key, str] = {}
        """Why brokers could not tell who reads, when they were asked last."""
        self._rates: dict[Key, Rates] = {}
        self._troubles: dict[Key, str] = {}
        """Why drivers could not be started."""

    def changed(self, key: Key, group: ConsumerGroup | None) -> set[Key]:
        """Note a group, or that it is gone; the others that this may concern."""
        if group is None:
            for known in (self._census, self._untold, self._rates, self._troubles):
                known.pop(key, None)
        return self._rivals.changed(key, group)

    def knows_readers(self, group: ConsumerGroup) -> bool:
        """Whether all brokers have told who reads in its name, or none need be asked."""
        if group.spec.job is None or group.spec.job.allow_foreign_consumers:
            return True
        found = self._census.get(group.head.key)
        if found is None or found.members is None or group.head.key in self._untold:
            return False
        return found.places >= set(topic_keys.of_group(group, self._world.topic))

    @property
    def lags(self) -> dict[Key, int]:
        """Tell how many messages each group was behind when its brokers were asked last."""
        return {key: each.lag for key, each in self._census.items() if each.lags}

    def note_trouble(self, group: ConsumerGroup, why: str | None) -> None:
        """Note why a driver could not be started, for the next look to tell; None: it could."""
        if why is None:
            self._troubles.pop(group.head.key, None)
        else:
            self._troubles[group.head.key] = why

    def view(self, group: ConsumerGroup) -> GroupView:
        """Look."""
        rival, claims = self._rival(group)
        conflict = rival or self._other_readers(group)
        is_seen = self._world.unseen(group.head.key.namespace) is None
        drive = self._drive(group, conflict) if is_seen else None
        if drive is not None and drive.action is Action.START:
            drive = replace(drive, job=self._starting(group, drive.job))
        seen = self._seen(group, conflict, drive.job if drive else None)
        return GroupView(group, drive, replace(seen, claims=claims))

    def _starting(self, group: ConsumerGroup, job: JobSeen) -> JobSeen:
        """Say why a driver that shall start does not, if there is a reason."""
        if not self.knows_readers(group):
            why = self._untold.get(group.head.key)
            text = f"the driver waits until all brokers tell who else reads as {group.group!r}"
            if why is None:
                return replace(job, message=text)
            return replace(job, state=JobState.BACKING_OFF, message=f"{text}: {why}")
        trouble = self._troubles.get(group.head.key)
        if trouble is None:
            return job
        return replace(job, state=JobState.BACKING_OFF, message=trouble)

    def _seen(
        self, group: ConsumerGroup, conflict: Conflict | None, job: JobSeen | None
    ) -> GroupSurroundings:
        found = {name: self._world.topic(name) for name in group.topic_keys}
        counted = self._census.get(group.head.key)
        return GroupSurroundings(
            topics={name: topic for name, topic in found.items() if topic is not None},
            job=job,
            pods=self._world.pods(group),
            weights=self._rates.get(group.head.key, Rates()).weights,
            lag=counted.lag if counted is not None and counted.lags else None,
            conflict=conflict,
            unseen=self._world.unseen(group.head.key.namespace),
            skipped=self._world.driver(group.head.key).skipped if job is not None else None,
        )

    def _rival(self, group: ConsumerGroup) -> tuple[Conflict | None, list[TopicClaim]]:
        """Find another group that was there first, and say which topics are this one's."""
        others = self._rivals.of(group)
        keys = {key for each in (group, *others) for key in each.topic_keys}
        found = {key: self._world.topic(key) for key in keys}
        known = {key: topic for key, topic in found.items() if topic is not None}
        rival = rivals.group_conflict(group, others, known)
        return rival, rivals.group_claims(group, rival, known)

    def _other_readers(self, group: ConsumerGroup) -> Conflict | None:
        key = group.head.key
        has_driver = self._world.driver(key).state is not DriverState.ABSENT
        return census.conflict(group, self._census.get(key), has_driver=has_driver)

    def _drive(self, group: ConsumerGroup, conflict: Conflict | None) -> Drive | None:
        """See what becomes of the driver; None where there is no job, nor an old one's driver."""
        now, driver = self._clock(), self._world.driver(group.head.key)
        if group.spec.job is None:
            if driver.state is DriverState.ABSENT:
                return None
            return driver_actions.decide(driver, None, group.status.job, now)
        wanted: Wanted = None
        turn = Turn(group.status.job)
        is_wanted = group_status.is_wanted(group, conflict)
        try:
            turn = schedule.turn(group, now, may_begin=is_wanted)
            if turn.is_on and is_wanted:
                wanted = self._world.identity(group)
        except ManifestError as error:
            wanted = Refused(str(error))
        drive = driver_actions.decide(driver, wanted, turn.record, now)
        if turn.record != group.status.job:  # that a run begins is written before it does
            drive = replace(drive, action=Action.NOTHING)
        if turn.next_at is None or drive.job.state is not JobState.ENDED:
            return drive
        job = replace(drive.job, message=schedule.waits_until(turn.next_at))
        return replace(drive, job=job, look_again_seconds=(turn.next_at - now).total_seconds())

    async def ask(self, group: ConsumerGroup) -> bool:
        """
        Ask how far a group is and who reads, and say whether that is news.

        What cannot be told now stays as it was.
        """
        key, asked = group.head.key, self._asked(group)
        before = (self._census.get(key), self._untold.get(key))
        found, untold = before[0] or Census(), None
        with contextlib.suppress(MqError, NotReadyError):  # the topic's own conditions tell of that
            found = replace(found, lags=await self._lags(group, asked))
        if group.spec.job is not None:
            try:
                members = await self._members(group, asked)
                where = frozenset(map(topic_keys.of_topic, asked))
                found = replace(found, members=members, places=where)
            except (MqError, NotReadyError) as error:
                untold = str(error)
        if self._world.group(key) is None:  # it went meanwhile
            return False
        self._note(key, found, untold)
        return (found, untold) != before

    def _note(self, key: Key, found: Census, untold: str | None) -> None:
        self._census[key] = found
        if untold is None:
            self._untold.pop(key, None)
        else:
            self._untold[key] = untold
        before = self._rates.get(key, Rates())
        self._rates[key] = rates.measured(before, found.lags, time.monotonic())

    def ask_again_seconds(self, group: ConsumerGroup) -> float | None:
        """Tell when to ask again; None: when a topic changes."""
        if not self._asked(group):
            return None
        is_calm = self._other_readers(group) is None and self.knows_readers(group)
        return CENSUS_SECONDS if is_calm else SOON_SECONDS

    async def _lags(self, group: ConsumerGroup, asked: Sequence[Topic]) -> tuple[Lag, ...]:
        async def ask(topic: Topic) -> list[Lag]:
            cluster = await self._world.cluster(topic)
            return await self._brokers.lags(cluster, group.group, topic.topic)

        return tuple(lag for found in await _all(map(ask, asked)) for lag in found)

    async def _members(
        self, group: ConsumerGroup, asked: Sequence[Topic]
    ) -> tuple[GroupMember, ...]:
        async def ask(topic: Topic) -> list[GroupMember]:
            cluster = await self._world.cluster(topic)
            return await self._brokers.members(cluster, group.group, topic.topic)

        found = {member for members in await _all(map(ask, asked)) for member in members}
        return tuple(sorted(found, key=lambda each: each.client_id))

    def _asked(self, group: ConsumerGroup) -> list[Topic]:
        """List a group's topics that are on brokers and not only in a file."""
        found = [self._world.topic(key) for key in group.topic_keys]
        return [each for each in found if each is not None and each.spec.route is None]


async def _all(asked: Iterable[Coroutine[Any, Any, Value]]) -> list[Value]:
    """Ask side by side. When all have ended, the first failure is raised, if there is one."""
    found = await asyncio.gather(*asked, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return [each for each in found if not isinstance(each, BaseException)]
