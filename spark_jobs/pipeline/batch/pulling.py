"""Makes the DataFrames of a batch, whose tasks pull on the executors that fill their slots."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession

from spark_jobs import schema
from spark_jobs.options import Reading
from spark_jobs.pipeline import executors
from spark_jobs.pipeline.checkpoint.plans import BatchPlan
from spark_jobs.pipeline.executor_slots import ExecutorSlots
from spark_jobs.pipeline.fetching import Fetcher, Tally, UnreadablePuller, plan_tasks
from spark_jobs.pipeline.following import AssignmentFollower
from spark_jobs.planning import Range

log = logging.getLogger("evenkeel.job")


@dataclass(frozen=True, slots=True)
class LocatedPulls:
    """Makes a DataFrame for each batch. Spark pulls its messages only when it is written."""

    spark: SparkSession
    reading: Reading
    followed: AssignmentFollower
    slots: ExecutorSlots
    tally: Accumulator[Tally]

    def pull(self, plan: BatchPlan, *, is_skipping: bool, has_dead_letters: bool) -> DataFrame:
        """Pull the rows of a batch."""
        fetcher = Fetcher(
            self.reading, plan.wanted, self.tally, is_skipping, has_dead_letters=has_dead_letters
        )
        ddl = schema.make_ddl(self.reading.include_properties)
        return self._make_tasks(plan, plan.ranges).mapInArrow(fetcher, ddl)

    def pull_unreadable(self, plan: BatchPlan) -> DataFrame | None:
        """Pull the messages that this batch's tasks could not read, as they are stored."""
        found = self.tally.value.find_unreadable(plan.ranges)
        if not found:
            return None
        log.warning("messages that cannot be read go to the dead letters: %s", found)
        puller = UnreadablePuller(self.reading, plan.wanted)
        ddl = schema.make_unreadable_ddl(self.reading.include_properties)
        return self._make_tasks(plan, found).mapInArrow(puller, ddl)

    def _make_tasks(self, plan: BatchPlan, ranges: Sequence[Range]) -> DataFrame:
        owners = self.followed.find(plan.planned.epoch, self.followed.newest).owners
        tasks = plan_tasks(ranges, owners, self.slots.find_usable())
        return executors.make_tasks(self.spark, tasks)
