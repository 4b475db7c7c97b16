"""Parses durations such as `1m30s`, and parses and formats times in RFC 3339."""

import re
from datetime import UTC, datetime

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(duration: str) -> float:
    """Convert a duration that the schema accepts to seconds."""
    return sum(
        int(number) * _SECONDS[unit] for number, unit in re.findall(r"([0-9]+)(ms|s|m|h)", duration)
    )


def format_time(moment: datetime) -> str:
    """Format a time as Kubernetes does, without fractions of a second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def measure_since(text: str, now: datetime) -> float:
    """Return the seconds since a time; 0 if the time is in the future."""
    return max(0.0, (now - datetime.fromisoformat(text)).total_seconds())
