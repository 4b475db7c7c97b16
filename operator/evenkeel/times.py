"""Times as the kinds write them: durations such as `1m30s`, moments in RFC 3339."""

import re
from datetime import UTC, datetime

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(duration: str) -> float:
    """Read a duration; the schema has refused all else."""
    return sum(
        int(number) * _SECONDS[unit] for number, unit in re.findall(r"([0-9]+)(ms|s|m|h)", duration)
    )


def shown(moment: datetime) -> str:
    """Write a moment as Kubernetes does, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def since(text: str, now: datetime) -> float:
    """Tell how many seconds have passed; none if a clock went back."""
    return max(0.0, (now - datetime.fromisoformat(text)).total_seconds())
