"""The words of plain sentences: reasons, ages, lists, what conditions and strategies mean. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from contract.kinds.groups import Strategy
from contract.kinds.parts import Condition
from evenkeel import planning, times
from lb_core.reasons import Reason

MOST_NAMED = 8
_STEPS = ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h"))
_A_DAY = 86_400
_REASONS: Mapping[str, str] = {
    Reason.JOINED: "{target} joined",
    Reason.LEFT: "{source} left",
    Reason.REPLACED: "{target} replaced {source}",
    Reason.BALANCE: "for even loads",
    Reason.ZONE: "to be in the zone of its broker",
    Reason.DRAINING: "{source} was to be emptied",
    Reason.NOT_PINNED: "{source} is not one of pinnedConsumers",
    Reason.NO_CAPACITY: "{source} has no capacity",
    Reason.NEW_QUEUE: "it is new",
}
_MEANINGS = {
    ("Ready", "Running"): "all is well: the job runs",
    ("Ready", "Assigned"): "all is well: the assignment is published",
    ("Assigned", "AllOwned"): "every queue has an owner",
    ("Assigned", "Broadcasting"): "every consumer has every queue",
    ("Balanced", "Even"): "loads are as even as they can be",
    ("Balanced", "Broadcasting"): "every consumer has every queue",
    ("Balanced", "NoConsumers"): "there is no consumer",
    ("JobRunning", "Running"): "the driver runs and has executors",
    ("Pinned", "Seen"): "Spark runs each task where it is sent",
}


def age(moment: str, now: datetime) -> str:
    """Say how much time has passed."""
    try:
        seconds = int(times.since(moment, now))
    except (ValueError, TypeError):  # an Event may say anything
        return "a time that is not known"
    for most, unit, name in _STEPS:
        if seconds < most:
            return f"{seconds // unit} {name}"
    return f"{seconds // _A_DAY} days"


def counted(count: int, what: str) -> str:
    """Say how many there are."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Name a few, and count the rest."""
    more = len(names) - MOST_NAMED
    if more > 0:
        return f"{', '.join(names[:MOST_NAMED])} and {more} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def because(reason: str, source: str | None, target: str | None) -> str:
    """Say why a queue moves, or has moved."""
    text = _REASONS.get(reason, f"as {reason} has it")
    return text.format(source=source or "nobody", target=target or "nobody")


def strategy(chosen: Strategy) -> str:
    """Say by what queues are shared out."""
    found = planning.find_strategy(chosen)
    return f"{found.title}: {found.describe(planning.policy_of(chosen))}"


def meaning(condition: Condition) -> str:
    """Say what a condition says, in its own words if it has any."""
    return condition.message or _MEANINGS.get((condition.type, condition.reason), "")
