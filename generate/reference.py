"""Generates the pages of docs/reference: fields, options, metrics and the client."""

from collections.abc import Callable
from pathlib import Path

from generate import client, fields, metrics, options

FOLDER = Path("docs", "reference")
PAGES: dict[str, Callable[[], str]] = {
    "topic.md": lambda: fields.make_page("Topic"),
    "consumergroup.md": lambda: fields.make_page("ConsumerGroup"),
    "commands.md": options.make_page,
    "metrics.md": metrics.make_page,
    "client.md": client.make_page,
}


def write(root: Path) -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (root / FOLDER / name).write_text(page(), encoding="utf-8")
