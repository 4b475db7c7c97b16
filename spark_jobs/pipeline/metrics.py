"""
Prometheus metrics of a job: http://driver:PORT/metrics.

At each scrape, collectors make counters and gauges from the job's facts, and ask the brokers for
the lag. Durations are recorded as soon as they are known. A handover is often over before the next
scrape, so a thread checks the facts twice a second.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mq_client.errors import MqError, UsageError
from mq_client.values import MessageQueue
from spark_jobs.pipeline import scrapes
from spark_jobs.pipeline.facts import JobFacts, LaneFacts
from spark_jobs.pipeline.fetching import Tally

log = logging.getLogger("evenkeel.job")
PREFIX = "evenkeel_job_"
LOOK_SECONDS = 0.5
SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 300)


class JobMetrics:
    """A registry of one job's metrics."""

    def __init__(
        self, facts: Callable[[], JobFacts], lag: Callable[[], Mapping[MessageQueue, int]]
    ) -> None:
        """Serve nothing yet."""
        self.registry = CollectorRegistry()
        self.registry.register(_FactsAtScrape(facts))
        self.registry.register(_LagAtScrape(lag))
        self._facts = facts
        self.planning = self._add_histogram(
            "planning", "Time to plan a batch: to ask the brokers and to make the tasks"
        )
        self.batch = self._add_histogram(
            "batch",
            "Time of a batch, from planning to the end of the sink. In a flow: from the first row "
            "of a commit until it counts",
        )
        self.delay = self._add_histogram(
            "delay",
            "In a flow: longest time in a commit from storing a message until the function gets "
            "it, by the clocks of broker and executor",
        )
        self.handover = self._add_histogram(
            "handover", "From receiving an assignment until a batch that follows it is committed"
        )
        self.failures = Counter(
            f"{PREFIX}failures", "Failures of batches and of their planning", registry=self.registry
        )

    def _add_histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"{PREFIX}{name}_seconds", text, registry=self.registry, buckets=SECONDS)

    def note_commit(self, age: float, delay: float) -> None:
        """Record how old the rows of a flow's commit are, and how late its messages were."""
        self.batch.observe(age)
        if delay > 0:  # a commit without messages has no delay
            self.delay.observe(delay)

    def serve(self, port: int) -> None:
        """Answer scrapes from now on, in separate threads."""
        try:
            scrapes.serve(port, self.write)
        except OSError as error:
            raise UsageError(f"metricsPort {port} cannot be used: {error}") from error
        watch = HandOver(self._facts().adopted_epoch)
        threading.Thread(
            target=self._keep_looking, args=(watch,), name="hand-over", daemon=True
        ).start()

    def _keep_looking(self, watch: "HandOver") -> None:
        while True:
            facts = self._facts()
            lasted = watch.look(facts.published_epoch, facts.adopted_epoch, time.monotonic())
            if lasted is not None:
                self.handover.observe(lasted)
            time.sleep(LOOK_SECONDS)

    def write(self, names: Sequence[str]) -> bytes:
        """Write the metrics with these names, or all."""
        if names:
            return generate_latest(self.registry.restricted_registry(names))
        return generate_latest(self.registry)


class HandOver:
    """Measures how long assignments wait until they are adopted."""

    def __init__(self, adopted: int) -> None:
        """Begin with the epoch that is already adopted."""
        self._adopted = adopted
        self._since: float | None = None
        """When the pending assignment was first seen."""

    def look(self, published: int, adopted: int, now: float) -> float | None:
        """Compare the epochs; if a handover has just ended, return how many seconds it took."""
        is_new, self._adopted = adopted > self._adopted, adopted
        if published > adopted:
            self._since = now if self._since is None else self._since
            return None
        since, self._since = self._since, None
        if since is not None:
            return now - since
        return LOOK_SECONDS if is_new else None  # the handover began and ended between two checks


class _FactsAtScrape(Collector):
    """Makes metrics from the facts. `describe` tells the registry which metrics there are."""

    def __init__(self, facts: Callable[[], JobFacts]) -> None:
        self._facts = facts

    def describe(self) -> Iterable[Metric]:
        """Describe the metrics without the facts."""
        return _make_metrics(JobFacts(0, 0, -1, {}, is_pinned=False, tally=Tally(), error=None))

    def collect(self) -> Iterable[Metric]:
        """Make the metrics of the facts now."""
        return _make_metrics(self._facts())


