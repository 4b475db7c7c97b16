"""Updates the conditions of a status. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from contract.conditions import ConditionReason, ConditionType
from contract.kinds.parts import Condition, ConditionStatus
from evenkeel import times

MOST_TEXT = 4096
MOST_NAMED = 5
_STATUS = {True: ConditionStatus.TRUE, False: ConditionStatus.FALSE, None: ConditionStatus.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Finding:
    """The new state of a condition. `holds` is None if the state is unknown."""

    type: ConditionType
    holds: bool | None
    reason: ConditionReason
    message: str = ""


def merge(
    old: Iterable[Condition], found: Iterable[Finding], generation: int, now: datetime
) -> list[Condition]:
    """Make conditions from findings. The transition time changes only if the status changes."""
    known = {each.type: each for each in old}
    return [_write(each, known.get(each.type), generation, now) for each in found]


def _write(finding: Finding, old: Condition | None, generation: int, now: datetime) -> Condition:
    status = _STATUS[finding.holds]
    is_same = old is not None and old.status is status
    since = old.last_transition_time if old and is_same else times.format_time(now)
    return Condition(
        type=finding.type.value,
        status=status,
        reason=finding.reason.value,
        last_transition_time=since,
        message=finding.message[:MOST_TEXT],
        observed_generation=generation,
    )


def find(conditions: Iterable[Condition], kind: ConditionType) -> Condition | None:
    """Find a condition by its type."""
    return next((each for each in conditions if each.type == kind), None)


def name_some(names: Sequence[str]) -> str:
    """Name the first few, and count the others."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
