"""Reads lag by queue and rows by slot from the metrics page of a job's driver. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from lb_core.model import Queue

LAG, ROWS = "evenkeel_job_lag_messages", "evenkeel_job_rows_total"


@dataclass(frozen=True, slots=True)
class Measured:
    """The metrics of a job at one time."""

    at: float
    """The time of the measurement, in seconds of a monotonic clock."""
    lags: Mapping[Queue, int] = field(default_factory=dict)
    rows: Mapping[str, float] = field(default_factory=dict)
    """The number of rows since the driver started, by slot."""


def parse(page: str, at: float) -> Measured:
    """Parse a metrics page. Other metrics are ignored."""
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


def compute_rates(before: Measured, after: Measured) -> dict[str, float]:
    """Compute rows per second by slot, between two measurements."""
    if after.at <= before.at:
        return {}
    seconds = after.at - before.at
    return {
        slot: (rows - known) / seconds
        for slot, rows in after.rows.items()
        if (known := before.rows.get(slot, 0.0))
        <= rows  # otherwise a new driver has begun to count from 0
    }
