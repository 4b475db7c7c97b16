"""Prometheus metrics of members. Counters go on from lead to lead; the rest is of the leader."""

from collections.abc import Callable, Iterable

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from contract.following import Denial, Refusal
from evenkeel.members.coordination import Coordination

LABELS = ("namespace", "name")
SECONDS = (0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120)
"""From two round trips up to a drain and a session."""
_GAUGES = {
    "sessions": "Members that have a session",
    "granted_queues": "Queues that a member may read",
    "lent_queues": "Queues that a member may read in place of their owner",
    "leaving_queues": "Queues that were taken from a member which may still hold them",
    "waiting_queues": "Queues that nobody may read now",
}


class MemberMetrics(Collector):
    """What happens between the coordinator and its members."""

    def __init__(self, find: Callable[[], Coordination | None]) -> None:
        """`find` finds the coordination while this process leads."""
        self._find = find
        self._refused = Counter(
            "evenkeel_members_refused_requests",
            "Requests of members that were refused, by reason",
            ["reason"],
            registry=None,
        )
        for reason in (*Denial, *Refusal):
            self._refused.labels(reason.value)
        self._releases = Histogram(
            "evenkeel_members_release_seconds",
            "How long it took until a queue that was taken from a member was free",
            buckets=SECONDS,
            registry=None,
        )

    def count_refusal(self, reason: str) -> None:
        """Count a request that was refused."""
        self._refused.labels(reason).inc()

    def measure_release(self, seconds: float) -> None:
        """Note how long it took until a queue was free."""
        self._releases.observe(seconds)

    def collect(self) -> Iterable[Metric]:
        """Make all metrics."""
        yield from self._refused.collect()
        yield from self._releases.collect()
        coordination = self._find()
        held = coordination.count_held() if coordination is not None else {}
        for name, text in _GAUGES.items():
            family = GaugeMetricFamily(f"evenkeel_members_{name}", text, labels=LABELS)
            for key, counts in held.items():
                family.add_metric(key, getattr(counts, name))
            yield family
