"""Coordinates groups with members: which members are alive, and which queues they may read."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from contract.conditions import ConditionReason, ConditionType
from contract.following import (
    Asked,
    Denial,
    GroupSource,
    MemberAnswer,
    MemberRequest,
    PopTerms,
    Refusal,
    Terms,
)
from contract.kinds.groups import Assigned, MemberTerms
from coordinator.sessions import HeldQueues
from evenkeel import planning, times
from evenkeel.control import conditions
from evenkeel.members import queue_ids
from evenkeel.members.desk import Clock, GroupDesk
from evenkeel.members.doors import DeniedError
from evenkeel.objects import ConsumerGroup, Key, Topic
from mq_client.values import MessageQueue

LEAST_SESSION_SECONDS = 1.0
"""Minimum session time. A shorter session would end whenever a machine is busy."""


@dataclass(frozen=True, slots=True)
class _Followed:
    """The last followed version of a group, and its source."""

    group: ConsumerGroup
    source: GroupSource


class Coordination:
    """Coordinates all groups with members. Each group has its own `GroupDesk`."""

    def __init__(
        self,
        members_changed: Callable[[Key], None],
        clock: Clock = time.monotonic,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        """
        Begin without any groups.

        `leads` returns True while no other process can coordinate. It is called before and after
        each answer is made, because a process that was frozen in the meantime must not grant
        anything.
        """
        self._leads = leads
        self._is_leading = True
        self._members_changed = members_changed
        self._clock = clock
        self._desks: dict[Key, GroupDesk] = {}
        self._followed: dict[Key, _Followed] = {}
        self.member_silent: Callable[[Key, str], None] = lambda key, member: None
        """Called when a session has ended because its member sent no request in time."""
        self.queue_released: Callable[[float], None] = lambda seconds: None
        """Called when a withdrawn queue is free, with the seconds since its withdrawal."""
        self.needed = asyncio.Event()
        """Set as soon as a group has members."""
        self.namespaces_changed = asyncio.Event()
        """Set when a group begins to have members, because its namespace may be new."""

    @property
    def namespaces(self) -> set[str]:
        """The namespaces of all groups with members."""
        return {key.namespace for key in self._desks}

    def follow(self, group: ConsumerGroup, topics: Mapping[Key, Topic]) -> None:
        """Coordinate a group by its published status, if its consumers are members."""
        key, consumers = group.head.key, group.spec.consumers
        if consumers is None or consumers.members is None:
            self.forget(key)
            return
        followed = _Followed(group, find_source(group, topics))
        last = self._followed.get(key)
        if last is not None and last.group is group and last.source == followed.source:
            return
        self._followed[key] = followed
        is_new = self._prepare_desk(key, read_terms(consumers.members), group.status.session)
        if last is not None and not is_new and _list_pop_terms(last) != _list_pop_terms(followed):
            self._desks[key].announce_pops()
        if is_new or last is None or _find_published(last.group) != _find_published(group):
            self._publish(key)

    def forget(self, key: Key) -> None:
        """Stop coordinating a group. Its members stop when their sessions are over."""
        self._followed.pop(key, None)
        self._close_desk(key, _build_no_group(key))

    def list_live(self, key: Key) -> Mapping[str, datetime] | None:
        """
        List the members of a group that have a session, and when each session began.

        Return None until all live members are known.
        """
        desk = self._desks.get(key)
        return None if desk is None or not desk.is_settled else desk.live

    def list_client_ids(self, key: Key) -> frozenset[str] | None:
        """List the ids by which brokers may know members; None until all live members are known."""
        desk = self._desks.get(key)
        return None if desk is None or not desk.is_settled else desk.list_client_ids()

    def find_held(self, key: Key) -> HeldQueues | None:
        """Count the queues of a group by state, such as granted; None until this is known."""
        desk = self._desks.get(key)
        return desk.held if desk is not None else None

    def find_poppers(self, key: Key) -> frozenset[str] | None:
        """Find the members of a group that may pop messages; None until this is known."""
        desk = self._desks.get(key)
        return desk.poppers if desk is not None else None

    def count_held(self) -> dict[Key, HeldQueues]:
        """Count the queues of all groups by state, such as granted."""
        found = {key: desk.held for key, desk in self._desks.items()}
        return {key: held for key, held in found.items() if held is not None}

    async def ask(self, key: Key, member: str, request: MemberRequest) -> MemberAnswer | Refusal:
        """Answer a request of a member."""
        self._refuse_unless_leading()
        desk = self._find_desk(key)
        holds = queue_ids.read_queues(request.holds)
        asked = Asked(request.session, request.number, request.revision, holds)
        answer = await desk.ask(
            member, asked, request.wait_seconds, request.client_id, pops=request.pops
        )
        self._refuse_unless_leading()
        if isinstance(answer, Refusal):
            return answer
        return MemberAnswer(
            answer.epoch,
            answer.revision,
            queue_ids.write_queues(answer.queues),
            desk.terms.session,
            desk.terms.drain,
            desk.terms.on_outage,
            self._followed[key].source,
        )

    def leave(self, key: Key, member: str, session: str) -> None:
        """End the session of a member that leaves."""
        self._refuse_unless_leading()
        self._find_desk(key).leave(member, session)

    def end(self, key: Key, member: str) -> None:
        """End the session of a member whose process is known to have ended."""
        if key in self._desks:
            self._desks[key].end(member)

    def suspect(self, key: Key, member: str, ended_at: datetime) -> None:
        """End a member's session if it belongs to a process that ended at `ended_at`."""
        if key in self._desks:
            self._desks[key].suspect(member, ended_at)

    def close(self) -> None:
        """Stop leading, and close all desks."""
        self._is_leading = False
        for key in list(self._desks):
            self._close_desk(key, _build_no_lead())

    def _publish(self, key: Key) -> None:
        """Pass the published owners of a group's queues to its desk."""
        status = self._followed[key].group.status
        owners: dict[MessageQueue, str] = {}
        for assigned in status.assignments:
            owners |= dict.fromkeys(queue_ids.read_queues(assigned.queues), _find_owner(assigned))
        self._desks[key].publish(status.epoch, owners, self._list_borrowers(key))

    def _list_borrowers(self, key: Key) -> list[str]:
        """List the members that may borrow queues, including members that have no slot yet."""
        group = self._followed[key].group
        able = dict.fromkeys(self._desks[key].live, True)
        able |= dict.fromkeys(group.to_drain, False)
        able |= {_find_owner(each): not each.draining for each in group.status.assignments}
        return [member for member, is_able in able.items() if is_able]

    def _note_members(self, key: Key) -> None:
        """Update which members may borrow queues, and tell the loop that members joined or left."""
        self._desks[key].lend(self._list_borrowers(key))
        self._members_changed(key)

    def _close_desk(self, key: Key, why: DeniedError) -> None:
        desk = self._desks.pop(key, None)
        if desk is not None:
            desk.close(why)

    def _refuse_unless_leading(self) -> None:
        if not self._is_leading or not self._leads():
            raise _build_no_lead()

    def _find_desk(self, key: Key) -> GroupDesk:
        desk = self._desks.get(key)
        if desk is None:
            raise _build_no_group(key)
        return desk

    def _prepare_desk(self, key: Key, terms: Terms, promised: str) -> bool:
        """
        Make a group's desk, unless it has one with these terms. Return whether the desk is new.

        If the terms have changed, the group gets a new desk, because members know only the old
        terms.

        `promised` is the session time that an older leader may have promised.
        """
        found = self._desks.get(key)
        if found is not None and found.terms == terms:
            return False
        settle_seconds = max(terms.session, times.parse_duration(promised) if promised else 0.0)
        if found is not None:
            settle_seconds = max(settle_seconds, found.terms.session)
            found.close(DeniedError(Denial.NOT_LEADING, "the terms of the group have changed"))
        desk = GroupDesk(terms, settle_seconds, lambda: self._note_members(key), self._clock)
        desk.held_changed = lambda: self._members_changed(key)
        desk.member_silent = lambda member: self.member_silent(key, member)
        desk.queue_released = self.queue_released
        self._desks[key] = desk
        self.needed.set()
        self.namespaces_changed.set()
        return True


