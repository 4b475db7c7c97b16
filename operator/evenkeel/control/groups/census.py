"""
Reads what brokers report about a group: its lag and its members. Pure.

A driver's client id ends with the origin of its ConsumerGroup object, so the drivers of different
objects can be distinguished, even if the objects are in different Kubernetes clusters. If two
objects use the same RocketMQ group, the older object continues. The same rule applies if one
operator manages both objects.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from contract import client_ids
from contract.conditions import ConditionReason
from contract.kinds.groups import PopStore, WaitingSum
from contract.kinds.jobs import Job
from evenkeel import planning, times
from evenkeel.control import conditions
from evenkeel.control.conflicts import Conflict
from evenkeel.control.topics.topic_keys import TopicKey
from evenkeel.objects import ConsumerGroup
from mq_client.popping import Waiting
from mq_client.values import GroupMember, Lag


@dataclass(frozen=True, slots=True)
class Census:
    """The last answers of the brokers."""

    lags: Sequence[Lag] = ()
    waiting_at: Mapping[str, Waiting] = field(default_factory=dict)
    """What waits for a group that is balanced by message, or has leftovers, by broker."""
    oldest_ms_at: Mapping[str, int] = field(default_factory=dict)
    """
    When the oldest message was stored that waits for a group that is balanced by message, by
    broker, in Unix milliseconds. Brokers where nothing waits are left out.
    """
    stores: Mapping[str, PopStore] = field(default_factory=dict)
    """Where each broker keeps the popped messages of a group that is balanced by message."""
    dead_letters: int | None = None
    """Messages in RocketMQ's topic for the group's dead letters; None if they were not counted."""
    members: Sequence[GroupMember] | None = None
    """None if the brokers have not reported the members yet, or need not be asked."""
    places: frozenset[TopicKey] = frozenset()
    """The topics whose brokers have reported the members of the group."""

    @property
    def lag(self) -> int | None:
        """
        The total lag in messages; None if it was never measured.

        Messages that members have popped do not count, because more members could not take them.
        """
        waiting = self.waiting
        if not self.lags and waiting is None:
            return None
        of_pops = 0 if waiting is None else waiting.ready + waiting.retries
        return of_pops + sum(each.messages for each in self.lags)

    @property
    def waiting(self) -> WaitingSum | None:
        """What waits at all brokers for a group that is balanced by message, or has leftovers."""
        if not self.waiting_at:
            return None
        found = self.waiting_at.values()
        ready, retries = sum(each.ready for each in found), sum(each.retries for each in found)
        parked = sum(each.parked for each in found)
        return WaitingSum(ready, retries, parked, oldest=self._format_oldest())

    def _format_oldest(self) -> str:
        times_ms = self.oldest_ms_at.values()
        if not times_ms:
            return ""
        return times.format_time(datetime.fromtimestamp(min(times_ms) / 1000, UTC))


def is_needed(group: ConsumerGroup) -> bool:
    """Whether messages would be read twice if other clients also read as this group."""
    return group.spec.job is not None or planning.has_members(group)


def find_conflict(
    group: ConsumerGroup,
    census: Census | None,
    *,
    has_driver: bool,
    client_ids: frozenset[str] | None,
) -> Conflict | None:
    """
    Find clients that read as the group, but are neither its driver nor its members.

    `client_ids` are the ids that members have reported; None if they are not known yet.
    """
    if census is None or census.members is None:
        return None
    if group.spec.job is not None:
        return _find_beside_job(group, group.spec.job, census.members, has_driver=has_driver)
    if not planning.has_members(group) or client_ids is None:
        return None
    others = [each for each in census.members if each.client_id not in client_ids]
    if not others:
        return None
    if not planning.has_owners(group):
        return Conflict(
            ConditionReason.FOREIGN_CONSUMERS,
            f"{_list_names(others)} also read as {group.group!r}; if they pull, messages are read "
            "twice, and brokers do not say whether they pull or pop: stop them, or choose another "
            "spec.group",
            stops=False,
        )
    return Conflict(
        ConditionReason.FOREIGN_CONSUMERS,
        f"{_list_names(others)} also read as {group.group!r}, but are not members, so messages are "
        "read twice: stop them, make them members, or choose another spec.group",
        stops=False,  # otherwise any client that joins could stop the members
    )


def _find_beside_job(
    group: ConsumerGroup, job: Job, members: Sequence[GroupMember], *, has_driver: bool
) -> Conflict | None:
    """
    Find members that are not the group's own driver. A job must be the only reader.

    Earlier versions did not send an origin. So if the brokers do not list the group's driver with
    its origin, one listed driver without an origin counts as the group's driver.
    """
    others = [each for each in members if not _is_ours(group, each)]
    if has_driver and len(others) == len(members):
        others = _drop_unnamed_driver(others, group)
    if drivers := [each for each in others if _is_driver(group, each)]:
        return _judge_drivers(group, drivers)
    if not others or job.allow_foreign_consumers:
        return None
    return Conflict(
        ConditionReason.FOREIGN_CONSUMERS,
        f"{_list_names(others)} also read as {group.group!r}, so messages would be read twice: "
        "stop them, choose another spec.group, or set spec.job.allowForeignConsumers",
        stops=False,  # otherwise any client that joins could stop the job
    )


def _judge_drivers(group: ConsumerGroup, drivers: Sequence[GroupMember]) -> Conflict:
    """Decide whether this group waits for drivers of other objects: the oldest object continues."""
    origins = [client_ids.find_origin(each.client_id) for each in drivers]
    is_younger = any(origin and origin < group.head.origin for origin in origins)
    goes_on = "this group is older and continues"
    if is_younger:
        goes_on = "this group waits, because the other one is older"
    return Conflict(
        ConditionReason.OTHER_DRIVER,
        f"{_list_names(drivers)} read as {group.group!r} for another ConsumerGroup, in another "
        f"cluster or through other name servers; {goes_on}: delete one of the two, or "
        "choose another spec.group",
        stops=is_younger,
    )


def _is_ours(group: ConsumerGroup, member: GroupMember) -> bool:
    """Whether a member is the driver of this object."""
    return (
        _is_driver(group, member) and client_ids.find_origin(member.client_id) == group.head.origin
    )


def _is_driver(group: ConsumerGroup, member: GroupMember) -> bool:
    return client_ids.is_driver(member.client_id, group.group)


def _drop_unnamed_driver(members: Sequence[GroupMember], group: ConsumerGroup) -> list[GroupMember]:
    """Remove the first driver without an origin from the list."""
    drivers = [each for each in members if _is_driver(group, each)]
    bare = [each for each in drivers if not client_ids.find_origin(each.client_id)]
    return [each for each in members if each not in bare[:1]]


def _list_names(members: Iterable[GroupMember]) -> str:
    return conditions.name_some([f"{each.client_id} at {each.address}" for each in members])
