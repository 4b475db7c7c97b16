"""How conditions change: pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from contract.conditions import ConditionReason, ConditionType
from contract.kinds.parts import Condition, ConditionStatus
from evenkeel import times

MOST_TEXT = 4096
_STATUS = {True: ConditionStatus.TRUE, False: ConditionStatus.FALSE, None: ConditionStatus.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Finding:
    """What is found about one condition; `holds` is None where it cannot be known."""

    type: ConditionType
    holds: bool | None
    reason: ConditionReason
    message: str = ""


def merged(
    old: Iterable[Condition], found: Iterable[Finding], generation: int, now: datetime
) -> list[Condition]:
    """Write findings down. A status that stays keeps the time since when it is so."""
    known = {each.type: each for each in old}
    return [_written(each, known.get(each.type), generation, now) for each in found]


def _written(finding: Finding, old: Condition | None, generation: int, now: datetime) -> Condition:
    status = _STATUS[finding.holds]
    is_same = old is not None and old.status is status
    return Condition(
        type=finding.type.value,
        status=status,
        reason=finding.reason.value,
        last_transition_time=old.last_transition_time if old and is_same else times.shown(now),
        message=finding.message[:MOST_TEXT],
        observed_generation=generation,
    )


def find(conditions: Iterable[Condition], kind: ConditionType) -> Condition | None:
    """Find a condition by its type."""
    return next((each for each in conditions if each.type == kind), None)
