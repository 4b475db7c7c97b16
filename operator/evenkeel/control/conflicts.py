"""The type for conflicts between two objects."""

from dataclasses import dataclass

from contract.conditions import ConditionReason


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why an object must not act: another object, or another client, already does the same."""

    reason: ConditionReason
    message: str
    stops: bool = True
    """Whether the conflict stops a running job. If not, it only prevents a start."""
