"""
Prometheus metrics of members.

Counters keep their values after this process stops leading. Only the leader has gauges.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from evenkeel.members.coordination import Coordination
from evenkeel.objects import Key

LABELS = ("namespace", "name")
NO_GROUP = Key("", "")
"""Stands for every group that does not exist, because clients can invent names in paths."""
SECONDS = (0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120)
"""Buckets for the time of a release: from two round trips up to a drain and a session."""
_GAUGES = {
    "sessions": "Members that have a session",
    "granted_queues": "Queues that a member may read",
    "lent_queues": "Queues that a member may read in place of their owner",
    "leaving_queues": "Queues that were withdrawn from a member that may still hold them",
    "waiting_queues": "Queues that have an owner, but no member that may read or still holds them",
}


class MemberMetrics(Collector):
    """Metrics of sessions, queues and refused requests at the coordinator."""

    def __init__(
        self, find: Callable[[], Coordination | None], is_known: Callable[[Key], bool]
    ) -> None:
        """
        Begin with all counters at zero.

        `find` returns the coordination while this process leads. `is_known` returns whether a group
        exists. When a group is deleted, its series end.
        """
        self._find = find
        self._is_known = is_known
        self._refused: Counter[tuple[Key, str]] = Counter()
        self._silent: Counter[Key] = Counter()
        self._releases = Histogram(
            "evenkeel_members_release_seconds",
            "Time from the withdrawal of a queue until the queue was free",
            buckets=SECONDS,
            registry=None,
        )

    def count_refusal(self, group: Key, reason: str) -> None:
        """Count a refused request for the group that its path names."""
        self._refused[group if self._is_known(group) else NO_GROUP, reason] += 1

    def count_silence(self, group: Key) -> None:
        """Count a session that has ended because its member sent no request in time."""
        self._silent[group] += 1

    def measure_release(self, seconds: float) -> None:
        """Record the time from the withdrawal of a queue until the queue was free."""
        self._releases.observe(seconds)

    def collect(self) -> Iterable[Metric]:
        """Make all metrics."""
        coordination = self._find()
        held = coordination.count_held() if coordination is not None else {}
        self._forget_groups()
        yield self._collect_refused()
        yield self._collect_silent(held)
        yield from self._releases.collect()
        for name, text in _GAUGES.items():
            family = GaugeMetricFamily(f"evenkeel_members_{name}", text, labels=LABELS)
            for key, counts in held.items():
                family.add_metric(key, getattr(counts, name))
            yield family

    def _forget_groups(self) -> None:
        """Drop the counts of groups that no longer exist."""
        for found in [each for each in self._refused if each[0] != NO_GROUP]:
            if not self._is_known(found[0]):
                del self._refused[found]
        for key in [each for each in self._silent if not self._is_known(each)]:
            del self._silent[key]

    def _collect_refused(self) -> Metric:
        family = CounterMetricFamily(
            "evenkeel_members_refused_requests",
            "Requests of members that were refused, by reason; without namespace and name if there "
            "is no such group",
            labels=(*LABELS, "reason"),
        )
        for (key, reason), number in self._refused.items():
            family.add_metric((*key, reason), number)
        return family

    def _collect_silent(self, coordinated: Iterable[Key]) -> Metric:
        """Give each group a series from the start, so that Prometheus sees the first increase."""
        family = CounterMetricFamily(
            "evenkeel_members_silent_sessions",
            "Sessions that ended because their member sent no request in time",
            labels=LABELS,
        )
        for key in dict.fromkeys((*coordinated, *self._silent)):
            family.add_metric(key, self._silent[key])
        return family
