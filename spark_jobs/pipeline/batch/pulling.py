"""Makes the DataFrames of a batch, whose tasks pull on the executors that fill their slots."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession

from mq_client.filters import Filter
from spark_jobs import schema
from spark_jobs.options import Reading
from spark_jobs.pipeline import executors
from spark_jobs.pipeline.batch.lanes import LaneDealer
from spark_jobs.pipeline.checkpoint.plans import BatchPlan
from spark_jobs.pipeline.executor_slots import ExecutorSlots
from spark_jobs.pipeline.executors import ArrowFunction, ExecutorTask
from spark_jobs.pipeline.fetching import Fetcher, Tally, UnreadablePuller, plan_tasks
from spark_jobs.pipeline.following import AssignmentFollower
from spark_jobs.planning import Range

log = logging.getLogger("evenkeel.job")


@dataclass(frozen=True, slots=True)
class PlannedPull:
    """One attempt to pull the messages of a batch."""

    spark: SparkSession
    lane: int
    plan: BatchPlan
    attempt: int
    """A number that no other attempt of this driver has."""


class LocatedPulls:
    """Makes a DataFrame for each batch. Spark pulls its messages only when it is written."""

    def __init__(
        self,
        reading: Reading,
        followed: AssignmentFollower,
        slots: ExecutorSlots,
        dealer: LaneDealer,
        list_suspected: Callable[[], Set[str]],
        addresses: Mapping[str, str],
        tally: Accumulator[Tally],
        *,
        has_dead_letters: bool,
    ) -> None:
        """
        Make nothing yet.

        `list_suspected` lists the executors that get no tasks now. `addresses` has the last address
        of each broker.
        """
        self._reading = reading
        self._followed = followed
        self._slots = slots
        self._dealer = dealer
        self._list_suspected = list_suspected
        self._addresses = addresses
        self._tally = tally
        self._has_dead_letters = has_dead_letters
        self._fetchers: dict[Filter, ArrowFunction] = {}
        """What tasks run, for the newest filter."""
        self._used: dict[int, set[str]] = {}
        """The executors of each attempt that runs. They may have cached rows of the batch."""
        self._lock = threading.Lock()
        """Held while executors are chosen, and while some are drained."""
        self._planned: dict[int, Counter[str]] = {}
        """How many queues of each broker are pulled, for each attempt that runs."""

    @property
    def tally(self) -> Tally:
        """What tasks have done so far."""
        return self._tally.value

    def pull(self, pull: PlannedPull, *, is_skipping: bool) -> DataFrame:
        """Pull the rows of a batch."""
        tasks = self._plan_tasks(pull, pull.plan.ranges, is_skipping=is_skipping)
        self._planned[pull.attempt] = Counter(each.queue.broker for each in pull.plan.ranges)
        return self._find_fetcher(pull.plan.wanted).map(executors.make_tasks(pull.spark, tasks))

    def _find_fetcher(self, wanted: Filter) -> ArrowFunction:
        """Find the function for this filter, which is the same in most batches."""
        known = self._fetchers.get(wanted)
        if known is None:
            fetcher = Fetcher(self._reading, wanted, self._tally, self._has_dead_letters)
            known = ArrowFunction(fetcher, schema.make_ddl(self._reading.include_properties))
            self._fetchers = {wanted: known}
        return known

    def pull_unreadable(self, pull: PlannedPull) -> DataFrame | None:
        """Pull the messages that the tasks of this attempt could not read, as they are stored."""
        found = self.tally.find_unreadable(pull.attempt)
        if not found:
            return None
        log.warning("messages that cannot be read go to the dead letters: %s", found)
        puller = UnreadablePuller(self._reading, pull.plan.wanted)
        ddl = schema.make_unreadable_ddl(self._reading.include_properties)
        tasks = executors.make_tasks(pull.spark, self._plan_tasks(pull, found))
        return tasks.mapInArrow(puller, ddl)

    def find_pulled(self, pull: PlannedPull) -> Set[str]:
        """
        Find the brokers from which tasks of this attempt pull.

        This includes a task that has pulled its last message but has not ended.
        """
        ended = self.tally.ended.get(pull.attempt, {})
        planned = self._planned.get(pull.attempt, Counter())
        return {broker for broker, count in planned.items() if ended.get(broker, 0) < count}

    def forget(self, pull: PlannedPull) -> None:
        """Forget this attempt, which has ended."""
        for known in (self._planned, self._used, self.tally.unreadable, self.tally.ended):
            known.pop(pull.attempt, None)

    def drain_unused(self) -> None:
        """Drain executors, except those that a running batch uses."""
        with self._lock:
            used = set[str]().union(*self._used.values())
            if self._used and self._dealer.count == 1:
                # Stages after the pull may use any executor. With lanes, some batch may always run,
                # so this would keep them all for ever.
                used = set(self._slots.registered)
            self._slots.drain(self._followed.drained, used)

    def _plan_tasks(
        self, pull: PlannedPull, ranges: Sequence[Range], *, is_skipping: bool = False
    ) -> list[ExecutorTask]:
        owners = self._followed.find(pull.plan.planned.epoch, self._followed.newest).owners
        with self._lock:
            usable = self._slots.find_usable()
            avoided = {*self._list_suspected(), *self._slots.find_in_pods(self._followed.drained)}
            usable = {s: each for s, each in usable.items() if each.id not in avoided} or usable
            helpers = [slot for slot in usable if self._dealer.find(slot) == pull.lane]
            tasks = plan_tasks(
                ranges, owners, usable, helpers, pull.attempt,
                is_skipping=is_skipping, addresses=self._addresses,
            )  # fmt: skip
            used = {task.executor.id for task in tasks if task.executor is not None}
            self._used.setdefault(pull.attempt, set()).update(used)
        return tasks
