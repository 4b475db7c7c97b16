"""Reads the JSON files of a job's sink, batch by batch."""

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def list_finished(rows: Path) -> list[Path]:
    """List the marker files of complete batches."""
    return list(rows.glob("query=*/batch=*/_SUCCESS"))


def read_batch(done: Path) -> tuple[float, list[Row]]:
    """Read the time at which a batch was complete, and its rows."""
    parts = sorted(done.parent.glob("part-*.json"))
    lines = [line for part in parts for line in part.read_text().splitlines()]
    return done.stat().st_mtime, [json.loads(line) for line in lines]
