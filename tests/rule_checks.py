"""
Checks the alert rules, their tests and pages, and the dashboard: `python -m tests.rule_checks`.

promtool reads the rules and runs their tests. This program checks that each alert has everything
that it needs. It prints one line per check or complaint, and exits with 1 if there are complaints.
Without promtool, a loud line says what was skipped.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from generate import grafana
from sandbox import debian, jars, process

ROOT = Path(__file__).parents[1]
ALERTS = Path("charts", "evenkeel", "files", "alerts.yaml")
DASHBOARD = Path("charts", "evenkeel", "files", "dashboards", "evenkeel.json")
TESTS = Path("tests", "alerts")
PAGES = Path("docs", "runbooks")
PROMTOOL = ("prometheus", "usr/bin/promtool")
SEVERITIES = ("critical", "warning", "info")
SAID = {"summary", "description", "runbook_url"}
FILLED_IN = {
    "$namespace": ".*", "$group": "billing", "$__rate_interval": "1m", "$__range": "1h",
}  # fmt: skip
"""The values that Grafana would insert for variables."""
Document = dict[str, Any]


def main() -> int:
    """Print what was found; the exit code is 1 if there are complaints."""
    found = [*of_alerts(ROOT), *of_tests(ROOT), *of_dashboard(ROOT)]
    skipped = []
    try:
        found += of_promtool(ROOT, debian.find_program(*PROMTOOL))
    except (process.SandboxError, jars.JarsError) as error:
        skipped = [f"SKIPPED WHAT PROMTOOL CHECKS: {error}"]
    count = f"{len(alerts(ROOT))} alerts, {len(found)} complaints"
    sys.stdout.writelines(f"{line}\n" for line in (*skipped, *found, count))
    return 1 if found else 0


def alerts(root: Path) -> dict[str, Document]:
    """Read all alerts by name."""
    groups = yaml.safe_load((root / ALERTS).read_text("utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def of_alerts(root: Path) -> Iterator[str]:
    """Yield complaints about incomplete alerts, and about pages."""
    pages = {page.stem for page in (root / PAGES).glob("*.md")}
    for name, rule in alerts(root).items():
        said, page = rule.get("annotations", {}), kebab(name)
        if not name.startswith("Evenkeel"):
            yield f"{name}: its name does not begin with Evenkeel"
        if "for" not in rule:
            yield f"{name}: it has no `for`, so it would fire at once"
        if rule.get("labels", {}).get("severity") not in SEVERITIES:
            yield f"{name}: its severity is none of {', '.join(SEVERITIES)}"
        if missing := SAID - said.keys():
            yield f"{name}: it has no {', '.join(sorted(missing))}"
        elif said["runbook_url"] != f"runbooks/{page}/":
            yield f"{name}: its runbook_url is not runbooks/{page}/"
        if page not in pages:
            yield f"{name}: there is no {PAGES / page}.md"
        elif (root / PAGES / f"{page}.md").read_text("utf-8").splitlines()[0] != f"# {name}":
            yield f"{PAGES / page}.md does not begin with # {name}"
        pages.discard(page)
    yield from (f"{PAGES / page}.md describes no alert" for page in sorted(pages))


def of_tests(root: Path) -> Iterator[str]:
    """Yield complaints about alerts for which no test has a firing or a quiet case."""
    fires, is_quiet = set(), set()
    for file in sorted((root / TESTS).glob("*.yaml")):
        for test in yaml.safe_load(file.read_text("utf-8"))["tests"]:
            asked = {each["alertname"] for each in test["alert_rule_test"]}
            fired = {each["alertname"] for each in test["alert_rule_test"] if "exp_alerts" in each}
            fires |= fired
            is_quiet |= asked - fired
    for name in alerts(root):
        if name not in fires:
            yield f"{name}: no test lets it fire"
        if name not in is_quiet:
            yield f"{name}: no test has a case when it does not fire"


def of_dashboard(root: Path) -> Iterator[str]:
    """Yield complaints about panels that show nothing, or that overlap."""
    dashboard = json.loads((root / DASHBOARD).read_text("utf-8"))
    panels = dashboard["panels"]
    if len({panel["id"] for panel in panels}) < len(panels):
        yield "the dashboard has two panels of one id"
    taken: dict[tuple[int, int], str] = {}
    for panel in panels:
        title, place = panel["title"], panel["gridPos"]
        if place["x"] + place["w"] > grafana.WIDTH:
            yield f"panel {title!r} is beyond the edge"
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                if (x, y) in taken:
                    yield f"panel {title!r} covers {taken[x, y]!r}"
                    return
                taken[x, y] = title
        if panel["type"] != "row" and not (panel["targets"] and panel["description"]):
            yield f"panel {title!r} has no query or no description"
    known = {each["name"] for each in dashboard["templating"]["list"]}
    for source in re.findall(r'"uid": "([^"]*)"', json.dumps(panels)):
        if source != "${datasource}" or "datasource" not in known:
            yield f"a panel asks the data source {source!r}, which no variable chooses"
    for expr in queries(dashboard):
        if "$" in filled_in(expr, FILLED_IN):
            yield f"a query has an unknown variable: {expr}"


def queries(dashboard: Document) -> list[str]:
    """List the queries of all panels."""
    panels = dashboard["panels"]
    return [each["expr"] for panel in panels for each in panel.get("targets", ())]


def filled_in(expr: str, values: Mapping[str, str]) -> str:
    """Replace variables by values."""
    for name, value in values.items():
        expr = expr.replace(name, value)
    return expr


def of_promtool(root: Path, promtool: Path) -> Iterator[str]:
    """Yield promtool's complaints, also about the dashboard's queries."""
    yield from _failures(promtool, "check", "rules", root / ALERTS)
    yield from _failures(promtool, "test", "rules", *sorted((root / TESTS).glob("*.yaml")))
    asked = queries(json.loads((root / DASHBOARD).read_text("utf-8")))
    rules = [
        {"record": f"dashboard:{number}", "expr": filled_in(expr, FILLED_IN)}
        for number, expr in enumerate(asked)
    ]
    with tempfile.TemporaryDirectory(prefix="evenkeel-rules-") as folder:
        file = Path(folder) / "dashboard.yaml"
        file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
        yield from _failures(promtool, "check", "rules", file)


def _failures(*command: str | Path) -> Sequence[str]:
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return [] if answer.returncode == 0 else [f"{answer.stdout}{answer.stderr}"]


def kebab(name: str) -> str:
    """Write EvenkeelNoLeader as evenkeel-no-leader."""
    return re.sub(r"(?<=.)(?=[A-Z])", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
