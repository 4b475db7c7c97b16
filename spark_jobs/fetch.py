"""Pull ranges of queues into Arrow batches: what runs on executors."""

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
"""After so long without a message it is looked whether the queues end before what was planned."""


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
    Give the messages of these ranges, as rows; the order within a queue is kept.

    What was lost, and passed over as allowed, is added to `gaps` at the end. A message that is
    there and cannot be read is added to `unreadable` if that is given; else it counts as lost.
    """
    positions = [
        Position(each.queue, each.start, each.stop, wanted, allow_gaps=allow_gaps)
        for each in ranges
    ]
    client = connections.client(cluster)
    counts: Counter[MessageQueue] = Counter()
    lost: list[Range] = []
    for batch in _batches(client, group, positions, cluster):
        broken: list[Unreadable] = []
        may_pass_over = allow_gaps or unreadable is not None
        rows = batch.to_columns(broken if may_pass_over else None)
        counts[batch.queue] += rows.num_rows
        if rows.num_rows:
            yield schema.rows(rows, include_properties)
        for each in broken:
            log.warning("%s: offset %d cannot be read: %s", batch.queue, each.first, each.reason)
            part = _part(batch, each)
            counts[batch.queue] += part.stop - part.start
            if unreadable is None:
                lost.append(part)
            else:
                unreadable.append(each)
    if wanted.is_everything:
        for planned, position in zip(ranges, positions, strict=True):
            _see_sum(planned, counts[planned.queue], position)
    lost += [Range(position.queue, *gap) for position in positions for gap in position.gaps]
    for gap in lost:
        log.warning("messages are lost: %s: offsets %d to %d", gap.queue, gap.start, gap.stop - 1)
    if gaps is not None:
        gaps += lost


def _part(batch: Batch, broken: Unreadable) -> Range:
    """Tell which offsets of a batch a message takes that cannot be read."""
    return Range(batch.queue, max(batch.first, broken.first), min(batch.stop, broken.stop))


def _see_sum(planned: Range, rows: int, position: Position) -> None:
    """
    Refuse to end a task whose rows and gaps do not make up what was planned.

    Messages that cannot be read count among the rows.
    """
    gone = sum(stop - first for first, stop in position.gaps)
    if rows + gone != planned.stop - planned.start:
        raise DataLossError(
            f"{planned.queue}: offsets {planned.start} to {planned.stop - 1} gave {rows} rows, "
            f"and {gone} are known to be deleted: {planned.stop - planned.start} were expected; "
            "report this, for the client or the broker is wrong"
        )


def _batches(
    client: Client, group: str, positions: list[Position], cluster: ClusterOptions
) -> Iterator[Batch]:
    """Read them all. A broker that lost what was planned would never answer: that is an error."""
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
                    _see_end(position, error.end)
        if is_silent and _see_ends(client, left, looks, patience / look):
            # What is on its way for a queue that was cut off must not move it again.
            left = [position for position in left if not position.is_done]
            reader = client.read(group, left, cluster.fetch_bytes)


def _see_ends(
    client: Client, positions: list[Position], looks: Counter[MessageQueue], most: float
) -> bool:
    """
    Ask the masters whether the queues end too early; whether one was cut off there.

    A master that says so many times that it has more, and gives nothing, is an error.
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
            continue  # what goes wrong here goes wrong for the pulls too: they say so in time
        is_cut |= _see_end(position, end)
        looks[position.queue] += 1
        # With a filter there may be much to look through, and nothing to give.
        if position.wanted.is_everything and not position.is_done and looks[position.queue] > most:
            raise errors.UnavailableError(
                f"{position.queue} from offset {position.next}: nothing comes, though the queue "
                f"ends at {end}; see the log of its broker"
            )
    return is_cut


def _see_end(position: Position, end: int) -> bool:
    """Cut a queue off at its end, once all before it was read."""
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