def _find_published(group: ConsumerGroup) -> tuple[object, ...]:
    """Return the parts of a group that a desk follows. The rest of a status changes more often."""
    return group.status.epoch, group.status.assignments, group.to_drain


def _list_pop_terms(followed: _Followed) -> tuple[PopTerms | None, ...]:
    source = followed.source
    return source.messages, source.ordered, source.leftovers


def _find_owner(assigned: Assigned) -> str:
    """Find the member that owns the queues of a slot: the member that filled the slot last."""
    return assigned.pod or assigned.consumer


def _build_no_group(key: Key) -> DeniedError:
    text = f"there is no ConsumerGroup {key} with spec.consumers.members"
    return DeniedError(Denial.NO_SUCH_GROUP, text)


def _build_no_lead() -> DeniedError:
    return DeniedError(Denial.NOT_LEADING, "this process no longer leads")


def read_terms(members: MemberTerms) -> Terms:
    """Convert the settings of `spec.consumers.members` to terms."""
    session = max(LEAST_SESSION_SECONDS, times.parse_duration(members.session))
    return Terms(session, times.parse_duration(members.drain), members.on_outage)


def find_source(group: ConsumerGroup, topics: Mapping[Key, Topic]) -> GroupSource:
    """Collect what members need to read the group's messages: name servers and filters."""
    name_servers: list[str] = []
    tags, sql = {}, {}
    for key, ref in zip(group.topic_keys, group.spec.topics, strict=True):
        topic = topics.get(key)
        if topic is None:
            continue
        name_servers = name_servers or list(topic.spec.name_servers or ())
        if ref.filter is not None and ref.filter.tags is not None:
            tags[topic.topic] = ref.filter.tags
        if ref.filter is not None and ref.filter.sql is not None:
            sql[topic.topic] = ref.filter.sql
    source = GroupSource(group.group, name_servers, tags, sql)
    if _has_stopping_conflict(group):
        return source
    terms = planning.find_pop_terms(group, topics)
    may_pop = planning.is_by_message(group) and not planning.is_changing_balance(group)
    if may_pop and not planning.has_owners(group):
        return msgspec.structs.replace(source, messages=terms)
    has_leftovers = group.status.leftovers or not planning.had_owners(group)
    return msgspec.structs.replace(
        source,
        ordered=terms if may_pop else None,
        leftovers=terms if has_leftovers else None,
    )


def _has_stopping_conflict(group: ConsumerGroup) -> bool:
    """Whether another object reads as the same RocketMQ group and was there first."""
    assigned = conditions.find(group.status.conditions, ConditionType.ASSIGNED)
    stopping = (ConditionReason.OLDER_GROUP, ConditionReason.OTHER_DRIVER)
    return assigned is not None and assigned.reason in stopping
