"""Reads what a job has written into files of JSON, batch by batch."""

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def finished(rows: Path) -> list[Path]:
    """List what marks the batches that are complete."""
    return list(rows.glob("query=*/batch=*/_SUCCESS"))


def batch(done: Path) -> tuple[float, list[Row]]:
    """Read a batch by its mark: when it was complete, and its rows."""
    parts = sorted(done.parent.glob("part-*.json"))
    lines = [line for part in parts for line in part.read_text().splitlines()]
    return done.stat().st_mtime, [json.loads(line) for line in lines]
