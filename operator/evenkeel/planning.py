"""
Converts objects to the values of the engine `lb_core`, and plans groups. Pure.

Strategies, zones and members are converted. The owners in a status become the previous plan.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from contract.conditions import ConditionReason
from contract.following import PopTerms
from contract.kinds.groups import (
    MOST_POPPED,
    Assigned,
    Balance,
    Config,
    GroupStatus,
    MachineRoomNearby,
    MessageModel,
    MessageSettings,
    OwnedQueues,
    StrategyChoice,
    StrategyName,
    Weights,
)
from contract.kinds.parts import MOST_IDS
from contract.kinds.topics import BrokerQueues, Perm
from evenkeel import times
from evenkeel.errors import ManifestError
from evenkeel.objects import ConsumerGroup, Key, Topic
from lb_core import plan, strategies
from lb_core.assignment import parse_ids
from lb_core.errors import AllocationError
from lb_core.model import Member, Queue, QueueRange, shorten
from lb_core.plan import Plan
from lb_core.policy import Policy, Zones, read_share

MOST_LETTERS = 63
"""Maximum length of the value of a label."""
LEAST_INVISIBLE_SECONDS = 10.0
"""Minimum invisible time. RocketMQ's proxy has the same. A member needs time to renew it."""
MOST_POINTS = 100_000
"""Maximum number of points on a hash ring. With more points, a plan would take too long."""


class NotReadyError(ManifestError):
    """An object that a group needs is missing or not ready."""

    def __init__(self, reason: ConditionReason, message: str) -> None:
        """Store the message, and the `reason` for the condition."""
        super().__init__(message)
        self.reason = reason


def refuse_long_name(group: ConsumerGroup) -> None:
    """Refuse a name that is too long for a label, because a job's pods have a label with it."""
    name = group.head.key.name
    if len(name) > MOST_LETTERS:
        raise ManifestError(
            f"{group}: its name has {len(name)} characters, but a label can have only "
            f"{MOST_LETTERS}: create the group again with a shorter metadata.name and the same "
            "spec.group"
        )


def plan_group(
    group: ConsumerGroup, queues: Sequence[QueueRange], members: Sequence[Member], policy: Policy
) -> Plan:
    """Plan a group, starting from the owners in its status."""
    dealer = strategies.find(policy.strategy).dealer
    points = dealer.count_points(policy.config) * len(members) if dealer is not None else 0
    if points > MOST_POINTS:
        raise ManifestError(
            f"{group}: spec.strategy.consistentHash.virtualNodes for {len(members):,} consumers "
            f"makes {points:,} points; at most {MOST_POINTS:,} are allowed; reduce virtualNodes"
        )
    try:
        return plan.plan(read_last_plan(group.status), queues, members, policy)
    except AllocationError as error:
        raise ManifestError(f"{group}: {error}") from error


def list_queues(group: ConsumerGroup, topics: Mapping[Key, Topic]) -> list[QueueRange]:
    """List the readable queues. Refuse more queues than can be planned in time."""
    found = [each for key in group.topic_keys for each in _list_topic_queues(group, key, topics)]
    count, chosen = sum(map(len, found)), find_strategy(group.spec.strategy)
    most = chosen.most_queues
    if count > most:
        raise ManifestError(
            f"{group}: the topics in spec.topics have {count:,} queues; with strategy "
            f"{chosen.title} a group may have {most:,} at most; "
            "give it fewer topics, or the topics fewer queues"
        )
    return found


def _list_topic_queues(
    group: ConsumerGroup, key: Key, topics: Mapping[Key, Topic]
) -> Iterator[QueueRange]:
    """List the queues of one topic, from the route in its spec or in its status."""
    topic = topics.get(key)
    if topic is None:
        raise NotReadyError(
            ConditionReason.TOPIC_NOT_FOUND,
            f"{group}: there is no Topic {key}; create it, or correct spec.topics",
        )
    brokers = _list_brokers(topic)
    if not brokers:
        raise NotReadyError(
            ConditionReason.ROUTE_UNKNOWN
            if topic.status.observed_generation
            else ConditionReason.ROUTE_PENDING,
            f"{topic}: its queues are not known; set spec.route, or see the reason in its status",
        )
    for each in brokers:
        if each.perm is not Perm.WRITE and each.read_queues:
            yield QueueRange(topic.topic, each.broker, 0, each.read_queues, each.zone)


