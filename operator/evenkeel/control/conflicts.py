"""Why an object must wait for another one."""

from dataclasses import dataclass

from contract.conditions import ConditionReason


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a group must not run: somebody else reads in its name."""

    reason: ConditionReason
    message: str
    stops: bool = True
    """Whether it ends a job that runs; if not, it keeps one from starting."""
