"""
From what manifests say to a plan: `lb_core`, asked in its own words. Pure.

Here each name of ours meets the engine's: strategies, zones, slots as members, a status as the
plan of last time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from evenkeel.api.groups import GroupStatus, MachineRoomNearby, Strategy, StrategyName
from evenkeel.api.topics import BrokerQueues, Perm
from evenkeel.errors import ManifestError
from evenkeel.manifests import Group, Topic
from lb_core import plan
from lb_core.assignment import parse_ids
from lb_core.errors import AllocationError
from lb_core.model import Member, Queue, QueueRange
from lb_core.plan import Plan
from lb_core.policy import Policy, Zones, share

NAMES = {
    StrategyName.STICKY: "STICKY",
    StrategyName.AVERAGELY: "AVG",
    StrategyName.AVERAGELY_BY_CIRCLE: "AVG_BY_CIRCLE",
    StrategyName.CONSISTENT_HASH: "CONSISTENT_HASH",
    StrategyName.MACHINE_ROOM: "MACHINE_ROOM",
    StrategyName.MACHINE_ROOM_NEARBY: "MACHINE_ROOM_NEARBY",
    StrategyName.CONFIG: "CONFIG",
}


def planned(group: Group, topics: Mapping[str, Topic], executors: int | None = None) -> Plan:
    """Plan a group anew; `executors` instead of as many as its job says."""
    queues = [each for ref in group.spec.topics for each in _queues(group, ref.name, topics)]
    try:
        policy = _policy(group.spec.strategy)
        return plan.plan(_last(group.status), queues, _members(group, executors), policy)
    except AllocationError as error:
        raise ManifestError(f"ConsumerGroup {group.name}: {error}") from error


def _queues(group: Group, name: str, topics: Mapping[str, Topic]) -> Iterator[QueueRange]:
    """List the queues of a topic that may be read: those of its route, else those last seen."""
    topic = topics.get(name)
    if topic is None:
        raise ManifestError(f"ConsumerGroup {group.name}: there is no Topic {name}")
    brokers: list[BrokerQueues] = topic.spec.route or topic.status.brokers
    if not brokers:
        raise ManifestError(
            f"Topic {name}: its queues are not known; give spec.route, or read it from a cluster "
            "where its status has them"
        )
    for each in brokers:
        if each.perm is not Perm.WRITE and each.read_queues:
            yield QueueRange(topic.topic, each.broker, 0, each.read_queues, each.zone)


def _members(group: Group, executors: int | None) -> list[Member]:
    zones = {each.consumer: each.zone or None for each in group.status.assignments}
    consumers = group.spec.consumers
    if group.spec.job is not None:
        count = group.spec.job.executors if executors is None else executors
        slots = [f"{group.group}-{number}" for number in range(count)]
        return [Member(slot, zones.get(slot)) for slot in slots]
    if consumers is None or consumers.static is None:
        raise ManifestError(
            f"ConsumerGroup {group.name}: its consumers are pods, which a file does not show"
        )
    if executors is not None:
        raise ManifestError(f"ConsumerGroup {group.name} has no job, so it has no executors")
    return [Member(each.id, each.zone, each.capacity) for each in consumers.static]


def _policy(strategy: Strategy) -> Policy:
    name = NAMES[strategy.name]
    policy = Policy(name, _config(strategy), frozenset(strategy.pinned_consumers))
    if strategy.name is not StrategyName.STICKY or strategy.sticky is None:
        return policy
    sticky = strategy.sticky
    most = sticky.max_moves
    return replace(
        policy,
        zones=Zones(sticky.zones.value),
        min_gain=float(share(sticky.min_gain, "minGain")),
        max_moves=int(most) if most is not None and most.isdigit() else most,
    )


def _config(strategy: Strategy) -> dict[str, object]:
    """Say the settings of RocketMQ's strategies as they call them."""
    found: dict[str, object] = {}
    if strategy.consistent_hash is not None:
        found["virtualNodes"] = strategy.consistent_hash.virtual_nodes
    if strategy.machine_room is not None:
        found["rooms"] = strategy.machine_room.rooms
    if strategy.name is StrategyName.MACHINE_ROOM_NEARBY:
        nearby = strategy.machine_room_nearby or MachineRoomNearby()
        found["inner"] = NAMES[StrategyName(nearby.inner.value)]
    if strategy.config is not None:
        found["queues"] = {
            consumer: [
                queue
                for each in owned
                for piece in parse_ids(each.topic, each.broker, each.ids)
                for queue in piece
            ]
            for consumer, owned in strategy.config.queues.items()
        }
    return found


def _last(status: GroupStatus) -> dict[str, list[QueueRange | Queue]] | None:
    """Read who owned what, where anything was published."""
    if not status.epoch:
        return None
    return {
        each.consumer: [
            piece
            for owned in each.queues
            for piece in parse_ids(owned.topic, owned.broker, owned.ids)
        ]
        for each in status.assignments
    }
