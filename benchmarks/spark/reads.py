"""
The work that is measured in Spark: a query reads all messages of a topic.

NOOP drops the rows after Spark's last step. AGGREGATE counts the rows of each queue, and sums up
their sizes. Planning is measured; `load` is not measured, because a query calls it only once.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody writes it

from benchmarks.pull import messages, player
from benchmarks.pull.player import Job
from benchmarks.spark import sessions

NOOP, AGGREGATE = "noop", "aggregate"


def play(master: str, load: Callable[[SparkSession, Job], DataFrame]) -> None:
    """Play standard input."""
    with sessions.open_session(master) as spark:

        def noop(job: Job) -> Callable[[], int]:
            frame = load(spark, job)
            return lambda: _drop(frame)

        def aggregate(job: Job) -> Callable[[], int]:
            frame = load(spark, job)
            return lambda: _sum_up(frame, job)

        player.play({NOOP: noop, AGGREGATE: aggregate})


def _drop(frame: DataFrame) -> int:
    seen = Observation()
    counted = frame.observe(seen, F.count(F.lit(1)).alias("messages"))
    counted.write.format("noop").mode("overwrite").save()
    count: int = seen.get["messages"]
    return count


def _sum_up(frame: DataFrame, job: Job) -> int:
    rows = (
        frame.groupBy("queue_id")
        .agg(
            F.count(F.lit(1)).alias("messages"),
            F.sum(F.length("body")).alias("bytes"),
            F.max("queue_offset").alias("last"),
        )
        .collect()
    )
    for row in rows:
        assert row.bytes == row.messages * messages.BODY_BYTES, row
        assert row.last == job.messages_a_queue - 1, row
    return sum(row.messages for row in rows)
