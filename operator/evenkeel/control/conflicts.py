"""Why an object must wait for another one."""

from dataclasses import dataclass

from contract.conditions import ConditionReason


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why an object must not act: another one already does the same."""

    reason: ConditionReason
    message: str
    stops: bool = True
    """Whether it stops a running job; if not, it only prevents a start."""
