"""Generates files of docs/reference: fields, options, metrics, the client and the coordinator."""

from collections.abc import Callable
from pathlib import Path

from generate import client, fields, metrics, openapi, options

FOLDER = Path("docs", "reference")
PAGES: dict[str, Callable[[], str]] = {
    "topic.md": lambda: fields.make_page("Topic"),
    "consumergroup.md": lambda: fields.make_page("ConsumerGroup"),
    "commands.md": options.make_page,
    "metrics.md": metrics.make_page,
    "client.md": client.make_page,
    "coordinator.yaml": openapi.make_document,
}


def write(root: Path) -> None:
    """Write all files."""
    for name, page in PAGES.items():
        (root / FOLDER / name).write_text(page(), encoding="utf-8")
