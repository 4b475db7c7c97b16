"""Computes from broker offsets how many messages a second arrive on each queue. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lb_core import model
from mq_client.values import Lag

HALF_LIFE_SECONDS = 120.0
"""After this time, a measurement has half its weight, so that short bursts do not move queues."""
LEAST = 1.0
"""The weight of an idle queue. If it were 0, one consumer could get all idle queues."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The measurements so far."""

    at: float = 0.0
    offsets: Mapping[model.Queue, int] = field(default_factory=dict)
    by_queue: Mapping[model.Queue, float] = field(default_factory=dict)

    @property
    def weights(self) -> dict[model.Queue, float] | None:
        """The weight of each queue; None before the second measurement."""
        return {queue: LEAST + rate for queue, rate in self.by_queue.items()} or None


def update_rates(before: Rates, lags: Sequence[Lag], at: float) -> Rates:
    """Add a measurement. `at` is its time on a monotonic clock."""
    offsets = {model.Queue(*each.queue): each.broker_offset for each in lags}
    passed = at - before.at
    if passed <= 0 or not before.offsets:
        return Rates(at, offsets, before.by_queue)
    kept = 0.5 ** (passed / HALF_LIFE_SECONDS)
    found = {}
    for queue in offsets.keys() & before.offsets.keys():
        now = max(0, offsets[queue] - before.offsets[queue]) / passed
        old = before.by_queue.get(queue, now)
        found[queue] = kept * old + (1 - kept) * now
    return Rates(at, offsets, found)
