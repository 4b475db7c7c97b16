"""Prometheus metrics of calls to the API server, and of this process."""

from collections.abc import Iterable

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from evenkeel import __version__
from evenkeel.cluster.api.api_client import Api
from evenkeel.cluster.drivers.restart_turns import RestartTurns
from evenkeel.cluster.watch.resync import Resync

PREFIX = "evenkeel_operator_"


class ProcessMetrics(Collector):
    """Metrics of API calls and of this process, made at each scrape."""

    def __init__(self, api: Api, resync: Resync, restart_turns: RestartTurns) -> None:
        """Store the objects whose counters are read at each scrape."""
        self._restart_turns = restart_turns
        self._api = api
        self._resync = resync
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterable[Metric]:
        """Make all metrics."""
        yield CounterMetricFamily(
            f"{PREFIX}api_writes", "Writes to the API server, including the Lease", self._api.writes
        )
        yield CounterMetricFamily(
            f"{PREFIX}watch_missed_changes",
            "Changes that a list showed and a watch did not report",
            self._resync.missed,
        )
        yield GaugeMetricFamily(
            f"{PREFIX}list_age_seconds",
            "Largest age of the last successful list of any kind of objects",
            self._resync.age,
        )
        refused = GaugeMetricFamily(
            f"{PREFIX}namespace_refused",
            "1 if the operator may not list objects in this namespace, so it decides nothing there",
            labels=["namespace"],
        )
        for namespace, is_refused in self._resync.scopes.list_refused().items():
            refused.add_metric([namespace], is_refused)
        yield refused
        yield GaugeMetricFamily(
            f"{PREFIX}restarts_waiting",
            "Jobs that wait for their restart after an upgrade",
            self._restart_turns.waiting,
        )
        yield GaugeMetricFamily(
            f"{PREFIX}restarts_running",
            "Jobs that are restarting after an upgrade",
            self._restart_turns.restarting,
        )
        build = GaugeMetricFamily(f"{PREFIX}build_info", "Always 1", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        yield from self._process.collect()
