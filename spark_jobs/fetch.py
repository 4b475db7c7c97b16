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

    With `allow_gaps`, skip lost messages, and add their ranges to `gaps` at the end. Add each
    message that cannot be read to `unreadable`. If `unreadable` is None, such a message counts as
    lost with `allow_gaps`, and is an error without `allow_gaps`.
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
    """Return the offsets of this batch that the unreadable message covers."""
    return Range(batch.queue, max(batch.first, broken.first), min(batch.stop, broken.stop))


def _check_sum(planned: Range, rows: int, position: Position) -> None:
    """
    Raise an error if the rows and gaps of a range do not add up to its planned offsets.

    Here, unreadable messages count as rows.
    """
    gone = sum(stop - first for first, stop in position.gaps)
    if rows + gone != planned.stop - planned.start:
        raise DataLossError(
            f"{planned.queue}: offsets {planned.start} to {planned.stop - 1} gave {rows} rows, and "
            f"{gone} messages are known to be deleted, but the sum should be "
            f"{planned.stop - planned.start}: report this as a defect of the client or the broker"
        )


def _read_batches(
    client: Client, group: str, positions: list[Position], cluster: ClusterOptions
) -> Iterator[Batch]:
    """Read all positions. If no message comes, check where the queues end."""
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
            # Use a new reader: a pull still in flight must not move a position that was cut off.
            left = [position for position in left if not position.is_done]
            reader = client.read(group, left, cluster.fetch_bytes)


def _check_ends(
    client: Client, positions: list[Position], looks: Counter[MessageQueue], most: float
) -> bool:
    """
    Ask the masters where these queues end, and cut off positions that were planned beyond the end.

    Return whether any position was cut off. Raise an error if a master reports more than `most`
    times that a queue has messages, but sends none of them.
    """
    tasks = [
        client.start(offsets.find_master_max_offset(client.directory, position.queue))
        for position in positions
    ]
    is_cut = False
    for position, task in zip(positions, tasks, strict=True):
        try:
            end = client.wait(task)
        except pulling.PULL_MAY_PASS:
            continue  # pulls fail in the same way, and raise the error if it lasts
        is_cut |= _check_end(position, end)
        looks[position.queue] += 1
        # With a filter, the broker may search for a long time and find nothing.
        if position.wanted.is_everything and not position.is_done and looks[position.queue] > most:
            raise errors.UnavailableError(
                f"{position.queue} from offset {position.next}: the broker sends no message, "
                f"although the queue ends only at {end}; see the broker's log"
            )
    return is_cut


def _check_end(position: Position, end: int) -> bool:
    """
    Cut off the position if its queue ends before the planned end; return whether it was cut off.

    To cut off a position is to record the offsets that do not exist as a gap, and to stop reading.
    While the queue has unread messages before its end, the position is not cut off.
    """
    if position.stop is None or end >= position.stop:
        return False
    if not position.allow_gaps:
        raise DataLossError(
            f"{position.queue} ends at {end}, but was planned up to {position.stop}: "
            "the topic was recreated, or the broker lost messages"
        )
    if position.next < end:
        return False
    position.gaps.append((position.next, position.stop))
    position.next = position.stop
    return True
