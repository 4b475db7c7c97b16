"""
Prometheus metrics of topics and groups.

They are made at each scrape. So if an object is deleted, its series disappear. The figures of
a group are computed once and cached until the group changes. Metrics are yielded one by one, so
that other tasks can run in between.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from contract.conditions import ConditionReason, ConditionType
from contract.kinds.groups import Assigned, GroupStatus
from contract.kinds.jobs import Mode
from evenkeel import planning, times
from evenkeel.control import conditions
from evenkeel.control.groups import findings
from evenkeel.control.groups.census import Census
from evenkeel.control.loop import Loop
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup, Key, Topic

LABELS = ("namespace", "name")
MOST_IDS = 200
"""Maximum length of the queue ids in a label."""
OUTCOMES = ("answered", "unknown", "failed")
"""
Outcomes of name server requests. Each has a series from the start, so that Prometheus sees the
first increase.
"""
_GROUPS = {
    "queues": "Queues of all topics of the group",
    "consumers": "Consumers that may own queues",
    "idle_consumers": "Consumers that own no queue",
    "unowned_queues": "Queues without an owner",
    "imbalance": "Highest load divided by the mean load; 1 is even",
    "best_imbalance": "Best possible imbalance for these queues and consumers",
    "epoch": "Number of the published assignment",
    "adopted_epoch": "Number of the assignment that the job follows",
    "lag_messages": "Messages not consumed yet, as last measured by the leader; with balance "
    "Messages without an order, without those that members hold",
    "ready_messages": "Messages that no consumer has got yet, by broker; only with balance "
    "Messages without an order. Before the first pop, deleted messages count too",
    "retry_messages": "Messages that come again, and that no consumer has got again yet, by "
    "broker; only with balance Messages without an order, or with leftovers from it",
    "parked_pops": "Pops that wait for a message, by broker; only with balance Messages without an "
    "order",
    "oldest_waiting_seconds": "Age of the oldest message that no consumer has got, by broker; 0 if "
    "none waits; only with balance Messages without an order",
    "dead_letters": "Messages in RocketMQ's topic for the group's dead letters, as last measured "
    "by the leader; only without a job",
    "ready": "1 if the group is ready",
    "paused": "1 while no queue may move for balance",
    "job_running": "1 if the job's driver runs and has executors",
    "job_slots": "Slots of the job: the number of executors that it should have",
    "job_trigger_seconds": "Interval between batches; only for streaming jobs",
    "ready_reason": "Always 1; the label has the reason of the group's condition Ready",
    "info": "Always 1; labels have RocketMQ group, strategy and kind of consumers",
    "owned_queues": "Queues that a consumer owns, per topic and broker",
    "last_rebalance_timestamp_seconds": "Unix time of the last rebalance that moved queues",
}
_MORE_LABELS = {
    "ready_messages": ("broker",),
    "retry_messages": ("broker",),
    "parked_pops": ("broker",),
    "oldest_waiting_seconds": ("broker",),
    "ready_reason": ("reason",),
    "info": ("group", "strategy", "mode"),
    "owned_queues": ("consumer", "topic", "broker", "ids"),
    "last_rebalance_timestamp_seconds": ("trigger",),
}
_WAITING = {"ready_messages": "ready", "retry_messages": "retries", "parked_pops": "parked"}
"""The field of `Waiting` for each metric."""
Figures = dict[str, list[tuple[tuple[str, ...], float]]]
"""Figures of one group by metric: additional labels and the value."""


@dataclass(frozen=True, slots=True)
class _GroupFigures:
    """The figures of one group, cached until its object changes."""

    group: ConsumerGroup
    figures: Figures


class ObjectMetrics(Collector):
    """Metrics of all topics and groups."""

    def __init__(
        self,
        topics: Callable[[], Iterable[Topic]],
        groups: Callable[[], Iterable[ConsumerGroup]],
        censuses: Callable[[], Mapping[Key, Census]] = dict,
    ) -> None:
        """
        Store the functions that return topics, groups and the answers of brokers at each scrape.

        This process asks brokers while it leads. The lag in a status is not shown: it may be hours
        old, and two replicas would show different values.
        """
        self._topics = topics
        self._groups = groups
        self._censuses = censuses
        self._known: dict[Key, _GroupFigures] = {}

    def collect(self) -> Iterable[Metric]:
        """Make all metrics."""
        groups = self._compute_figures()
        measured = {key: _read_measured(found) for key, found in self._censuses().items()}
        for name, text in _GROUPS.items():
            family = _build_gauge(f"group_{name}", text, _MORE_LABELS.get(name, ()))
            for each in groups:
                key = each.group.head.key
                for figures in (each.figures, measured.get(key, {})):
                    for labels, value in figures.get(name, ()):
                        family.add_metric((*key, *labels), value)
            yield family
        moved = CounterMetricFamily(
            "evenkeel_group_moved_queues", "Queues that changed their owner", labels=LABELS
        )
        for each in groups:
            moved.add_metric(each.group.head.key, each.group.status.moved)
        yield moved
        yield from self._collect_topics()

    def _compute_figures(self) -> list[_GroupFigures]:
        """Compute the figures of changed groups. A group with an invalid status is left out."""
        before, self._known = self._known, {}
        for group in self._groups():
            known = before.get(group.head.key)
            if known is None or known.group is not group:
                try:
                    known = _GroupFigures(group, _read_figures(group))
                except (ValueError, EvenkeelError):
                    continue
            self._known[group.head.key] = known
        return list(self._known.values())

    def _collect_topics(self) -> Iterable[Metric]:
        read = _build_gauge("topic_read_queues", "Readable queues on all brokers")
        write = _build_gauge("topic_write_queues", "Writable queues on all brokers")
        ready = _build_gauge("topic_ready", "1 if the route is known")
        text = "Always 1; the label has the reason of the topic's condition Ready"
        why = _build_gauge("topic_ready_reason", text, ("reason",))
        for topic in self._topics():
            key, status = topic.head.key, topic.status
            read.add_metric(key, status.read_queues)
            write.add_metric(key, status.write_queues)
            ready.add_metric(key, _read_condition(topic, ConditionType.READY))
            why.add_metric((*key, _read_reason(topic)), 1)
        return read, write, ready, why


class LoopMetrics(Collector):
    """Metrics of the control loop."""

    def __init__(self, loop: Callable[[], Loop | None]) -> None:
        """Store `loop`. It is called at each scrape, and returns None if another replica leads."""
        self._loop = loop

    def collect(self) -> Iterable[Metric]:
        """Make all metrics."""
        prefix = "evenkeel_operator_"
        loop = self._loop()
        yield GaugeMetricFamily(
            f"{prefix}leader", "1 while this replica leads", float(loop is not None)
        )
        if loop is None:
            return
        done, failed, seconds = (
            CounterMetricFamily(f"{prefix}{name}", text, labels=["kind"])
            for name, text in (
                ("reconciles", "Reconciles of objects"),
                ("reconcile_failures", "Reconciles that failed and are retried"),
                ("reconcile_seconds", "Time spent in reconciles"),
            )
        )
        depth, age = (
            GaugeMetricFamily(f"{prefix}{name}", text, labels=["kind"])
            for name, text in (
                ("queue_depth", "Objects that wait for a reconcile"),
                ("queue_age_seconds", "Age of the oldest object in the work queue"),
            )
        )
        for kind, queue in loop.queues.items():
            done.add_metric([kind], queue.counts.done)
            failed.add_metric([kind], queue.counts.failed)
            seconds.add_metric([kind], queue.counts.seconds)
            waits = queue.list_waits()
            depth.add_metric([kind], len(waits))
            age.add_metric([kind], max(waits, default=0.0))
        yield from (done, failed, seconds, depth, age)
        asked = CounterMetricFamily(
            f"{prefix}name_server_requests",
            "Requests to name servers for routes",
            labels=["outcome"],
        )
        outcomes = {**dict.fromkeys(OUTCOMES, 0), **loop.name_server_requests}
        for outcome, number in outcomes.items():
            asked.add_metric([outcome], number)
        yield asked
        moved = CounterMetricFamily(
            f"{prefix}moved_queues", "Queues that changed their owner, by reason", labels=["reason"]
        )
        for reason, number in loop.moved.counts.items():
            moved.add_metric([reason], number)
        yield moved


def _build_gauge(name: str, text: str, more: tuple[str, ...] = ()) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"evenkeel_{name}", text, labels=(*LABELS, *more))


def _read_figures(group: ConsumerGroup) -> Figures:
    """Read the figures of a group from its spec and status."""
    status, strategy = group.status, group.spec.strategy.name
    owned = [found for each in status.assignments for found in _list_owned(each)]
    found: dict[str, float | None] = {
        "queues": status.queues,
        "consumers": status.consumers,
        "idle_consumers": sum(not each.queues for each in status.assignments),
        "unowned_queues": _count_unowned(status, sum(count for _, count in owned)),
        "imbalance": float(status.imbalance or 1),
        "best_imbalance": float(status.best_imbalance or 1),
        "epoch": status.epoch,
        "ready": _read_condition(group, ConditionType.READY),
        "paused": findings.is_paused(group),
    }
    # These queues need no owners.
    if not planning.has_owners(group) or planning.is_changing_balance(group):
        found |= {"idle_consumers": 0, "unowned_queues": 0}
    if (job := group.spec.job) is not None:
        found["adopted_epoch"] = status.adopted_epoch
        found["job_running"] = _read_condition(group, ConditionType.JOB_RUNNING)
        found["job_slots"] = status.executors
        if job.mode is Mode.STREAMING:
            found["job_trigger_seconds"] = times.parse_duration(job.trigger)
    figures: Figures = {name: [((), value)] for name, value in found.items() if value is not None}
    figures["ready_reason"] = [((_read_reason(group),), 1)]
    figures["info"] = [((group.group, strategy.value, _name_mode(group)), 1)]
    figures["owned_queues"] = owned
    if (last := status.last_rebalance) is not None:
        at = datetime.fromisoformat(last.at).timestamp()
        figures["last_rebalance_timestamp_seconds"] = [((last.trigger,), at)]
    return figures


def _read_measured(census: Census) -> Figures:
    """Read the figures that brokers have reported."""
    found: Figures = {
        name: [((broker,), getattr(each, field)) for broker, each in census.waiting_at.items()]
        for name, field in _WAITING.items()
    }
    now_ms, since = time.time() * 1000, census.oldest_ms_at
    found["oldest_waiting_seconds"] = [
        ((broker,), max(0.0, now_ms - since.get(broker, now_ms)) / 1000)
        for broker in census.waiting_at
    ]
    if census.lag is not None:
        found["lag_messages"] = [((), census.lag)]
    if census.dead_letters is not None:
        found["dead_letters"] = [((), census.dead_letters)]
    return found


def _list_owned(assigned: Assigned) -> Iterator[tuple[tuple[str, ...], float]]:
    """Count a consumer's queues by topic and broker. Without queues, yield one row with 0."""
    if not assigned.queues:
        yield (assigned.consumer, "", "", ""), 0
    for part in assigned.queues:
        runs = planning.read_owned(Assigned(assigned.consumer, queues=[part]))
        ids = part.ids if len(part.ids) <= MOST_IDS else f"{part.ids[: MOST_IDS - 3]}..."
        yield (assigned.consumer, part.topic, part.broker, ids), sum(map(len, runs))


def _count_unowned(status: GroupStatus, owned: float) -> float:
    """Count the queues without an owner, if the group should run."""
    assigned = conditions.find(status.conditions, ConditionType.ASSIGNED)
    if assigned is None or assigned.reason == ConditionReason.NOT_RUNNING:
        return 0
    if not planning.is_whole(status):
        return 0  # the number is unknown, because the slices are not read yet
    return max(0, status.queues - owned)  # with Broadcasting each queue has several owners


def _name_mode(group: ConsumerGroup) -> str:
    """Name the kind of consumers."""
    if group.spec.job is not None:
        return group.spec.job.mode.value
    if planning.has_members(group):
        return "Members"
    consumers = group.spec.consumers
    return "Static" if consumers is not None and consumers.static is not None else "PodSelector"


def _read_condition(found: Topic | ConsumerGroup, kind: ConditionType) -> float:
    condition = conditions.find(found.status.conditions, kind)
    return float(condition is not None and condition.holds)


def _read_reason(found: Topic | ConsumerGroup) -> str:
    condition = conditions.find(found.status.conditions, ConditionType.READY)
    return condition.reason if condition is not None else ""
