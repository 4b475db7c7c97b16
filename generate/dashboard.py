"""Generates the Grafana dashboard in the chart."""

import json
from pathlib import Path

from generate import dashboard_rows, grafana
from generate.grafana import Json

FILE = Path("charts", "evenkeel", "files", "dashboards", "evenkeel.json")


def write(root: Path) -> None:
    """Write the dashboard to the chart."""
    file = root / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(make_dashboard(), encoding="utf-8")


def make_dashboard() -> str:
    """Generate the dashboard as JSON."""
    whole = {
        "uid": dashboard_rows.UID,
        "title": "Evenkeel",
        "description": "Which consumer reads which RocketMQ queue, and the state of the operator.",
        "tags": ["evenkeel", "rocketmq"],
        "schemaVersion": grafana.SCHEMA,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "",
        "links": [],
        "annotations": {"list": []},
        "templating": {"list": _make_variables()},
        "panels": grafana.place_panels(dashboard_rows.list_rows()),
    }
    return json.dumps(whole, indent=2) + "\n"


def _make_variables() -> list[Json]:
    namespaces = "label_values(evenkeel_group_ready, namespace)"
    groups = f"label_values(evenkeel_group_ready{{{dashboard_rows.ALL}}}, name)"
    return [
        grafana.source(),
        grafana.variable("namespace", "Namespace", namespaces, many=True),
        grafana.variable("group", "Group", groups, many=False),
    ]
