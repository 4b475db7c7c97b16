"""Reads lags, rows and lanes from the metrics page of a job's driver. Pure."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from lb_core.model import Queue

LAG, ROWS = "evenkeel_job_lag_messages", "evenkeel_job_rows_total"
BATCH, OFFSETS = "evenkeel_job_lane_batch", "evenkeel_job_lane_batch_offsets"
SECONDS, LEFT_OUT = "evenkeel_job_lane_batch_seconds", "evenkeel_job_lane_left_out"


@dataclass(slots=True)
class MeasuredLane:
    """The metrics of one lane of a job with batches."""

    batch: int | None = None
    """The number of the batch that runs; None if none runs."""
    seconds: float = 0.0
    """For how long it has been running."""
    offsets: int = 0
    left_out: set[str] = field(default_factory=set)
    """Brokers that did not answer, and from which the lane has read nothing since."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The metrics of a job at one time."""

    at: float
    """The time of the measurement, in seconds of a monotonic clock."""
    lags: Mapping[Queue, int] = field(default_factory=dict)
    rows: Mapping[str, float] = field(default_factory=dict)
    """The number of rows since the driver started, by slot."""
    lanes: Mapping[int, MeasuredLane] = field(default_factory=dict)


def parse(page: str, at: float) -> Measured:
    """Parse a metrics page. Other metrics are ignored."""
    lanes: dict[int, MeasuredLane] = defaultdict(MeasuredLane)
    found = Measured(at, lags := {}, rows := {}, lanes)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = sample.labels
            if sample.name == LAG and math.isfinite(sample.value):
                queue = Queue(labels["topic"], labels["broker"], int(labels["queue"]))
                lags[queue] = int(sample.value)
            elif sample.name == ROWS:
                rows[labels["slot"]] = sample.value
            elif "lane" in labels:
                _note_lane(lanes[int(labels["lane"])], sample)
    return found


def _note_lane(lane: MeasuredLane, sample: Sample) -> None:
    if sample.name == BATCH:
        lane.batch = int(sample.value)
    elif sample.name == SECONDS:
        lane.seconds = sample.value
    elif sample.name == OFFSETS:
        lane.offsets = int(sample.value)
    elif sample.name == LEFT_OUT:
        lane.left_out.add(sample.labels["broker"])


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
