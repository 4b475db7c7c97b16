"""
Builds the panels of a Grafana dashboard from short descriptions.

A dashboard is a list of rows, and a row is a list of panels. `place_panels` computes the positions
and ids of the panels. Every query uses the data source that the viewer selects.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
SCHEMA = 42
WIDTH = 24
RED, YELLOW, GREEN, PLAIN = "red", "yellow", "green", "text"


@dataclass(frozen=True)
class Query:
    """A query to Prometheus."""

    expr: str
    legend: str = ""
    """
    The name of each series. In a table it is the heading of the column, and a column without a
    heading is hidden.
    """


@dataclass(frozen=True)
class Panel:
    """One panel."""

    kind: str
    title: str
    text: str
    """The description, which is shown as a tooltip."""
    queries: Sequence[Query]
    width: int
    height: int
    unit: str = "short"
    options: Json = field(default_factory=dict)
    defaults: Json = field(default_factory=dict)
    """Further defaults of fields, besides the unit."""
    more: Json = field(default_factory=dict)
    overrides: Sequence[Json] = ()


def make_number(
    title: str,
    text: str,
    expr: str,
    *,
    unit: str = "none",
    red_from: float | None = None,
    width: int = 4,
) -> Panel:
    """Show one number, in red if it is too high."""
    calm = [(None, PLAIN)] if red_from is None else [(None, GREEN), (red_from, RED)]
    return Panel(
        "stat", title, text, [Query(expr)], width, 4, unit,
        options={
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value", "graphMode": "area", "textMode": "auto",
        },
        defaults={"thresholds": color(*calm)},
    )  # fmt: skip


def make_words(title: str, text: str, query: Query, *, width: int = 4) -> Panel:
    """Show the names of series, without values."""
    return Panel(
        "stat", title, text, [query], width, 4,
        options={
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "none", "graphMode": "none", "textMode": "name",
        },
    )  # fmt: skip


def graph(
    title: str,
    text: str,
    *queries: Query,
    unit: str = "short",
    width: int = 8,
    stacked: bool = False,
    red_from: float | None = None,
) -> Panel:
    """Show a time series. A dashed line marks the limit `red_from`."""
    custom: Json = {
        "drawStyle": "line", "lineInterpolation": "stepAfter", "lineWidth": 1,
        "fillOpacity": 30 if stacked else 5, "showPoints": "auto", "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "off" if red_from is None else "dashed"},
    }  # fmt: skip
    calm = [(None, GREEN)] if red_from is None else [(None, GREEN), (red_from, RED)]
    return Panel(
        "timeseries", title, text, queries, width, 8, unit,
        options={
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        defaults={
            "min": 0, "custom": custom, "color": {"mode": "palette-classic"},
            "thresholds": color(*calm),
        },
    )  # fmt: skip


def make_table(
    title: str,
    text: str,
    queries: Sequence[Query],
    labels: Mapping[str, str],
    *,
    width: int = WIDTH,
    height: int = 9,
    overrides: Sequence[Json] = (),
) -> Panel:
    """Show one line per set of labels, with a column for each label and each query."""
    values = {f"Value #{letter}": each.legend for letter, each in _letter(queries)}
    if len(queries) == 1:
        values = {"Value": queries[0].legend}
    shown = {name: heading for name, heading in values.items() if heading}
    order = [*labels, *shown]
    arranged = {
        "renameByName": {**labels, **shown},
        "indexByName": {name: place for place, name in enumerate(order)},
        "excludeByName": dict.fromkeys(
            ["Time", *(name for name in values if name not in shown)], True
        ),
    }
    return Panel(
        "table", title, text, queries, width, height, "none",
        options={"showHeader": True, "cellHeight": "sm", "footer": {"show": False}},
        defaults={"custom": {"align": "auto", "filterable": True}},
        more={
            "transformations": [
                {"id": "merge", "options": {}},
                {"id": "organize", "options": arranged},
            ]
        },
        overrides=overrides,
    )  # fmt: skip


def make_column(name: str, **properties: object) -> Json:
    """Override the display of one column."""
    found = [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()]
    return {"matcher": {"id": "byName", "options": name}, "properties": found}


def color(*steps: tuple[float | None, str]) -> Json:
    """Color values. Each color applies to values from its step upwards."""
    return {
        "mode": "absolute",
        "steps": [{"value": value, "color": color} for value, color in steps],
    }


def place_panels(rows: Mapping[str, Iterable[Panel]]) -> list[Json]:
    """Place the panels of each row from left to right. Begin a new line when a line is full."""
    found: list[Json] = []
    top = 0
    for title, panels in rows.items():
        found.append(_make_row(title, top))
        left, top, tallest = 0, top + 1, 0
        for panel in panels:
            if left + panel.width > WIDTH:
                left, top, tallest = 0, top + tallest, 0
            place = {"x": left, "y": top, "w": panel.width, "h": panel.height}
            found.append(_render(panel) | {"gridPos": place})
            left, tallest = left + panel.width, max(tallest, panel.height)
        top += tallest
    return [{"id": number, **each} for number, each in enumerate(found, 1)]


def variable(name: str, label: str, query: str, *, many: bool) -> Json:
    """Build a variable by which the viewer selects a value of a label."""
    return {
        "name": name, "label": label, "type": "query", "datasource": SOURCE,
        "definition": query, "query": {"query": query, "refId": name},
        "refresh": 2, "sort": 1, "regex": "", "hide": 0,
        "multi": many, "includeAll": many, **({"allValue": ".*"} if many else {}),
        "current": {"text": "All", "value": "$__all"} if many else {},
    }  # fmt: skip


def source() -> Json:
    """Build a variable by which the viewer selects the data source."""
    return {
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
        "refresh": 1, "regex": "", "hide": 0, "multi": False, "includeAll": False, "current": {},
    }  # fmt: skip


def _make_row(title: str, top: int) -> Json:
    return {
        "type": "row", "title": title, "collapsed": False, "panels": [],
        "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1},
    }  # fmt: skip


def _render(panel: Panel) -> Json:
    return {
        "type": panel.kind, "title": panel.title, "description": panel.text, "datasource": SOURCE,
        "targets": [_target(panel, letter, each) for letter, each in _letter(panel.queries)],
        "options": panel.options,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, **panel.defaults},
            "overrides": list(panel.overrides),
        },
        **panel.more,
    }  # fmt: skip


def _target(panel: Panel, letter: str, query: Query) -> Json:
    is_table = panel.kind == "table"
    return {
        "refId": letter, "datasource": SOURCE, "expr": query.expr, "legendFormat": query.legend,
        "instant": is_table, "range": not is_table,
        "format": "table" if is_table else "time_series",
    }  # fmt: skip


def _letter(queries: Sequence[Query]) -> list[tuple[str, Query]]:
    return [(chr(ord("A") + number), each) for number, each in enumerate(queries)]
