"""
What brokers tell of a group: how far it is behind, and who reads in its name. Pure.

A driver's client id ends with the origin of the ConsumerGroup object that it runs for. So two
drivers know each other apart wherever they run, and of two objects for the same group the
older one goes on, as it does where one operator sees both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from contract import client_ids
from contract.conditions import ConditionReason
from evenkeel.control.conflicts import Conflict
from evenkeel.control.topics.topic_keys import TopicKey
from evenkeel.objects import ConsumerGroup
from mq_client.values import GroupMember, Lag

MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Census:
    """One look at the brokers."""

    lags: Sequence[Lag] = ()
    members: Sequence[GroupMember] | None = None
    """None: nobody could tell yet, or nobody need be asked."""
    places: frozenset[TopicKey] = frozenset()
    """The topics whose brokers told of members."""

    @property
    def lag(self) -> int:
        """Count the messages that wait."""
        return sum(each.messages for each in self.lags)


def conflict(group: ConsumerGroup, census: Census | None, *, has_driver: bool) -> Conflict | None:
    """
    Find clients that are not the group's own driver, where a job shall read alone.

    `has_driver` says that there is one: then one that names no origin, as earlier versions did, is
    taken to be it.
    """
    job = group.spec.job
    if job is None or census is None or census.members is None:
        return None
    others = [each for each in census.members if not _is_ours(group, each)]
    if has_driver and len(others) == len(census.members):
        others = _without_one(others, group)
    if drivers := [each for each in others if _is_driver(group, each)]:
        return _of_drivers(group, drivers)
    if not others or job.allow_foreign_consumers:
        return None
    return Conflict(
        ConditionReason.FOREIGN_CONSUMERS,
        f"{_named(others)} read as {group.group!r} too, and messages would come twice: stop "
        "them, choose another spec.group, or set spec.job.allowForeignConsumers",
        stops=False,  # whoever joins a group that is read must not end the reading
    )


def _of_drivers(group: ConsumerGroup, drivers: Sequence[GroupMember]) -> Conflict:
    """Judge drivers of other objects; the driver of the oldest object goes on."""
    origins = [client_ids.find_origin(each.client_id) for each in drivers]
    is_younger = any(origin and origin < group.head.origin for origin in origins)
    goes_on = "this group waits, for the other one is older" if is_younger else "this one is older"
    return Conflict(
        ConditionReason.OTHER_DRIVER,
        f"{_named(drivers)} read as {group.group!r} for another ConsumerGroup, in another cluster "
        f"or by another name of the name servers; {goes_on}: delete one of the two, or choose "
        "another spec.group",
        stops=is_younger,
    )


def _is_ours(group: ConsumerGroup, member: GroupMember) -> bool:
    """Know our driver by the object that it runs for, wherever it runs."""
    return (
        _is_driver(group, member) and client_ids.find_origin(member.client_id) == group.head.origin
    )


def _is_driver(group: ConsumerGroup, member: GroupMember) -> bool:
    return client_ids.is_driver(member.client_id, group.group)


def _without_one(members: Sequence[GroupMember], group: ConsumerGroup) -> list[GroupMember]:
    """Leave out the first driver that names no origin."""
    drivers = [each for each in members if _is_driver(group, each)]
    bare = [each for each in drivers if not client_ids.find_origin(each.client_id)]
    return [each for each in members if each not in bare[:1]]


def _named(members: Iterable[GroupMember]) -> str:
    found = [f"{each.client_id} at {each.address}" for each in members]
    more = len(found) - MOST_NAMED
    return ", ".join(found[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
