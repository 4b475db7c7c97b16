"""Print rows as a table or as JSON, and read options that several commands share."""

import argparse
import re
from collections.abc import Sequence

from mq_client import errors, tables
from mq_client.blocking import Client
from mq_client.tables import Row
from mq_client.values import MessageQueue, Offsets

EARLIEST, LATEST = "earliest", "latest"


def print_rows(options: argparse.Namespace, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Print all rows at once."""
    print(tables.as_json(rows) if is_json(options) else tables.as_table(columns, rows), flush=True)


def is_json(options: argparse.Namespace) -> bool:
    """Whether the output is JSON."""
    found: bool = options.output == "json"
    return found


def number(text: str) -> int | None:
    """Read a number that fits into 64 bits; None where there is none."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def chosen(
    options: argparse.Namespace, offsets: dict[MessageQueue, Offsets]
) -> dict[MessageQueue, Offsets]:
    """Keep the queue that `--queue` names, or all queues without that option."""
    found = {
        queue: place
        for queue, place in offsets.items()
        if options.queue is None or options.queue == f"{queue.broker}:{queue.id}"
    }
    if not found:
        raise errors.UsageError(f"topic {options.topic!r} has no such queue as {options.queue!r}")
    return found


def place(text: str) -> str:
    """Accept a place in a queue: earliest, latest, or a time in milliseconds."""
    if text not in (EARLIEST, LATEST) and number(text) is None:
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is none of earliest, latest, or milliseconds since 1970"
        )
    return text


def offset_at(client: Client, place: str, queue: MessageQueue, offsets: Offsets) -> int:
    """Find the offset of such a place in a queue."""
    if place in (EARLIEST, LATEST):
        return offsets.min if place == EARLIEST else offsets.max
    return client.search_offset(queue, int(place))