def find_unreadable(group: ConsumerGroup, topics: Mapping[Key, Topic]) -> dict[str, list[str]]:
    """Find the brokers on which clients may write to a topic but not read it, by topic."""
    found = [topics[key] for key in group.topic_keys if key in topics]
    named = {
        str(topic): [each.broker for each in _list_brokers(topic) if each.perm is Perm.WRITE]
        for topic in found
    }
    return {topic: brokers for topic, brokers in named.items() if brokers}


def _list_brokers(topic: Topic) -> Sequence[BrokerQueues]:
    """List the brokers of a topic, from its spec or its status; empty if unknown."""
    return topic.spec.route or topic.status.brokers


def has_members(group: ConsumerGroup) -> bool:
    """Whether a group's consumers are members: they ask a coordinator which queues to read."""
    consumers = group.spec.consumers
    return consumers is not None and consumers.members is not None


def is_by_message(group: ConsumerGroup) -> bool:
    """Whether members pop messages, and do not pull."""
    return group.spec.balance is Balance.MESSAGES


def is_ordered(group: ConsumerGroup) -> bool:
    """Whether members pop each queue in its order."""
    settings = group.spec.messages
    return is_by_message(group) and settings is not None and settings.ordered


def has_owners(group: ConsumerGroup) -> bool:
    """Whether each queue has one consumer. Otherwise any member gets any message."""
    return not is_by_message(group) or is_ordered(group)


def had_owners(group: ConsumerGroup) -> bool:
    """Whether each queue has one consumer by the status, which may be behind the spec."""
    return group.status.balance is Balance.QUEUES or group.status.ordered


def is_changing_balance(group: ConsumerGroup) -> bool:
    """Whether the members must stop reading in one way before they begin in the other."""
    found = (group.status.balance, group.status.ordered)
    return found != (group.spec.balance, is_ordered(group))


def find_pop_terms(group: ConsumerGroup, topics: Mapping[Key, Topic]) -> PopTerms:
    """Convert the settings in `spec.messages`."""
    chosen = group.spec.messages or MessageSettings()
    return PopTerms(
        sorted(topics[key].topic for key in group.topic_keys if key in topics),
        max(LEAST_INVISIBLE_SECONDS, times.parse_duration(chosen.invisible_time)),
        chosen.batch or (MOST_POPPED if group.spec.job is not None else 1),
        chosen.max_attempts,
        times.parse_duration(chosen.backoff),
    )


def explain_no_plan(group: ConsumerGroup) -> str:
    """Explain why the queues of a group are not planned; empty if they are."""
    if group.spec.message_model is MessageModel.BROADCASTING:
        return "Broadcasting: every consumer has every queue, and no queue ever moves"
    if not has_owners(group):
        return "balance Messages: any member gets any message, so queues have no owners"
    if is_changing_balance(group):
        return (
            "the balance changes: queues get owners when no member reads in the old way any more "
            "and the positions at the brokers are moved"
        )
    return ""


def list_static_members(group: ConsumerGroup) -> list[Member] | None:
    """List the consumers in `consumers.static`; None if there is no such list."""
    consumers = group.spec.consumers
    if consumers is None or consumers.static is None:
        return None
    return [Member(each.id, each.zone, each.capacity) for each in consumers.static]


def find_strategy(strategy: StrategyChoice) -> strategies.Strategy:
    """Find the engine's strategy for a spec."""
    return strategies.find_by_title(strategy.name.value)


def build_policy(strategy: StrategyChoice, grace_seconds: float = 0.0) -> Policy:
    """Convert a strategy and its settings to the engine's policy."""
    chosen = find_strategy(strategy)
    pinned = frozenset(strategy.pinned_consumers)
    policy = Policy(chosen.name, _build_config(strategy), pinned, grace_seconds=grace_seconds)
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


