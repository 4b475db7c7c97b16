"""Keeps a task running in each filled slot, as a Spark job on the executor of the slot."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext
from pyspark.errors import PySparkException

from spark_jobs.pipeline import executors, failures
from spark_jobs.pipeline.executors import Executor
from spark_jobs.pipeline.flow.task import FlowTask
from spark_jobs.pipeline.retries import PATIENCE

log = logging.getLogger("evenkeel.job")
END_SECONDS = 25.0
"""How long tasks may take to finish when the driver is told to end."""


@dataclass(slots=True)
class SlotTask:
    """The Spark job of one slot, on one executor."""

    executor: str
    thread: threading.Thread


class TaskRetries:
    """Decides when a slot's failed task starts again. Pauses grow until the task commits rows."""

    def __init__(self) -> None:
        """Begin without a failure."""
        self.at = 0.0
        self._pauses = PATIENCE.make_pauses()
        self._rows = 0
        self._failures = 0
        self._text = ""

    def note_failure(self, rows: int, now: float, text: str) -> None:
        """Note a failure. `rows` is how many rows the slot had committed before the failure."""
        if rows != self._rows:
            self._pauses, self._rows, self._failures = PATIENCE.make_pauses(), rows, 0
        self.at = now + next(self._pauses)
        self._failures += 1
        self._text = text

    def find_trouble(self, rows: int) -> str | None:
        """Return the last failure, if the task has failed twice or more without committing rows."""
        return self._text if self._failures > 1 and rows == self._rows else None


class FlowTasks:
    """The tasks of one flow."""

    def __init__(
        self,
        context: SparkContext,
        make_task: Callable[[str], FlowTask],
        count_rows: Callable[[str], int],
    ) -> None:
        """Start nothing yet. `make_task` and `count_rows` take the name of a slot."""
        self._context = context
        self._make_task = make_task
        self._count_rows = count_rows
        self._tasks: dict[str, SlotTask] = {}
        self._again: dict[str, TaskRetries] = {}

    @property
    def trouble(self) -> str | None:
        """Why a task fails repeatedly; None if no task does."""
        tried = list(self._again.items())  # the metrics thread asks too
        found = (each.find_trouble(self._count_rows(slot)) for slot, each in tried)
        return next(filter(None, found), None)

    def keep(self, usable: Mapping[str, Executor]) -> None:
        """Start the tasks of these slots, except tasks that run already or have just failed."""
        for slot, executor in usable.items():
            self._keep(slot, executor)

    def _keep(self, slot: str, executor: Executor) -> None:
        retries = self._again.setdefault(slot, TaskRetries())
        running = self._tasks.get(slot)
        if running is not None and running.thread.is_alive():
            if running.executor == executor.id:
                return
        elif retries.at > time.monotonic():
            return
        thread = InheritableThread(
            target=self._run, args=(slot, executor), name=f"task of {slot}", daemon=True
        )
        self._tasks[slot] = SlotTask(executor.id, thread)
        thread.start()

    def _run(self, slot: str, executor: Executor) -> None:
        log.info("slot %s: its task begins on executor %s", slot, executor.id)
        try:
            executors.run_on(self._context, executor, self._make_task(slot))
        except (PySparkException, Py4JError) as error:
            cause = failures.judge(str(error)).message
            text = f"slot {slot}: its task on executor {executor.id} has ended: {cause}"
            self._again[slot].note_failure(self._count_rows(slot), time.monotonic(), text)
            log.warning("%s", text)

    def wait_for_ends(self) -> None:
        """Wait until the tasks, which were told to end, have finished what they have begun."""
        until = time.monotonic() + END_SECONDS
        for task in self._tasks.values():
            task.thread.join(max(0.0, until - time.monotonic()))
