"""Observes a group: its topics, pods, rivals and driver, and what brokers report about it."""

import contextlib
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from contract.kinds.groups import PopStore, TopicClaim
from evenkeel import planning
from evenkeel.control import rivals
from evenkeel.control.brokers import Brokers, ClusterAddress
from evenkeel.control.conflicts import Conflict
from evenkeel.control.gathering import gather
from evenkeel.control.groups import census, group_status, rates
from evenkeel.control.groups.census import Census
from evenkeel.control.groups.pop_brokers import PreparedBrokers
from evenkeel.control.groups.position_mover import PositionMover
from evenkeel.control.groups.rates import Rates
from evenkeel.control.groups.surroundings import NOT_ASKED, GroupSurroundings
from evenkeel.control.jobs import driver_actions, schedule
from evenkeel.control.jobs.driver_actions import Action, Drive, Refused, Wanted
from evenkeel.control.jobs.schedule import ScheduleTurn
from evenkeel.control.jobs.states import DriverState, JobSeen, JobState
from evenkeel.control.rivals import Rivals
from evenkeel.control.topics import topic_keys
from evenkeel.control.world import World
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic
from evenkeel.planning import NotReadyError
from mq_client.errors import MqError
from mq_client.popping import Waiting
from mq_client.values import GroupMember, Lag

