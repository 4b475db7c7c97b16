"""Runs the batches of each lane in a thread of the lane's own."""

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Set
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_jobs.pipeline import executors, session
from spark_jobs.pipeline.checkpoint.plans import BatchPlan

log = logging.getLogger("evenkeel.job")
LOOK_SECONDS = 0.1
END_SECONDS = 5.0
"""How long tasks of a cancelled batch may go on before the batch runs again."""

Run = Callable[[SparkSession, int, BatchPlan], None]
"""Runs one batch, in a session and a lane."""


@dataclass(frozen=True, slots=True)
class EndedBatch:
    """The end of a batch in a lane."""

    lane: int
    error: BaseException | None
    """Why it has failed; None if its rows are written."""


class LaneThreads:
    """
    A thread for each lane that has had a batch.

    They are daemons: when the driver must end at once, it does not wait for users' code for long.
    """

    def __init__(
        self, spark: SparkSession, run: Run, list_silent: Callable[[], Set[str]], lanes: int
    ) -> None:
        """
        Start no thread yet.

        `list_silent` lists the executors that do not answer, so nobody waits for their tasks.
        """
        self._spark = spark
        self._run = run
        self._list_silent = list_silent
        self._is_only = lanes == 1
        self._plans: dict[int, queue.SimpleQueue[BatchPlan]] = {}
        self._attempts = itertools.count()
        self._groups: dict[int, str] = {}
        """The group of Spark's jobs of the newest batch of each lane."""
        self._cancelled: set[str] = set()
        self._ended: queue.SimpleQueue[EndedBatch] = queue.SimpleQueue()

    def start(self, lane: int, plan: BatchPlan) -> None:
        """Start a batch in this lane, where none is running."""
        self._groups[lane] = f"lane-{lane}-attempt-{next(self._attempts)}"
        if lane not in self._plans:
            thread = threading.Thread(
                target=self._work, args=(lane,), name=f"lane-{lane}", daemon=True
            )
            plans: queue.SimpleQueue[BatchPlan] = queue.SimpleQueue()
            self._plans[lane] = plans
            try:
                thread.start()
            except RuntimeError as error:  # this process may have no more threads
                del self._plans[lane]
                self._ended.put(EndedBatch(lane, error))
                return
        self._plans[lane].put(plan)

    def get_group(self, lane: int) -> str:
        """Get the group of Spark's jobs of the newest batch of a lane."""
        return self._groups[lane]

    def cancel(self, lane: int) -> bool:
        """
        Make the batch of a lane fail when it runs a job of Spark, or begins one.

        Return False if Spark does not take the request.
        """
        group = self._groups[lane]
        self._cancelled.add(group)
        try:
            executors.cancel(self._spark.sparkContext, group)
        except (Py4JError, PySparkException) as error:
            log.warning("the jobs of %s cannot be cancelled: %s", group, error)
            return False
        return True

    def wait(self, seconds: float) -> EndedBatch | None:
        """Wait until a batch has ended. Return None if none ends within so many seconds."""
        try:
            return self._ended.get(timeout=seconds)
        except queue.Empty:
            return None

    def _work(self, lane: int) -> None:
        spark: SparkSession | None = None
        while True:
            plan, error = self._plans[lane].get(), None
            group = self._groups[lane]
            try:
                spark = spark or session.open_lane(self._spark, lane, is_only=self._is_only)
                # True: Spark interrupts the tasks of cancelled jobs, as in streaming queries.
                spark.sparkContext.setJobGroup(group, f"batch {plan.planned.number}", True)
                self._run(spark, lane, plan)
            except BaseException as raised:  # noqa: BLE001  # users' code raises anything
                error = raised
            try:
                if error is not None and group in self._cancelled:
                    self._wait_for_tasks(group)
            finally:
                self._cancelled.discard(group)
                self._ended.put(EndedBatch(lane, error))

    def _wait_for_tasks(self, group: str) -> None:
        """
        Wait until the tasks of a cancelled batch have ended, but not for silent executors.

        If one of them wrote to a user's sink while the batch runs again, those rows might count.
        """
        until = time.monotonic() + END_SECONDS
        try:
            while executors.find_running(self._spark.sparkContext, group) - self._list_silent():
                if time.monotonic() > until:
                    log.warning("tasks of a cancelled batch go on; the batch runs again")
                    return
                time.sleep(LOOK_SECONDS)
        except (Py4JError, PySparkException) as error:
            log.warning("the tasks of a cancelled batch are unknown: %s", error)
