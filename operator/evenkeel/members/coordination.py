"""All groups whose consumers are members: who is alive, and who may read what."""

import asyncio
import time
from collections.abc import Callable, Mapping

from contract.following import Asked, GroupSource, MemberAnswer, MemberRequest, Refusal, Terms
from contract.kinds.groups import MemberTerms
from evenkeel import times
from evenkeel.errors import EvenkeelError
from evenkeel.members import queue_ids
from evenkeel.members.desk import Clock, GroupDesk
from evenkeel.objects import ConsumerGroup, Key, Topic
from lb_core.model import Member

LEAST_SESSION_SECONDS = 1.0
"""A shorter session ends whenever a machine is busy."""


class NoSuchGroupError(EvenkeelError):
    """There is no such group, or its consumers are not members."""


class Coordination:
    """One desk for each group with members."""

    def __init__(
        self, members_changed: Callable[[Key], None], clock: Clock = time.monotonic
    ) -> None:
        """Know of no group yet."""
        self._members_changed = members_changed
        self._clock = clock
        self._desks: dict[Key, GroupDesk] = {}
        self._sources: dict[Key, GroupSource] = {}
        self.needed = asyncio.Event()
        """Set once a group has members."""

    def follow(self, group: ConsumerGroup, topics: Mapping[Key, Topic]) -> None:
        """Coordinate a group by what its status has published, if its consumers are members."""
        key, consumers = group.head.key, group.spec.consumers
        if consumers is None or consumers.members is None:
            self.forget(key)
            return
        self._sources[key] = find_source(group, topics)
        desk = self._prepare_desk(key, read_terms(consumers.members))
        owners = {
            queue: assigned.consumer
            for assigned in group.status.assignments
            for queue in queue_ids.read_queues(assigned.queues)
        }
        able = [each.consumer for each in group.status.assignments if not each.draining]
        desk.publish(group.status.epoch, owners, able)

    def forget(self, key: Key) -> None:
        """Coordinate this group no longer. Its members stop when their sessions are over."""
        self._sources.pop(key, None)
        desk = self._desks.pop(key, None)
        if desk is not None:
            desk.close()

    def list_members(self, group: ConsumerGroup) -> list[Member] | None:
        """
        List the members that live and those that are missing for less than the grace.

        None while it is not known yet who lives.
        """
        desk = self._desks.get(group.head.key)
        if desk is None or not desk.is_settled:
            return None
        live = desk.live
        grace = times.parse_duration(group.spec.rebalance.grace)
        missing = {
            each.consumer: desk.measure_absence(each.consumer) for each in group.status.assignments
        }
        return [
            *map(Member, live),
            *(
                Member(name, lost_for_seconds=seconds)
                for name, seconds in missing.items()
                if name not in live and seconds < grace
            ),
        ]

    async def ask(self, key: Key, member: str, request: MemberRequest) -> MemberAnswer | Refusal:
        """Answer a member."""
        desk = self._find_desk(key)
        holds = queue_ids.read_queues(request.holds)
        asked = Asked(request.session, request.number, request.revision, holds)
        answer = await desk.ask(member, asked, request.wait_seconds)
        if isinstance(answer, Refusal):
            return answer
        return MemberAnswer(
            answer.epoch,
            answer.revision,
            queue_ids.write_queues(answer.queues),
            desk.terms.session,
            desk.terms.drain,
            desk.terms.on_outage,
            self._sources[key],
        )

    def leave(self, key: Key, member: str, session: str) -> None:
        """End the session of a member that leaves."""
        self._find_desk(key).leave(member, session)

    def close(self) -> None:
        """Stop to lead."""
        for key in list(self._desks):
            self.forget(key)

    def _find_desk(self, key: Key) -> GroupDesk:
        desk = self._desks.get(key)
        if desk is None:
            raise NoSuchGroupError(f"there is no ConsumerGroup {key} with spec.consumers.members")
        return desk

    def _prepare_desk(self, key: Key, terms: Terms) -> GroupDesk:
        """Find a group's desk. Other terms make a new one: the members know only the old ones."""
        found = self._desks.get(key)
        if found is not None and found.terms == terms:
            return found
        settle_seconds = terms.session
        if found is not None:
            settle_seconds = max(settle_seconds, found.terms.session)
            found.close()
        desk = GroupDesk(terms, settle_seconds, lambda: self._members_changed(key), self._clock)
        self._desks[key] = desk
        self.needed.set()
        return desk


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
