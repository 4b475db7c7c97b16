"""Generates tables of all metrics, from the collectors that Prometheus scrapes."""

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from evenkeel.cluster.process_metrics import ProcessMetrics
from evenkeel.control import metrics
from evenkeel.members.metrics import MemberMetrics
from mq_client.values import MessageQueue
from spark_jobs.pipeline.facts import JobFacts
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.metrics import JobMetrics

HEAD = """\
# Metrics

`make generate` writes this page from the metrics in the code. The operator serves its metrics on
port 8080 (`--port`) under `/metrics`, and a job's driver on port 8090. The operator also exposes
`process_*` metrics. [Monitoring](../operating/monitoring.md) describes what to watch,
the alerts and the dashboard.
"""
TABLE = "| metric | type | labels | meaning |\n|---|---|---|---|\n"


def make_page() -> str:
    """Return the page as Markdown."""
    registry = CollectorRegistry()
    registry.register(metrics.ObjectMetrics(list, list))
    idle: Any = SimpleNamespace(
        queues={}, name_server_requests={}, moved=SimpleNamespace(counts={})
    )
    registry.register(metrics.LoopMetrics(lambda: idle))
    registry.register(MemberMetrics(lambda: None, lambda group: True))
    api: Any = SimpleNamespace(writes=0)
    scopes = SimpleNamespace(list_refused=lambda: {})
    resync: Any = SimpleNamespace(missed=0, age=0.0, scopes=scopes)
    restart_turns: Any = SimpleNamespace(waiting=0, restarting=0)
    registry.register(ProcessMetrics(api, resync, restart_turns))
    of_operator, of_job = list(registry.collect()), list(_list_job_metrics().registry.collect())
    parts = {
        "Groups": _make_section("evenkeel_group_", of_operator),
        "Topics": _make_section("evenkeel_topic_", of_operator),
        "Members": _make_section("evenkeel_members_", of_operator),
        "The operator itself": _make_section("evenkeel_operator_", of_operator),
        "A job": _make_section("evenkeel_job_", of_job),
    }
    tables = (f"\n## {title}\n\n{TABLE}{lines}" for title, lines in parts.items())
    return HEAD + "".join(tables)


def _list_job_metrics() -> JobMetrics:
    facts = JobFacts(0, 0, -1, {}, is_pinned=False, tally=Tally(), error=None)
    lags: Mapping[MessageQueue, int] = {}
    return JobMetrics(lambda: facts, lambda: lags)


def _make_section(prefix: str, found: Iterable[Metric]) -> str:
    return "".join(_make_line(each) for each in found if each.name.startswith(prefix))


def _make_line(metric: Metric) -> str:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    labels = cast("tuple[str, ...]", getattr(metric, "_labelnames", ()))
    shown = ", ".join(f"`{label}`" for label in labels)
    return f"| `{name}` | {metric.type} | {shown} | {metric.documentation} |\n"
