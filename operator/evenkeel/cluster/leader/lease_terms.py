"""The times of the operator's Lease. Pure: the command line checks them without a cluster."""

import math
from dataclasses import dataclass

LONGEST = 3600
"""Maximum `duration` in seconds. After a leader dies, no replica leads until its Lease expires."""


@dataclass(frozen=True, slots=True)
class LeaderTerms:
    """The three times of a Lease, in seconds, with the defaults of Kubernetes' own controllers."""

    duration: float = 15.0
    """Another candidate takes over a Lease that was not renewed for this long."""
    deadline: float = 10.0
    """A leader that cannot renew the Lease within this time steps down."""
    period: float = 2.0
    """The time between two attempts to renew the Lease."""


def find_fault(terms: LeaderTerms) -> str:
    """Explain what is wrong with the terms, by the chart's rules; empty if they are valid."""
    if not all(map(math.isfinite, (terms.duration, terms.deadline, terms.period))):
        return "--lease-duration, --lease-deadline and --lease-period must be numbers of seconds"
    if not 1 <= terms.duration <= LONGEST:
        return f"--lease-duration {terms.duration:g} must be from 1 to {LONGEST}"
    if terms.deadline >= terms.duration:
        return (
            f"--lease-deadline {terms.deadline:g} must be less than --lease-duration "
            f"{terms.duration:g}: a leader must step down before another one takes over"
        )
    if terms.period >= terms.deadline:
        return (
            f"--lease-period {terms.period:g} must be less than --lease-deadline "
            f"{terms.deadline:g}: otherwise the Lease cannot be renewed in time"
        )
    if terms.period <= 0:
        return f"--lease-period {terms.period:g} must be more than 0"
    return ""
