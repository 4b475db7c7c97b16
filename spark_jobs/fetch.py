"""Pulls ranges of queues into Arrow batches, on executors."""

import logging
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from mq_client import errors
from mq_client.blocking import Client
from mq_client.filters import Filter
from mq_client.messages import Unreadable
from mq_client.operations import offsets, pulling
from mq_client.pulling import Batch, BeyondEndError, Position
from mq_client.values import MessageQueue
from spark_jobs import connections, schema
from spark_jobs.options import ClusterOptions
from spark_jobs.planning import DataLossError, Range

log = logging.getLogger("evenkeel.source")
LOOK_SECONDS = 2.0
"""After this time without a message, check whether queues end before the planned offset."""


def fetch(
    ranges: list[Range],
    cluster: ClusterOptions,
    group: str,
    wanted: Filter,
    *,
    allow_gaps: bool,
    include_properties: bool,
    gaps: list[Range] | None = None,
    unreadable: list[Unreadable] | None = None,
) -> Iterator[pa.RecordBatch]:
    """
    Yield the messages of these ranges, as rows; the order within a queue is kept.

    Lost messages that were skipped, if `allow_gaps`, are added to `gaps` at the end. A message that
    cannot be read is added to `unreadable` if that is given; otherwise it counts as lost.
    """
    positions = [
        Position(each.queue, each.start, each.stop, wanted, allow_gaps=allow_gaps)
        for each in ranges
    ]
    client = connections.get_client(cluster)
    counts: Counter[MessageQueue] = Counter()
    lost: list[Range] = []
    for batch in _read_batches(client, group, positions, cluster):
        broken: list[Unreadable] = []
        may_skip = allow_gaps or unreadable is not None
        rows = batch.to_columns(broken if may_skip else None)
        counts[batch.queue] += rows.num_rows
        if rows.num_rows:
            yield schema.make_rows(rows, include_properties)
        for each in broken:
            log.warning("%s: offset %d cannot be read: %s", batch.queue, each.first, each.reason)
            part = _find_range(batch, each)
            counts[batch.queue] += part.stop - part.start
            if unreadable is None:
                lost.append(part)
            else:
                unreadable.append(each)
    if wanted.is_everything:
        for planned, position in zip(ranges, positions, strict=True):
            _check_sum(planned, counts[planned.queue], position)
    lost += [Range(position.queue, *gap) for position in positions for gap in position.gaps]
    for gap in lost:
        log.warning("messages are lost: %s: offsets %d to %d", gap.queue, gap.start, gap.stop - 1)
    if gaps is not None:
        gaps += lost


def _find_range(batch: Batch, broken: Unreadable) -> Range:
    """Find which offsets of a batch an unreadable message takes."""
    return Range(batch.queue, max(batch.first, broken.first), min(batch.stop, broken.stop))


def _check_sum(planned: Range, rows: int, position: Position) -> None:
    """
    Refuse to end a task if its rows and gaps do not add up to what was planned.

    Unreadable messages count as rows.
    """
    gone = sum(stop - first for first, stop in position.gaps)
    if rows + gone != planned.stop - planned.start:
        raise DataLossError(
            f"{planned.queue}: offsets {planned.start} to {planned.stop - 1} gave {rows} rows, "
            f"and {gone} are known to be deleted: {planned.stop - planned.start} were expected; "
            "report this, for the client or the broker is wrong"
        )


def _read_batches(
    client: Client, group: str, positions: list[Position], cluster: ClusterOptions
) -> Iterator[Batch]:
    """Read all positions. Check queues that stay silent: a broker may have lost messages."""
    reader = client.read(group, positions, cluster.fetch_bytes)
    patience = cluster.fetch_deadline
    look = min(LOOK_SECONDS, patience)
    looks: Counter[MessageQueue] = Counter()
    while left := [position for position in positions if not position.is_done]:
        is_silent = True
        try:
            for batch in reader.poll(look):
                is_silent = False
                looks.clear()
                yield batch
        except BeyondEndError as error:
            is_silent = False
            for position in left:
                if position.queue == error.queue:
                    _check_end(position, error.end)
        if is_silent and _check_ends(client, left, looks, patience / look):
            # A pull in flight must not move a queue again that was cut off.
            left = [position for position in left if not position.is_done]
            reader = client.read(group, left, cluster.fetch_bytes)


def _check_ends(
    client: Client, positions: list[Position], looks: Counter[MessageQueue], most: float
) -> bool:
    """
    Ask the masters whether queues end too early; whether one was cut off there.

    A master that reports messages more than `most` times and sends none is an error.
    """
    tasks = [
        client.start(offsets.find_master_max_offset(client.directory, position.queue))
        for position in positions
    ]
    is_cut = False
    for position, task in zip(positions, tasks, strict=True):
        try:
            end = client.wait(task)
        except pulling.MAY_PASS:
            continue  # the pulls fail in the same way, and report it in time
        is_cut |= _check_end(position, end)
        looks[position.queue] += 1
        # With a filter, the broker may search for long and find nothing.
        if position.wanted.is_everything and not position.is_done and looks[position.queue] > most:
            raise errors.UnavailableError(
                f"{position.queue} from offset {position.next}: no message comes, though the queue "
                f"ends at {end}; see the log of its broker"
            )
    return is_cut


def _check_end(position: Position, end: int) -> bool:
    """Cut a queue off at its end, once everything before it is read."""
    if position.stop is None or end >= position.stop:
        return False
    if not position.allow_gaps:
        raise DataLossError(
            f"{position.queue} ends at {end}, but was to be read up to {position.stop}: "
            "the topic was made anew, or the broker lost messages"
        )
    if position.next < end:
        return False
    position.gaps.append((position.next, position.stop))
    position.next = position.stop
    return True
