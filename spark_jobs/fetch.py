"""Pull ranges of queues into Arrow batches: what runs on executors."""

from collections.abc import Iterator

import pyarrow as pa

from mq_client.filters import Filter
from mq_client.pulling import Position
from spark_jobs import connections, schema
from spark_jobs.options import Cluster
from spark_jobs.planning import Range


def fetch(
    ranges: list[Range],
    cluster: Cluster,
    group: str,
    wanted: Filter,
    *,
    allow_gaps: bool,
    include_properties: bool,
) -> Iterator[pa.RecordBatch]:
    """Give the messages of these ranges, as rows; the order within a queue is kept."""
    positions = [
        Position(each.queue, each.start, each.stop, wanted, allow_gaps=allow_gaps)
        for each in ranges
    ]
    for batch in connections.client(cluster).read(group, positions):
        rows = batch.columns()
        if rows.num_rows:
            yield schema.rows(rows, include_properties)
