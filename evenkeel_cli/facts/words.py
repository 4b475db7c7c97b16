"""Formats reasons, ages, lists, conditions and strategies as parts of sentences. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from contract.conditions import ConditionReason, ConditionType
from contract.kinds.groups import PopStore, StrategyChoice
from contract.kinds.parts import Condition
from evenkeel import planning, times
from evenkeel.objects import ConsumerGroup
from lb_core.reasons import Reason
from mq_client.values import DLQ_PREFIX

MOST_NAMED = 8
_STEPS = ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h"))
_A_DAY = 86_400
_REASONS: Mapping[str, str] = {
    Reason.JOINED: "{target} joined",
    Reason.LEFT: "{source} left",
    Reason.REPLACED: "{target} replaced {source}",
    Reason.BALANCE: "to balance the loads",
    Reason.ZONE: "to be in the zone of its broker",
    Reason.DRAINING: "{source} was draining",
    Reason.NOT_PINNED: "{source} is not one of pinnedConsumers",
    Reason.NO_CAPACITY: "{source} has no capacity",
    Reason.NEW_QUEUE: "it is new",
}
_MEANINGS: Mapping[tuple[str, str], str] = {
    (ConditionType.READY, ConditionReason.RUNNING): "all is well: the job runs",
    (ConditionType.READY, ConditionReason.ASSIGNED): "all is well: the assignment is published",
    (ConditionType.ASSIGNED, ConditionReason.ALL_OWNED): "every queue has an owner",
    (ConditionType.ASSIGNED, ConditionReason.BROADCASTING): "every consumer has every queue",
    (ConditionType.BALANCED, ConditionReason.EVEN): "loads are as even as they can be",
    (ConditionType.BALANCED, ConditionReason.BROADCASTING): "every consumer has every queue",
    (ConditionType.ASSIGNED, ConditionReason.BY_MESSAGE): "any member gets any message",
    (ConditionType.BALANCED, ConditionReason.BY_MESSAGE): "any member gets any message",
    (ConditionType.BALANCED, ConditionReason.NO_CONSUMERS): "there is no consumer",
    (ConditionType.JOB_RUNNING, ConditionReason.RUNNING): "the driver is running and has executors",
    (
        ConditionType.PINNED,
        ConditionReason.SEEN,
    ): ("Spark runs each task on the executor that it is assigned to"),
}

_STORES: Mapping[PopStore, str] = {
    PopStore.FILES: "{brokers} {keep} popped messages in files: with less than 1 GiB of direct "
    "memory, RocketMQ may lose messages that should come again",
    PopStore.ROCKSDB: "{brokers} {keep} popped messages in RocksDB, which RocketMQ does not copy "
    "to slaves",
}


def format_age(moment: str, now: datetime) -> str:
    """Write how much time has passed since a moment."""
    try:
        seconds = int(times.measure_since(moment, now))
    except (ValueError, TypeError):  # an Event may have any text here
        return "an unknown time"
    for most, unit, name in _STEPS:
        if seconds < most:
            return f"{seconds // unit} {name}"
    return f"{seconds // _A_DAY} days"


def count(count: int, what: str) -> str:
    """Write a number with its noun."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def describe_waiting(group: ConsumerGroup, now: datetime) -> str:
    """Describe what waits at the brokers of a group that is balanced by message, or was."""
    found = group.status.waiting
    if found is None:
        return ""
    retries = f"{found.retries} {'retry' if found.retries == 1 else 'retries'}"
    if planning.has_owners(group):
        return f"waiting at the brokers, apart from the lag of the queues: {retries}"
    ready = count(found.ready, "ready message")
    age = f"; the oldest message for {format_age(found.oldest, now)}" if found.oldest else ""
    return f"waiting at the brokers: {ready}, {retries}, {count(found.parked, 'pop')}{age}"


def describe_stores(group: ConsumerGroup) -> list[str]:
    """Say where the brokers keep popped messages, and what can go wrong there."""
    brokers: dict[PopStore, list[str]] = {}
    for each in group.status.stores:
        brokers.setdefault(each.store, []).append(each.broker)
    return [
        _STORES[store].format(
            brokers=join_names(names), keep="keeps" if len(names) == 1 else "keep"
        )
        for store, names in brokers.items()
    ]


def describe_dead_letters(group: ConsumerGroup) -> str:
    """Say how many dead letters the group has, and where. Empty if it has none."""
    found = group.status.dead_letters
    return f"{count(found, 'dead letter')} in {DLQ_PREFIX}{group.group}" if found else ""


def join_names(names: Sequence[str]) -> str:
    """Join names. After the first few, only the number of the others is written."""
    more = len(names) - MOST_NAMED
    if more > 0:
        return f"{', '.join(names[:MOST_NAMED])} and {more} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def explain_reason(reason: str, source: str | None, target: str | None) -> str:
    """Explain why a queue moves or has moved."""
    text = _REASONS.get(reason, f"reason {reason}")
    return text.format(source=source or "nobody", target=target or "nobody")


def describe_strategy(chosen: StrategyChoice) -> str:
    """Describe the strategy and its settings."""
    found = planning.find_strategy(chosen)
    return f"{found.title}: {found.describe(planning.build_policy(chosen))}"


def explain_condition(condition: Condition) -> str:
    """Return the message of a condition or, without one, the meaning of its reason."""
    return condition.message or _MEANINGS.get((condition.type, condition.reason), "")
