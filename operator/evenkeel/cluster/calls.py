"""Prometheus metrics of calls to the API server, and of this process."""

from collections.abc import Iterable

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from evenkeel import __version__
from evenkeel.cluster.api import Api
from evenkeel.cluster.resync import Resync
from evenkeel.cluster.staging import Staging

PREFIX = "evenkeel_operator_"


class Calls(Collector):
    """Made at each scrape."""

    def __init__(self, api: Api, resync: Resync, staging: Staging) -> None:
        """All count by themselves."""
        self._staging = staging
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
            "Changes that only a list has shown",
            self._resync.missed,
        )
        yield GaugeMetricFamily(
            f"{PREFIX}list_age_seconds",
            "Time since the oldest of the last successful lists",
            self._resync.age,
        )
        refused = GaugeMetricFamily(
            f"{PREFIX}namespace_refused",
            "1 if lists are refused in this namespace, so that nothing is decided there",
            labels=["namespace"],
        )
        for namespace, is_refused in self._resync.scopes.refused().items():
            refused.add_metric([namespace], is_refused)
        yield refused
        yield GaugeMetricFamily(
            f"{PREFIX}restarts_waiting",
            "Jobs that keep an older image or pod until their turn to restart",
            self._staging.waiting,
        )
        yield GaugeMetricFamily(
            f"{PREFIX}restarts_running",
            "Jobs that are restarting after an upgrade",
            self._staging.restarting,
        )
        build = GaugeMetricFamily(f"{PREFIX}build_info", "Always 1", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        yield from self._process.collect()
