"""Print rows as a table or as JSON, and parse options that several commands share."""

import argparse
import re
from collections.abc import Sequence

from mq_client import errors, tables
from mq_client.blocking import Client
from mq_client.tables import Row
from mq_client.values import MessageQueue, Offsets

EARLIEST, LATEST = "earliest", "latest"


def print_rows(options: argparse.Namespace, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Print rows as a table or as JSON."""
    print(tables.to_json(rows) if is_json(options) else tables.to_table(columns, rows), flush=True)


def is_json(options: argparse.Namespace) -> bool:
    """Return whether the output is JSON."""
    found: bool = options.output == "json"
    return found


def parse_number(text: str) -> int | None:
    """Parse a number of up to 18 digits. None: the text is not such a number."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def choose_queues(
    options: argparse.Namespace, offsets: dict[MessageQueue, Offsets]
) -> dict[MessageQueue, Offsets]:
    """Select the queue that `--queue` names, or all queues."""
    found = {
        queue: place
        for queue, place in offsets.items()
        if options.queue is None or options.queue == f"{queue.broker}:{queue.id}"
    }
    if not found:
        raise errors.UsageError(f"topic {options.topic!r} has no queue {options.queue!r}")
    return found


def parse_place(text: str) -> str:
    """Check a place in a queue: earliest, latest, or a time in milliseconds."""
    if text not in (EARLIEST, LATEST) and parse_number(text) is None:
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is not earliest, latest, or milliseconds since 1970"
        )
    return text


def find_offset(client: Client, place: str, queue: MessageQueue, offsets: Offsets) -> int:
    """Find the offset of a place: earliest, latest, or a time."""
    if place in (EARLIEST, LATEST):
        return offsets.min if place == EARLIEST else offsets.max
    return client.search_offset(queue, int(place))
