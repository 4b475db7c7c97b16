"""What a job's driver measures, by its page of metrics: lag by queue, rows by slot. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from lb_core.model import Queue

LAG, ROWS = "evenkeel_job_lag_messages", "evenkeel_job_rows_total"


@dataclass(frozen=True, slots=True)
class Measured:
    """One look at a job."""

    at: float
    """When, in seconds of a clock that only goes forward."""
    lags: Mapping[Queue, int] = field(default_factory=dict)
    rows: Mapping[str, float] = field(default_factory=dict)
    """By slot, all rows since the driver has started."""


def read(page: str, at: float) -> Measured:
    """Read a page of metrics; what is on it besides is passed over."""
    found = Measured(at, lags := {}, rows := {})
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = sample.labels
            if sample.name == LAG and math.isfinite(sample.value):
                queue = Queue(labels["topic"], labels["broker"], int(labels["queue"]))
                lags[queue] = int(sample.value)
            elif sample.name == ROWS:
                rows[labels["slot"]] = sample.value
    return found


def rates(before: Measured, after: Measured) -> dict[str, float]:
    """Tell rows a second by slot, between two looks."""
    if after.at <= before.at:
        return {}
    seconds = after.at - before.at
    return {
        slot: (rows - known) / seconds
        for slot, rows in after.rows.items()
        if (known := before.rows.get(slot, 0.0)) <= rows  # else another driver counts anew
    }
