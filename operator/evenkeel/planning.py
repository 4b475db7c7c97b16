"""
From what objects say to a plan: `lb_core`, asked in its own words. Pure.

Here each name of ours meets the engine's: strategies, zones, slots as members, a status as the
plan of last time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from contract.conditions import ConditionReason
from contract.kinds.groups import (
    Assigned,
    GroupStatus,
    MachineRoomNearby,
    OwnedQueues,
    StrategyChoice,
    Weights,
)
from contract.kinds.parts import MOST_IDS
from contract.kinds.topics import BrokerQueues, Perm
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic
from lb_core import plan, strategies
from lb_core.assignment import parse_ids
from lb_core.errors import AllocationError
from lb_core.model import Member, QueueRange, shorten
from lb_core.plan import Plan
from lb_core.policy import Policy, Zones, read_share

MOST_LETTERS = 63
"""Of a label's value."""
MOST_POINTS = 100_000
"""Of all consumers on a ring of hashes. More would take too long, as with too many queues."""


class NotReadyError(ManifestError):
    """An object that a group needs is not there, or says too little yet."""

    def __init__(self, reason: ConditionReason, message: str) -> None:
        """`reason` is one word for programs."""
        super().__init__(message)
        self.reason = reason


def refuse_long_name(group: ConsumerGroup) -> None:
    """Refuse a name that no label takes: a job's pods bear it, and slots are called by it."""
    name = group.head.key.name
    if len(name) > MOST_LETTERS:
        raise ManifestError(
            f"{group}: its name has {len(name)} letters, and the labels of what belongs to it "
            f"take {MOST_LETTERS}: make it anew with a shorter metadata.name; spec.group may stay"
        )


def plan_group(
    group: ConsumerGroup, queues: Sequence[QueueRange], members: Sequence[Member], policy: Policy
) -> Plan:
    """Plan a group anew, from who owns what by its status."""
    dealer = strategies.find(policy.strategy).dealer
    points = dealer.count_points(policy.config) * len(members) if dealer is not None else 0
    if points > MOST_POINTS:
        raise ManifestError(
            f"{group}: spec.strategy.consistentHash.virtualNodes for {len(members):,} consumers "
            f"makes {points:,} points; at most {MOST_POINTS:,} are allowed; ask for fewer"
        )
    try:
        return plan.plan(last(group.status), queues, members, policy)
    except AllocationError as error:
        raise ManifestError(f"{group}: {error}") from error


def queues_of(group: ConsumerGroup, topics: Mapping[Key, Topic]) -> list[QueueRange]:
    """List the queues that may be read. More than can be planned in time are refused."""
    found = [each for key in group.topic_keys for each in _queues(group, key, topics)]
    count, chosen = sum(map(len, found)), find_strategy(group.spec.strategy)
    most = chosen.most_queues
    if count > most:
        raise ManifestError(
            f"{group}: the topics in spec.topics have {count:,} queues; with strategy "
            f"{chosen.title} a group may have {most:,} at most; "
            "give it fewer topics, or the topics fewer queues"
        )
    return found


def _queues(group: ConsumerGroup, key: Key, topics: Mapping[Key, Topic]) -> Iterator[QueueRange]:
    """List those of one topic: of its route, else those last seen."""
    topic = topics.get(key)
    if topic is None:
        raise NotReadyError(
            ConditionReason.TOPIC_NOT_FOUND,
            f"{group}: there is no Topic {key}; create it, or correct spec.topics",
        )
    brokers = _brokers(topic)
    if not brokers:
        raise NotReadyError(
            ConditionReason.ROUTE_UNKNOWN
            if topic.status.observed_generation
            else ConditionReason.ROUTE_PENDING,
            f"{topic}: its queues are not known; give spec.route, or see its status for why "
            "the name server does not tell",
        )
    for each in brokers:
        if each.perm is not Perm.WRITE and each.read_queues:
            yield QueueRange(topic.topic, each.broker, 0, each.read_queues, each.zone)


def unreadable(group: ConsumerGroup, topics: Mapping[Key, Topic]) -> dict[str, list[str]]:
    """Name topics that may be written but not read, each with the brokers where that is so."""
    found = [topics[key] for key in group.topic_keys if key in topics]
    named = {
        str(topic): [each.broker for each in _brokers(topic) if each.perm is Perm.WRITE]
        for topic in found
    }
    return {topic: brokers for topic, brokers in named.items() if brokers}


def _brokers(topic: Topic) -> Sequence[BrokerQueues]:
    """List what is known of a topic's queues; empty if nothing is."""
    return topic.spec.route or topic.status.brokers


def has_members(group: ConsumerGroup) -> bool:
    """Whether a group's consumers are members, which ask what they may read."""
    consumers = group.spec.consumers
    return consumers is not None and consumers.members is not None


