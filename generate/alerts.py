"""Generates the table of alerts in docs/operating/monitoring.md from the alert rules."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from generate import marks

PAGE = Path("docs", "operating", "monitoring.md")
RULES = Path("charts", "evenkeel", "files", "alerts.yaml")
_WHICH = re.compile(r"( in namespace)? \{\{ \$labels\.namespace \}\}(/\{\{ \$labels\.name \}\})?")
_OTHERS = re.compile(r"\{\{.*?\}\}")
HEAD = "| alert | severity | after | |\n|---|---|---|---|\n"


def make_table(root: Path) -> str:
    """Make a line for each alert. The name of the alert links to its runbook."""
    return HEAD + "\n".join(_make_lines(yaml.safe_load((root / RULES).read_text(encoding="utf-8"))))


def _make_lines(rules: Mapping[str, Any]) -> Iterator[str]:
    for rule in (each for group in rules["groups"] for each in group["rules"]):
        told = rule["annotations"]
        said = _OTHERS.sub("…", _WHICH.sub("", told["summary"]))
        link = f"[{rule['alert']}](../{told['runbook_url'].rstrip('/')}.md)"
        yield f"| {link} | {rule['labels']['severity']} | {rule['for']} | {said} |"


def write(root: Path) -> None:
    """Update the table on the page."""
    marks.write(root / PAGE, {"alerts": make_table(root)})