def _make_metrics(facts: JobFacts) -> Iterator[Metric]:
    tally = facts.tally
    yield _make_gauge("epoch_published", "Number of the newest assignment", facts.published_epoch)
    yield _make_gauge(
        "epoch_adopted", "Number of the assignment that the job follows", facts.adopted_epoch
    )
    yield _make_gauge("batch", "Highest number of a committed batch", facts.batch)
    yield _make_gauge("slots_filled", "Slots with an executor", len(facts.slots))
    yield _make_gauge(
        "pinned",
        "1 if tasks were seen to run on the executors to which they are sent",
        facts.is_pinned,
    )
    yield _make_counter("tasks", "Tasks that have pulled messages", tally.tasks)
    yield _make_counter(
        "misplaced_tasks", "Tasks that ran on another executor than planned", tally.misplaced
    )
    yield _make_counter("bytes", "Bytes of pulled rows", tally.bytes)
    yield _make_counter("offsets", "Offsets that tasks had to read, filtered or not", tally.offsets)
    yield _make_counter(
        "given_up_tasks",
        "Tasks of a flow that were given up: they were silent, or their connection ended",
        facts.given_up,
    )
    yield _make_counter(
        "refused_commits",
        "Commits of a flow that were refused: their tasks had been given up",
        facts.refused,
    )
    cancelled = CounterMetricFamily(
        f"{PREFIX}cancelled_batches",
        "Cancellations of batches, which run again, because a broker or an executor did not answer",
        labels=["silent"],
    )
    for silent, count in facts.cancelled.items():
        cancelled.add_metric([silent], count)
    yield cancelled
    yield from _make_lane_metrics(facts.lanes)
    started = GaugeMetricFamily(
        f"{PREFIX}start_seconds",
        "Time from the start of the driver until each step of its start was done",
        labels=["step"],
    )
    for step, seconds in facts.started.items():
        started.add_metric([step], seconds)
    yield started
    rows = CounterMetricFamily(f"{PREFIX}rows", "Pulled rows", labels=["slot"])
    for slot, count in list(tally.rows.items()):
        rows.add_metric([slot], count)
    yield rows


def _make_lane_metrics(lanes: Sequence[LaneFacts]) -> Iterator[Metric]:
    batch = _make_lane_gauge(
        "lane_batch", "Number of the batch that each lane runs; missing while none runs"
    )
    seconds = _make_lane_gauge(
        "lane_batch_seconds",
        "For how long the batch of each lane has been running since its last start; 0 if none runs",
    )
    offsets = _make_lane_gauge("lane_batch_offsets", "Offsets that the batch of each lane reads")
    left_out = _make_lane_gauge(
        "lane_left_out",
        "1 for each broker that did not answer, and from which a lane has read nothing since",
        "broker",
    )
    for each in lanes:
        lane = str(each.lane)
        seconds.add_metric([lane], each.seconds)
        offsets.add_metric([lane], each.offsets)
        if each.batch is not None:
            batch.add_metric([lane], each.batch)
        for broker in each.left_out:
            left_out.add_metric([lane, broker], 1)
    yield from (batch, seconds, offsets, left_out)


def _make_lane_gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}{name}", text, labels=["lane", *labels])


class _LagAtScrape(Collector):
    """Asks the brokers for the lag, if a scrape selects it."""

    def __init__(self, lag: Callable[[], Mapping[MessageQueue, int]]) -> None:
        self._lag = lag

    def describe(self) -> Iterable[Metric]:
        """Describe the metric without asking the brokers."""
        return [self._make_family()]

    def collect(self) -> Iterable[Metric]:
        """Ask the brokers, and make the metric. Without an answer, the metric has no values."""
        family = self._make_family()
        try:
            lags = self._lag()
        except MqError as error:
            log.warning("the lag is unknown now: %s", error)
            return [family]
        for queue, count in lags.items():
            family.add_metric([queue.topic, queue.broker, str(queue.id)], count)
        return [family]

    def _make_family(self) -> GaugeMetricFamily:
        labels = ["topic", "broker", "queue"]
        return GaugeMetricFamily(
            f"{PREFIX}lag_messages", "Messages after the committed offsets", labels=labels
        )


def _make_gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}{name}", text, value)


def _make_counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"{PREFIX}{name}", text, value)