def static_members(group: ConsumerGroup) -> list[Member] | None:
    """List the consumers that the spec itself lists, if it does."""
    consumers = group.spec.consumers
    if consumers is None or consumers.static is None:
        return None
    return [Member(each.id, each.zone, each.capacity) for each in consumers.static]


def find_strategy(strategy: StrategyChoice) -> strategies.Strategy:
    """Find the engine's strategy that a spec names."""
    return strategies.find_by_title(strategy.name.value)


def policy_of(strategy: StrategyChoice, grace_seconds: float = 0.0) -> Policy:
    """Translate a strategy and its settings for the engine."""
    chosen = find_strategy(strategy)
    pinned = frozenset(strategy.pinned_consumers)
    policy = Policy(chosen.name, _config(strategy), pinned, grace_seconds=grace_seconds)
    sticky = strategy.sticky
    if sticky is None or not chosen.is_sticky:
        return policy
    most = sticky.max_moves
    return replace(
        policy,
        zones=Zones(sticky.zones.value),
        min_gain=float(read_share(sticky.min_gain, "minGain")),
        max_moves=int(most) if most is not None and most.isdigit() else most,
    )


def goes_by_rate(strategy: StrategyChoice) -> bool:
    """Whether a queue weighs as much as the rate at which messages arrive on it."""
    sticky = strategy.sticky if "weights" in find_strategy(strategy).uses else None
    return sticky is not None and sticky.weights is Weights.RATE


def _config(strategy: StrategyChoice) -> dict[str, object]:
    """Translate the settings of RocketMQ's strategies for the engine."""
    chosen = find_strategy(strategy)
    found: dict[str, object] = {}
    if strategy.consistent_hash is not None:
        found["virtualNodes"] = strategy.consistent_hash.virtual_nodes
    if strategy.machine_room is not None:
        found["rooms"] = strategy.machine_room.rooms
    if "inner" in chosen.settings:
        nearby = strategy.machine_room_nearby or MachineRoomNearby()
        found["inner"] = strategies.find_by_title(nearby.inner.value).name
    if strategy.config is not None:
        runs = {
            consumer: [run for at, each in enumerate(its) for run in _listed(consumer, at, each)]
            for consumer, its in strategy.config.queues.items()
        }
        count = sum(len(run) for each in runs.values() for run in each)
        if count > chosen.most_queues:
            raise ManifestError(
                f"spec.strategy.config names {count:,} queues; at most {chosen.most_queues:,} are "
                "allowed; name fewer"
            )
        found["queues"] = {
            consumer: [queue for run in each for queue in run] for consumer, each in runs.items()
        }
    return found


def _listed(consumer: str, at: int, owned: OwnedQueues) -> list[QueueRange]:
    """Read which queues the spec gives a consumer."""
    try:
        return parse_ids(owned.topic, owned.broker, owned.ids)
    except AllocationError as error:
        where = f"spec.strategy.config.queues.{shorten(consumer)}[{at}].ids"
        raise ManifestError(f"{where}: {error}") from error


def is_whole(status: GroupStatus) -> bool:
    """Whether a status has its assignments with it, and does not only name what holds them."""
    return bool(status.assignments) or not status.slices


def last(status: GroupStatus) -> dict[str, list[QueueRange]] | None:
    """Read who owned what, where anything was published."""
    if not status.epoch:
        return None
    if not is_whole(status):
        raise NotReadyError(
            ConditionReason.SLICES_MISSING,
            f"the assignment is in ConfigMaps that are not there: {', '.join(status.slices)}; "
            "restore them, or empty status.slices to assign everything anew",
        )
    return {
        each.consumer: owned(each) for each in status.assignments if not waits_for_its_first(each)
    }


def waits_for_its_first(assigned: Assigned) -> bool:
    """Whether this is a slot that was never filled, and joins the others when it is."""
    return bool(assigned.empty_since) and not assigned.executor and not assigned.queues


def entries(topic: str, broker: str, ids: str) -> Iterator[OwnedQueues]:
    """Write ids down in as many entries as the schema asks for; `owned` puts them together."""
    while len(ids) > MOST_IDS:
        cut = ids.rindex(",", 0, MOST_IDS + 1)
        yield OwnedQueues(topic, broker, ids[:cut])
        ids = ids[cut + 1 :]
    yield OwnedQueues(topic, broker, ids)


def owned(assigned: Assigned) -> list[QueueRange]:
    """Read what a consumer owns."""
    try:
        return [
            run for each in assigned.queues for run in parse_ids(each.topic, each.broker, each.ids)
        ]
    except AllocationError as error:
        raise NotReadyError(
            ConditionReason.STATUS_UNREADABLE,
            f"status.assignments cannot be read: {error}; correct it, or empty it to assign "
            "everything anew",
        ) from error