Value = TypeVar("Value")
CENSUS_SECONDS = 30.0
CHANGE_SECONDS = 1.0
"""How often to look whether the positions of a group can be moved for another balance."""
SOON_SECONDS = 5.0
"""Pause before the brokers are asked again while other clients are members of the group."""
Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group and everything else that a decision about it depends on, except the time."""

    group: ConsumerGroup
    drive: Drive | None
    seen: GroupSurroundings


@dataclass(slots=True)
class _GroupNotes:
    """What the observer remembers about one group."""

    census: Census | None = None
    """The last answers of the brokers."""
    census_error: str | None = None
    """Why the last request for the readers failed; None if it succeeded."""
    rates: Rates = field(default_factory=Rates)
    pop_trouble: str | None = NOT_ASKED
    """Why members that pop may get no messages; None if the brokers are ready for them."""
    start_error: str | None = None
    """Why the driver could not be started."""


class GroupObserver:
    """Observes groups, and remembers the answers of brokers."""

    def __init__(self, world: World, clock: Clock, brokers: Brokers) -> None:
        """Begin without any groups."""
        self._world = world
        self._clock = clock
        self._brokers = brokers
        self._rivals: Rivals[ConsumerGroup] = Rivals(rivals.build_group_claim)
        self._notes: dict[Key, _GroupNotes] = {}
        self._mover = PositionMover(world, brokers)

    def note_change(self, key: Key, group: ConsumerGroup | None) -> set[Key]:
        """Note a change or deletion of a group. Return the other groups that it affects."""
        if group is None or not planning.is_changing_balance(group):
            self._mover.forget(key)
        if group is None:
            self._notes.pop(key, None)
        else:
            self._notes.setdefault(key, _GroupNotes())
        return self._rivals.note_change(key, group)

    def knows_readers(self, group: ConsumerGroup) -> bool:
        """Whether all brokers have listed the readers of the group, or need not be asked."""
        job = group.spec.job
        if not census.is_needed(group) or (job is not None and job.allow_foreign_consumers):
            return True
        notes = self._find_notes(group)
        found = notes.census
        if found is None or found.members is None or notes.census_error is not None:
            return False
        return found.places >= set(topic_keys.list_keys(group, self._world.find_topic))

    @property
    def censuses(self) -> dict[Key, Census]:
        """What brokers last reported about each group."""
        found = {key: notes.census for key, notes in self._notes.items()}
        return {key: census for key, census in found.items() if census is not None}

    def note_start_error(self, group: ConsumerGroup, error: str | None) -> None:
        """Note why the driver could not be started, for the next view. None clears the reason."""
        self._find_notes(group).start_error = error

    def view(self, group: ConsumerGroup) -> GroupView:
        """Observe a group now."""
        rival, claims = self._find_rival(group)
        conflict = rival or self._find_other_readers(group)
        is_seen = self._world.explain_unseen(group.head.key.namespace) is None
        drive = self._decide_drive(group, conflict) if is_seen else None
        if drive is not None and drive.action is Action.START:
            drive = replace(drive, job=self._explain_start(group, drive.job))
        seen = self._build_surroundings(group, conflict, drive.job if drive else None)
        return GroupView(group, drive, replace(seen, claims=claims))

    def _explain_start(self, group: ConsumerGroup, job: JobSeen) -> JobSeen:
        """Add the reason if the driver cannot start."""
        notes = self._find_notes(group)
        if not self.knows_readers(group):
            why = notes.census_error
            text = f"the driver waits until all brokers have listed the readers of {group.group!r}"
            if why is None:
                return replace(job, message=text)
            return replace(job, state=JobState.BACKING_OFF, message=f"{text}: {why}")
        if notes.start_error is None:
            return job
        return replace(job, state=JobState.BACKING_OFF, message=notes.start_error)

    def _build_surroundings(
        self, group: ConsumerGroup, conflict: Conflict | None, job: JobSeen | None
    ) -> GroupSurroundings:
        found = {name: self._world.find_topic(name) for name in group.topic_keys}
        notes = self._find_notes(group)
        counted = notes.census
        return GroupSurroundings(
            topics={name: topic for name, topic in found.items() if topic is not None},
            job=job,
            pods=self._world.list_pods(group),
            live=self._world.list_live(group) if planning.has_members(group) else None,
            held=self._world.find_held(group.head.key) if planning.has_members(group) else None,
            weights=notes.rates.weights,
            poppers=self._world.find_poppers(group.head.key),
            are_positions_ready=self._mover.is_ready(group),
            positions_trouble=self._mover.find_trouble(group),
            pop_trouble=notes.pop_trouble if planning.is_by_message(group) else None,
            lag=counted.lag if counted is not None else None,
            waiting=counted.waiting if counted is not None else None,
            stores=counted.stores if counted is not None else None,
            dead_letters=counted.dead_letters if counted is not None else None,
            conflict=conflict,
            unseen=self._world.explain_unseen(group.head.key.namespace),
            skipped=self._world.observe_driver(group.head.key).skipped if job is not None else None,
        )

    def _find_rival(self, group: ConsumerGroup) -> tuple[Conflict | None, list[TopicClaim]]:
        """Find a rival group that was first, and list the topics that this group has claimed."""
        others = self._rivals.list_others(group)
        keys = {key for each in (group, *others) for key in each.topic_keys}
        found = {key: self._world.find_topic(key) for key in keys}
        known = {key: topic for key, topic in found.items() if topic is not None}
        rival = rivals.find_group_conflict(group, others, known)
        return rival, rivals.update_group_claims(group, rival, known)

    def _find_other_readers(self, group: ConsumerGroup) -> Conflict | None:
        key = group.head.key
        has_driver = self._world.observe_driver(key).state is not DriverState.ABSENT
        return census.find_conflict(
            group,
            self._find_notes(group).census,
            has_driver=has_driver,
            client_ids=self._world.list_client_ids(key),
        )

    def _decide_drive(self, group: ConsumerGroup, conflict: Conflict | None) -> Drive | None:
        """Decide what to do with the driver. None if there is neither a job nor a driver."""
        now, driver = self._clock(), self._world.observe_driver(group.head.key)
        if group.spec.job is None:
            if driver.state is DriverState.ABSENT:
                return None
            return driver_actions.decide(driver, None, group.status.job, now)
        wanted: Wanted = None
        turn = ScheduleTurn(group.status.job)
        is_wanted = group_status.is_wanted(group, conflict)
        try:
            turn = schedule.find_turn(group, now, may_begin=is_wanted)
            if turn.is_on and is_wanted:
                wanted = self._world.compute_identity(group)
        except ManifestError as error:
            wanted = Refused(str(error))
        drive = driver_actions.decide(driver, wanted, turn.record, now)
        if (
            turn.record != group.status.job
        ):  # the start of a run is written before the driver starts
            drive = replace(drive, action=Action.NOTHING)
        if turn.next_at is None or drive.job.state is not JobState.ENDED:
            return drive
        job = replace(drive.job, message=schedule.describe_wait(turn.next_at))
        return replace(drive, job=job, look_again_seconds=(turn.next_at - now).total_seconds())

    async def ask_brokers(self, group: ConsumerGroup) -> bool:
        """
        Ask brokers for the lag and the members of a group. Return whether the answers have changed.

        If brokers cannot answer, the last answers are kept.
        """
        key, asked, notes = group.head.key, self._list_asked(group), self._find_notes(group)
        before = (notes.census, notes.census_error, notes.pop_trouble)
        has_moved = False
        if planning.is_changing_balance(group):
            has_moved = await self._move_positions(group, asked)
            if not self._mover.is_ready(group):
                return has_moved
        found, census_error = notes.census or Census(), None
        rival, _ = self._find_rival(group)
        is_popping = planning.is_by_message(group) and rival is None
        trouble = notes.pop_trouble
        if is_popping:
            trouble, stores = await self._prepare_pops(group, asked)
            kept = {} if trouble is None else found.stores
            found = replace(found, stores={**kept, **stores})
        elif not planning.is_by_message(group):
            found = replace(found, stores={})
        with contextlib.suppress(
            MqError, NotReadyError
        ):  # the conditions of the Topic report these errors
            if not planning.has_owners(group):
                found = replace(found, lags=(), waiting_at=await self._fetch_waiting(group, asked))
                found = replace(found, oldest_ms_at=await self._fetch_oldest(group, asked))
            else:
                found = replace(found, lags=await self._fetch_lags(group, asked))
                retries = await self._fetch_retries(group, asked) if group.status.leftovers else {}
                found = replace(found, waiting_at=retries, oldest_ms_at={})
        # A job that reads by queue has a sink for its dead letters.
        if group.spec.job is None or planning.is_by_message(group):
            with contextlib.suppress(MqError, NotReadyError):
                found = replace(found, dead_letters=await self._fetch_dead_letters(group, asked))
        if census.is_needed(group):
            try:
                members = await self._fetch_members(group, asked)
                where = frozenset(map(topic_keys.build_key, asked))
                found = replace(found, members=members, places=where)
            except (MqError, NotReadyError) as error:
                census_error = str(error)
        if self._world.find_group(key) is None:  # the group was deleted in the meantime
            return False
        notes = self._find_notes(group)
        notes.census, notes.census_error, notes.pop_trouble = found, census_error, trouble
        notes.rates = rates.update_rates(notes.rates, found.lags, time.monotonic())
        return has_moved or (found, census_error, trouble) != before

    async def _move_positions(self, group: ConsumerGroup, asked: Sequence[Topic]) -> bool:
        """Move positions for another balance if nobody reads. Return whether this has changed."""
        seen = self.view(group).seen
        move = self._mover.begin(group, seen)
        if move is None or not move.is_due(group.head.generation):
            return False
        if planning.is_by_message(group):  # brokers move no positions of groups they do not know
            await self._prepare_pops(group, asked)
        return await self._mover.move(move, group, seen, asked)

    async def _prepare_pops(
        self, group: ConsumerGroup, asked: Sequence[Topic]
    ) -> tuple[str | None, dict[str, PopStore]]:
        """Prepare the brokers of a group that pops. Return why some are not ready, and stores."""

        async def prepare(topic: Topic) -> PreparedBrokers:
            cluster = await self._world.find_cluster(topic)
            refuse = self._world.refuse_unless_leading
            return await self._brokers.prepare_pops(cluster, group.group, topic.topic, refuse)

        try:
            prepared = await gather(map(prepare, asked))
        except (MqError, NotReadyError) as error:
            return f"the brokers cannot be prepared: {error}", {}
        wrong = {text for each in prepared for text in each.wrong}
        stores = {name: store for each in prepared for name, store in each.stores.items()}
        return "; ".join(sorted(wrong)) or None, stores

    def _find_notes(self, group: ConsumerGroup) -> _GroupNotes:
        """Find the notes of a group. Notes of a deleted group are not stored."""
        return self._notes.get(group.head.key) or _GroupNotes()

    def ask_again_seconds(self, group: ConsumerGroup) -> float | None:
        """
        Return after how many seconds to ask the brokers again.

        None means that they are asked again only after a topic has changed.
        """
        if not self._list_asked(group):
            return None
        if planning.is_changing_balance(group) and not self._mover.is_ready(group):
            return CHANGE_SECONDS
        is_ready = not planning.is_by_message(group) or self._find_notes(group).pop_trouble is None
        is_calm = self._find_other_readers(group) is None and self.knows_readers(group) and is_ready
        return CENSUS_SECONDS if is_calm else SOON_SECONDS

    async def _fetch_lags(self, group: ConsumerGroup, asked: Sequence[Topic]) -> tuple[Lag, ...]:
        lags = await self._ask_about(group, asked, self._brokers.fetch_lags)
        return tuple(lag for found in lags for lag in found)

    async def _fetch_waiting(
        self, group: ConsumerGroup, asked: Sequence[Topic]
    ) -> dict[str, Waiting]:
        by_broker: dict[str, list[Waiting]] = defaultdict(list)
        for found in await self._ask_about(group, asked, self._brokers.fetch_waiting):
            for broker, waiting in found.items():
                by_broker[broker].append(waiting)
        return {
            broker: Waiting(*map(sum, zip(*found, strict=True)))
            for broker, found in by_broker.items()
        }

    async def _fetch_oldest(self, group: ConsumerGroup, asked: Sequence[Topic]) -> dict[str, int]:
        oldest: dict[str, int] = {}
        for found in await self._ask_about(group, asked, self._brokers.fetch_oldest):
            for broker, at_ms in found.items():
                oldest[broker] = min(at_ms, oldest.get(broker, at_ms))
        return oldest

    async def _fetch_retries(
        self, group: ConsumerGroup, asked: Sequence[Topic]
    ) -> dict[str, Waiting]:
        """Fetch only what comes again: all other messages are read by queue."""
        found = await self._fetch_waiting(group, asked)
        return {broker: Waiting(0, each.retries, 0) for broker, each in found.items()}

    async def _fetch_dead_letters(self, group: ConsumerGroup, asked: Sequence[Topic]) -> int | None:
        """Count the dead letters of all topics, which the group has in one topic."""
        if not asked:
            return None
        cluster = await self._world.find_cluster(asked[0])
        return await self._brokers.fetch_dead_letters(cluster, group.group)

    async def _fetch_members(
        self, group: ConsumerGroup, asked: Sequence[Topic]
    ) -> tuple[GroupMember, ...]:
        lists = await self._ask_about(group, asked, self._brokers.fetch_members)
        found = {member for members in lists for member in members}
        return tuple(sorted(found, key=lambda each: each.client_id))

    async def _ask_about(
        self,
        group: ConsumerGroup,
        asked: Sequence[Topic],
        fetch: Callable[[ClusterAddress, str, str], Awaitable[Value]],
    ) -> list[Value]:
        """Ask the brokers of each topic something about the group."""

        async def ask(topic: Topic) -> Value:
            return await fetch(await self._world.find_cluster(topic), group.group, topic.topic)

        return await gather(map(ask, asked))

    def _list_asked(self, group: ConsumerGroup) -> list[Topic]:
        """
        List the group's topics that have no `spec.route`.

        Only these topics have brokers that can be asked.
        """
        found = [self._world.find_topic(key) for key in group.topic_keys]
        return [each for each in found if each is not None and each.spec.route is None]
