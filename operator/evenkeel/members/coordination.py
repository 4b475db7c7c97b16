"""All groups whose consumers are members: who is alive, and who may read what."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from contract.following import (
    Asked,
    Denial,
    GroupSource,
    MemberAnswer,
    MemberRequest,
    Refusal,
    Terms,
)
from contract.kinds.groups import Assigned, MemberTerms
from coordinator.sessions import HeldQueues
from evenkeel import times
from evenkeel.members import queue_ids
from evenkeel.members.desk import Clock, GroupDesk
from evenkeel.members.doors import DeniedError
from evenkeel.objects import ConsumerGroup, Key, Topic
from mq_client.values import MessageQueue

LEAST_SESSION_SECONDS = 1.0
"""A shorter session ends whenever a machine is busy."""


@dataclass(frozen=True, slots=True)
class _Followed:
    """A group as it was followed last."""

    group: ConsumerGroup
    source: GroupSource


class Coordination:
    """One desk for each group with members."""

    def __init__(
        self,
        members_changed: Callable[[Key], None],
        clock: Clock = time.monotonic,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        """
        Know of no group yet.

        `leads` says whether no other process can coordinate yet. It is asked before and after each
        answer is made: a process that was frozen meanwhile must not grant anything.
        """
        self._leads = leads
        self._is_leading = True
        self._members_changed = members_changed
        self._clock = clock
        self._desks: dict[Key, GroupDesk] = {}
        self._followed: dict[Key, _Followed] = {}
        self.member_silent: Callable[[Key, str], None] = lambda key, member: None
        """Called when a session has ended because its member said nothing."""
        self.queue_released: Callable[[float], None] = lambda seconds: None
        """Called with the seconds from a queue's withdrawal until its member has released it."""
        self.needed = asyncio.Event()
        """Set once a group has members."""
        self.namespaces_changed = asyncio.Event()
        """Set when the first group of a namespace has members."""

    @property
    def namespaces(self) -> set[str]:
        """The namespaces of all groups with members."""
        return {key.namespace for key in self._desks}

    def follow(self, group: ConsumerGroup, topics: Mapping[Key, Topic]) -> None:
        """Coordinate a group by what its status has published, if its consumers are members."""
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
        if is_new or last is None or _find_published(last.group) != _find_published(group):
            self._publish(key)

    def forget(self, key: Key) -> None:
        """Coordinate this group no longer. Its members stop when their sessions are over."""
        self._followed.pop(key, None)
        self._close_desk(key, _build_no_group(key))

    def list_live(self, key: Key) -> Mapping[str, datetime] | None:
        """
        List the members of a group that have a session, with its begin.

        None while it is not known yet who lives.
        """
        desk = self._desks.get(key)
        return None if desk is None or not desk.is_settled else desk.live

    def list_client_ids(self, key: Key) -> frozenset[str] | None:
        """List the ids by which brokers may know members; None while it is not known who lives."""
        desk = self._desks.get(key)
        return None if desk is None or not desk.is_settled else desk.list_client_ids()

    def find_held(self, key: Key) -> HeldQueues | None:
        """Find where the queues of a group are; None while that is not known yet."""
        desk = self._desks.get(key)
        return desk.held if desk is not None else None

    def count_held(self) -> dict[Key, HeldQueues]:
        """Count where the queues of all groups are."""
        found = {key: desk.held for key, desk in self._desks.items()}
        return {key: held for key, held in found.items() if held is not None}

    async def ask(self, key: Key, member: str, request: MemberRequest) -> MemberAnswer | Refusal:
        """Answer a member."""
        self._refuse_unless_leading()
        desk = self._find_desk(key)
        holds = queue_ids.read_queues(request.holds)
        asked = Asked(request.session, request.number, request.revision, holds)
        answer = await desk.ask(member, asked, request.wait_seconds, request.client_id)
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
        """Find out whether a member's session is of a process that has ended at this time."""
        if key in self._desks:
            self._desks[key].suspect(member, ended_at)

    def close(self) -> None:
        """Stop to lead."""
        self._is_leading = False
        for key in list(self._desks):
            self._close_desk(key, _build_no_lead())

    def _publish(self, key: Key) -> None:
        """Tell a desk who should read what."""
        status = self._followed[key].group.status
        owners: dict[MessageQueue, str] = {}
        for assigned in status.assignments:
            owners |= dict.fromkeys(queue_ids.read_queues(assigned.queues), _find_owner(assigned))
        self._desks[key].publish(status.epoch, owners, self._list_borrowers(key))

    def _list_borrowers(self, key: Key) -> list[str]:
        """List the members that may borrow queues: also those that have no slot yet."""
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
        Make a group's desk if there is none with these terms. Return whether it is new.

        Other terms make a new one: the members know only the old ones.

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
    """Find what a desk follows. The rest of a status changes more often."""
    return group.status.epoch, group.status.assignments, group.to_drain


def _find_owner(assigned: Assigned) -> str:
    """Find the member that owns what is assigned to a slot: the one that filled it last."""
    return assigned.pod or assigned.consumer


def _build_no_group(key: Key) -> DeniedError:
    text = f"there is no ConsumerGroup {key} with spec.consumers.members"
    return DeniedError(Denial.NO_SUCH_GROUP, text)


def _build_no_lead() -> DeniedError:
    return DeniedError(Denial.NOT_LEADING, "this process no longer leads")


def read_terms(members: MemberTerms) -> Terms:
    """Read the times that a spec gives."""
    session = max(LEAST_SESSION_SECONDS, times.parse_duration(members.session))
    return Terms(session, times.parse_duration(members.drain), members.on_outage)


def find_source(group: ConsumerGroup, topics: Mapping[Key, Topic]) -> GroupSource:
    """Tell members where the messages are, and which of them the group reads."""
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
    return GroupSource(group.group, name_servers, tags, sql)
