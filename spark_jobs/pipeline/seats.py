"""
Who fills which slot, as the driver sees it: `lb_core.slots` fed with Spark's executors.

An executor counts when it is warm: a task that was sent to it has run there, which started its
Python worker and opened its connections. That also proves that Spark obeys locations.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lb_core import slots
from lb_core.slots import Slot, Slots
from spark_jobs import connections
from spark_jobs.options import ClusterOptions
from spark_jobs.pipeline import executors
from spark_jobs.pipeline.assignments import JobAssignment
from spark_jobs.pipeline.executors import Executor, ExecutorTask
from spark_jobs.pipeline.fetching import this_executor, this_pod

MOST_STRAYS = 10
log = logging.getLogger("evenkeel.job")
_HERE = pa.schema({"executor": pa.string(), "pod": pa.string()})


@dataclass(frozen=True)
class _WarmUp:
    """Opens this executor's connections, and tells which executor it is."""

    cluster: ClusterOptions

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            connections.client(self.cluster).list_topics()
            here = {"executor": this_executor(), "pod": this_pod()}
            yield pa.RecordBatch.from_pylist([here] * batch.num_rows, _HERE)


class Seats:
    """The slots of one job."""

    def __init__(
        self, spark: SparkSession, name: str, wanted: int, cluster: ClusterOptions
    ) -> None:
        """Nobody is there yet."""
        self._wanted = wanted
        self._is_needed = False
        self._asked: int | None = None
        """How many executors Spark was told to have."""
        self.is_pinned = False
        """Whether Spark is seen to run tasks where they are sent."""
        self._strays = 0
        """Warm-ups that ran elsewhere: the executor was busy, or Spark does not obey."""
        self._spark = spark
        self._cluster = cluster
        self._slots = Slots(name)
        self._there: dict[str, Executor] = {}
        self._pods: dict[str, str] = {}
        """Of warm executors; where there are no pods, their ids."""
        self._warm: dict[str, Future[bool]] = {}
        self._going: set[str] = set()
        """Executors that were told to end."""
        self._at = time.monotonic()
        self._threads = ThreadPoolExecutor(thread_name_prefix="warm-up")
        self._lock = threading.Lock()

    def need(self) -> None:
        """Ask Spark for executors from now on: there is something to do."""
        self._is_needed = True

    def look(self, newest: JobAssignment, adopted: JobAssignment) -> None:
        """
        See who came and who went, and seat them.

        A slot that the newest assignment does not have drains; once the adopted one does not have
        it either, it is released and its executor ends, as do executors that find no slot.
        """
        there = {each.id: each for each in executors.registered(self._spark)}
        for name, executor in there.items():
            if name not in self._warm or _has_failed(self._warm[name]):
                self._warm[name] = self._threads.submit(self._warm_up, executor)
        warm = [name for name in there if self._warm[name].done() and self._warm[name].result()]
        now = time.monotonic()
        wanted = len(newest.slots) or self._wanted
        self._slots = with_named(self._slots, newest.slots)
        names = [self._slots.name(slot) for slot in self._slots.slots]
        step = slots.step(
            self._slots,
            wanted,
            [name for name in warm if name not in self._going],
            now - self._at,
            drained=[name for name in names if adopted.epoch and name not in adopted.slots],
            leave_first=[name for name in names if newest.epoch and name not in newest.slots],
        )
        leaving = [slot.executor for slot in step.released if slot.executor] + list(step.waiting)
        if self._is_needed and (leaving or wanted != self._asked):
            self._going.update(leaving)
            self._wanted = self._asked = wanted
            executors.let_go(self._spark, leaving, wanted)
        with self._lock:
            self._slots, self._there, self._at = step.slots, there, now
        for event in step.events:
            log.info("%s", event)

    def drain(self, pods: Set[str]) -> None:
        """Let the executors in these pods end, and others come; only while no batch runs."""
        known = [name for name, pod in list(self._pods.items()) if pod in pods]
        drained = [name for name in known if name in self._there and name not in self._going]
        if drained:
            self._going.update(drained)
            executors.replace(self._spark, drained)
            log.info("drained, and to be replaced: executors %s", ", ".join(drained))

    @property
    def registered(self) -> Set[str]:
        """Tell which executors Spark had at the last look, by their ids."""
        return self._there.keys()

    @property
    def fillers(self) -> dict[str, Executor]:
        """Tell who fills each slot that is not empty."""
        with self._lock:
            return {
                self._slots.name(slot): self._there[slot.executor]
                for slot in self._slots.slots
                if slot.executor is not None and slot.executor in self._there
            }

    def present(self) -> dict[str, Executor]:
        """Leave out those that are lost since the last look, or end: tasks would wait for them."""
        there = {each for each in executors.registered(self._spark) if each.id not in self._going}
        return {slot: each for slot, each in self.fillers.items() if each in there}

    def _warm_up(self, executor: Executor) -> bool:
        work = executors.tasks(self._spark, [ExecutorTask("", executor)])
        try:
            found = work.mapInArrow(_WarmUp(self._cluster), "executor string, pod string").collect()
        except (PySparkException, Py4JError) as error:
            log.warning("executor %s is not warm: %s", executor.id, error)
            return False
        if found[0].executor == executor.id:
            self._pods[executor.id] = found[0].pod or executor.id
            self.is_pinned = True
            return True
        self._strays += 1
        if self.is_pinned or self._strays < MOST_STRAYS:
            return False
        log.warning("tasks run elsewhere than they are sent, so queues are read by anybody")
        return True


def with_named(known: Slots, names: Iterable[str]) -> Slots:
    """Add the slots of these names that are not there: an assignment may leave numbers out."""
    there = {known.name(slot) for slot in known.slots}
    added = [
        Slot(int(number))
        for group, _, number in (name.rpartition("-") for name in names if name not in there)
        if group == known.group and number.isascii() and number.isdigit()
    ]
    return Slots(known.group, (*known.slots, *added)) if added else known


def _has_failed(warm_up: Future[bool]) -> bool:
    return warm_up.done() and not warm_up.result()