def uses_rates(strategy: StrategyChoice) -> bool:
    """Whether the weight of a queue is its rate of messages."""
    sticky = strategy.sticky if "weights" in find_strategy(strategy).uses else None
    return sticky is not None and sticky.weights is Weights.RATE


def _build_config(strategy: StrategyChoice) -> dict[str, object]:
    """Convert the settings of the chosen strategy to the engine's settings."""
    chosen = find_strategy(strategy)
    if chosen.is_sticky:
        return {}  # its settings are fields of the policy
    found = _read_settings(strategy)
    if strategy.name is StrategyName.MACHINE_ROOM_NEARBY:
        nearby = strategy.machine_room_nearby or MachineRoomNearby()
        found["inner"] = strategies.find_by_title(nearby.inner.value).name
    if strategy.name is StrategyName.CONFIG and strategy.config is not None:
        found["queues"] = _list_configured(strategy.config, chosen.most_queues)
    return found


def _read_settings(strategy: StrategyChoice) -> dict[str, object]:
    """Read the strategy's own part of the spec. The engine uses the same names for settings."""
    part = getattr(strategy, strategy.name.name.lower(), None)
    fields = msgspec.structs.fields(part) if part is not None else ()
    return {each.encode_name: getattr(part, each.name) for each in fields}


def _list_configured(config: Config, most_queues: int) -> dict[str, list[Queue]]:
    """List the queues that the spec gives to each consumer."""
    runs = {
        consumer: [run for at, each in enumerate(its) for run in _parse_owned(consumer, at, each)]
        for consumer, its in config.queues.items()
    }
    count = sum(len(run) for each in runs.values() for run in each)
    if count > most_queues:
        raise ManifestError(
            f"spec.strategy.config names {count:,} queues; at most {most_queues:,} are "
            "allowed; name fewer"
        )
    return {consumer: [queue for run in each for queue in run] for consumer, each in runs.items()}


def _parse_owned(consumer: str, at: int, owned: OwnedQueues) -> list[QueueRange]:
    """Parse the queues that the spec gives to a consumer."""
    try:
        return parse_ids(owned.topic, owned.broker, owned.ids)
    except AllocationError as error:
        where = f"spec.strategy.config.queues.{shorten(consumer)}[{at}].ids"
        raise ManifestError(f"{where}: {error}") from error


def is_whole(status: GroupStatus) -> bool:
    """Whether a status contains its assignments, not only the names of slices."""
    return bool(status.assignments) or not status.slices


def read_last_plan(status: GroupStatus) -> dict[str, list[QueueRange]] | None:
    """Read the published owners of queues; None if nothing was published."""
    if not status.epoch:
        return None
    if not is_whole(status):
        raise NotReadyError(
            ConditionReason.SLICES_MISSING,
            f"the ConfigMaps of the assignment are missing: {', '.join(status.slices)}; "
            "restore them, or clear status.slices to assign all queues again",
        )
    return {
        each.consumer: read_owned(each)
        for each in status.assignments
        if not waits_for_its_first(each)
    }


def waits_for_its_first(assigned: Assigned) -> bool:
    """Whether this slot was never filled and owns no queues."""
    return bool(assigned.empty_since) and not assigned.executor and not assigned.queues


def split_entries(topic: str, broker: str, ids: str) -> Iterator[OwnedQueues]:
    """Split ids into entries that are short enough for the schema. `read_owned` joins them."""
    while len(ids) > MOST_IDS:
        cut = ids.rindex(",", 0, MOST_IDS + 1)
        yield OwnedQueues(topic, broker, ids[:cut])
        ids = ids[cut + 1 :]
    yield OwnedQueues(topic, broker, ids)


def read_owned(assigned: Assigned) -> list[QueueRange]:
    """Read the queues that a consumer owns."""
    try:
        return [
            run for each in assigned.queues for run in parse_ids(each.topic, each.broker, each.ids)
        ]
    except AllocationError as error:
        raise NotReadyError(
            ConditionReason.STATUS_UNREADABLE,
            f"status.assignments cannot be read: {error}; correct it, or clear it to assign "
            "all queues again",
        ) from error
