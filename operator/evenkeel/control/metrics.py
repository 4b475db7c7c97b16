"""
What Prometheus reads of topics and groups, made when it is asked for.

So the series of an object that is gone are gone as well.
"""

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from evenkeel import planning
from evenkeel.control import conditions
from evenkeel.control.loop import Loop
from evenkeel.errors import EvenkeelError
from evenkeel.objects import Group, Topic

LABELS = ("namespace", "name")
_GROUPS = {
    "queues": "Queues of all topics of the group",
    "consumers": "Consumers that may own queues",
    "idle_consumers": "Consumers that own no queue",
    "unowned_queues": "Queues that nobody reads",
    "imbalance": "Highest load next to the mean; 1 is even",
    "best_imbalance": "The same at best, for so many queues and consumers",
    "epoch": "Number of the assignment",
    "adopted_epoch": "Number of the assignment that the job follows",
    "lag_messages": "Messages behind, about",
    "ready": "1 if all is well",
}


class Objects(Collector):
    """All topics and groups."""

    def __init__(
        self, topics: Callable[[], Iterable[Topic]], groups: Callable[[], Iterable[Group]]
    ) -> None:
        """Both are asked at each scrape."""
        self._topics = topics
        self._groups = groups

    def collect(self) -> Iterable[Metric]:
        """Make all metrics."""
        gauges = {
            name: GaugeMetricFamily(f"evenkeel_group_{name}", text, labels=LABELS)
            for name, text in _GROUPS.items()
        }
        moved = CounterMetricFamily(
            "evenkeel_group_moved_queues", "Queues that changed their owner", labels=LABELS
        )
        for group in self._groups():
            labels = list(group.head.key)
            try:
                values = _values(group)
            except (ValueError, EvenkeelError):  # somebody has edited its status: others go on
                continue
            for name, value in values.items():
                gauges[name].add_metric(labels, value)
            moved.add_metric(labels, group.status.moved)
        yield from gauges.values()
        yield moved
        yield from self._of_topics()

    def _of_topics(self) -> Iterable[Metric]:
        read, write, ready = (
            GaugeMetricFamily(f"evenkeel_topic_{name}", text, labels=LABELS)
            for name, text in (
                ("read_queues", "Readable queues on all brokers"),
                ("write_queues", "Writable queues on all brokers"),
                ("ready", "1 if the route is known"),
            )
        )
        for topic in self._topics():
            labels, status = list(topic.head.key), topic.status
            read.add_metric(labels, status.read_queues)
            write.add_metric(labels, status.write_queues)
            ready.add_metric(labels, _holds(topic, "Ready"))
        return read, write, ready


class Service(Collector):
    """What the loop itself does."""

    def __init__(self, loop: Callable[[], Loop | None]) -> None:
        """The loop is asked for at each scrape: there is none while another process leads."""
        self._loop = loop

    def collect(self) -> Iterable[Metric]:
        """Make all metrics."""
        prefix = "evenkeel_operator_"
        loop = self._loop()
        yield GaugeMetricFamily(f"{prefix}leader", "1 while it leads", float(loop is not None))
        if loop is None:
            return
        done, failed, seconds = (
            CounterMetricFamily(f"{prefix}{name}", text, labels=["kind"])
            for name, text in (
                ("reconciles", "Looks at objects"),
                ("reconcile_failures", "Looks that failed and are repeated"),
                ("reconcile_seconds", "Time that they took"),
            )
        )
        depth, age = (
            GaugeMetricFamily(f"{prefix}{name}", text, labels=["kind"])
            for name, text in (
                ("queue_depth", "Objects that wait to be looked at"),
                ("queue_age_seconds", "How long the first of them has waited"),
            )
        )
        for kind, each in loop.counts.items():
            done.add_metric([kind], each.done)
            failed.add_metric([kind], each.failed)
            seconds.add_metric([kind], each.seconds)
            waits = each.waits()
            depth.add_metric([kind], len(waits))
            age.add_metric([kind], max(waits, default=0.0))
        yield from (done, failed, seconds, depth, age)
        asked = CounterMetricFamily(
            f"{prefix}name_server_requests", "Routes asked for", labels=["outcome"]
        )
        for outcome, number in loop.name_server_requests.items():
            asked.add_metric([outcome], number)
        yield asked


def _values(group: Group) -> dict[str, float]:
    """Tell what is known of a group."""
    status = group.status
    owners = [each for each in status.assignments if each.queues]
    found: dict[str, float | None] = {
        "queues": status.queues,
        "consumers": status.consumers,
        "idle_consumers": len(status.assignments) - len(owners),
        "unowned_queues": _unowned(group),
        "imbalance": float(status.imbalance or 1),
        "best_imbalance": float(status.best_imbalance or 1),
        "epoch": status.epoch,
        "adopted_epoch": status.adopted_epoch if group.spec.job else None,
        "lag_messages": status.lag,
        "ready": _holds(group, "Ready"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _unowned(group: Group) -> int:
    """Count the queues that nobody reads though somebody should."""
    assigned = conditions.find(group.status.conditions, "Assigned")
    if assigned is None or assigned.reason == "NotRunning":
        return 0
    if not planning.is_whole(group.status):
        return 0  # it cannot be told now
    owned = planning.last(group.status) or {}
    count = sum(len(run) for runs in owned.values() for run in runs)
    return max(0, group.status.queues - count)  # where all read everything, more are owned


def _holds(found: Topic | Group, kind: str) -> float:
    condition = conditions.find(found.status.conditions, kind)
    return float(condition is not None and condition.holds)
