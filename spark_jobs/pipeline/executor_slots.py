"""
Decides in the driver which executor fills which slot, with the rules of `lb_core.slots`.

Only a warm executor fills a slot. An executor that was told to end no longer fills a slot.
"""

import logging
import threading
import time
from collections.abc import Iterable, Sequence, Set

from pyspark import SparkContext

from lb_core import slots
from lb_core.slots import Slot, Slots
from spark_jobs.pipeline import executors
from spark_jobs.pipeline.assignments import JobAssignment
from spark_jobs.pipeline.executors import Executor
from spark_jobs.pipeline.warm_ups import WarmUps

log = logging.getLogger("evenkeel.job")


class ExecutorRequests:
    """What the driver has requested from Spark: how many executors, and which must end."""

    def __init__(self, context: SparkContext, count: int) -> None:
        """Request nothing yet."""
        self._context = context
        self.count = count
        """How many executors to request if the job's assignment names no slots."""
        self._is_needed = False
        self._requested: int | None = None
        self._ending: set[str] = set()

    def need(self) -> None:
        """Request executors from now on, because there is something to read."""
        self._is_needed = True

    def begin(self) -> None:
        """Request executors now, so that they start while the driver gets ready."""
        self.need()
        self.resize(self.count, [])

    def is_ending(self, executor: str) -> bool:
        """Whether this executor was told to end."""
        return executor in self._ending

    def resize(self, count: int, leaving: Sequence[str]) -> None:
        """End the `leaving` executors, and request `count` others. Before `need`, do nothing."""
        if self._is_needed and (leaving or count != self._requested):
            self._ending.update(leaving)
            self.count = self._requested = count
            executors.let_go(self._context, leaving, count)

    def replace(self, names: Sequence[str]) -> None:
        """End these executors; Spark starts others instead."""
        self._ending.update(names)
        executors.replace(self._context, names)


class ExecutorSlots:
    """The slots of one job. The loop fills and drains them. Batches use their executors."""

    def __init__(
        self, context: SparkContext, group: str, warm_ups: WarmUps, requests: ExecutorRequests
    ) -> None:
        """Begin without a slot."""
        self._executors = executors.RegisteredExecutors(context)
        self._warm_ups = warm_ups
        self._requests = requests
        self._slots = Slots(group)
        self._registered: dict[str, Executor] = {}
        self._filled_at = time.monotonic()
        self._lock = threading.Lock()

    def fill(self, newest: JobAssignment, adopted: JobAssignment) -> None:
        """
        Find out which executors came and went, and fill the slots.

        A slot that is missing in the newest assignment drains. When the slot is missing in the
        adopted assignment too, the slot is released, and its executor ends. Executors for which
        there is no slot end as well.
        """
        registered = {each.id: each for each in self._executors.list()}
        warm = self._warm_ups.warm_up(registered.values())
        now = time.monotonic()
        wanted = len(newest.slots) or self._requests.count
        self._slots = add_named(self._slots, newest.slots)
        names = [self._slots.get_id(slot) for slot in self._slots.slots]
        step = slots.step(
            self._slots,
            wanted,
            [name for name in warm if not self._requests.is_ending(name)],
            now - self._filled_at,
            drained=[name for name in names if adopted.epoch and name not in adopted.slots],
            leave_first=[name for name in names if newest.epoch and name not in newest.slots],
        )
        leaving = [slot.executor for slot in step.released if slot.executor] + list(step.waiting)
        self._requests.resize(wanted, leaving)
        with self._lock:
            self._slots, self._registered, self._filled_at = step.slots, registered, now
        for event in step.events:
            log.info("%s", event)

    def drain(self, pods: Set[str], kept: Set[str] = frozenset()) -> None:
        """Replace the executors in these pods, except the kept ones, which a batch uses."""
        drained = [
            name
            for name in self._warm_ups.find_in_pods(pods)
            if name in self._registered and not self._requests.is_ending(name) and name not in kept
        ]
        if drained:
            self._requests.replace(drained)
            log.info("drained executors %s: Spark replaces them", ", ".join(drained))

    def find_in_pods(self, pods: Set[str]) -> Sequence[str]:
        """List the executors that run in these pods, by id."""
        return self._warm_ups.find_in_pods(pods)

    def need_executors(self) -> None:
        """Request executors from now on, because there is something to read."""
        self._requests.need()

    @property
    def is_pinned(self) -> bool:
        """Whether a task has run on the executor to which it was sent."""
        return self._warm_ups.is_pinned

    @property
    def registered(self) -> Set[str]:
        """The ids of the executors that Spark had at the last call of `fill`."""
        return self._registered.keys()

    @property
    def filled(self) -> dict[str, Executor]:
        """The slots that are filled, with their executors."""
        with self._lock:
            return {
                self._slots.get_id(slot): self._registered[slot.executor]
                for slot in self._slots.slots
                if slot.executor is not None and slot.executor in self._registered
            }

    @property
    def usable(self) -> dict[str, Executor]:
        """The slots that are filled, without executors that were told to end."""
        filled = self.filled.items()
        return {slot: each for slot, each in filled if not self._requests.is_ending(each.id)}

    def find_usable(self) -> dict[str, Executor]:
        """Ask Spark which executors of `usable` are still there: tasks on a lost one would wait."""
        registered = set(self._executors.list())
        return {slot: each for slot, each in self.usable.items() if each in registered}


def add_named(known: Slots, names: Iterable[str]) -> Slots:
    """Add a slot for each new name, because an assignment may skip numbers."""
    present = {known.get_id(slot) for slot in known.slots}
    added = [
        Slot(int(number))
        for group, _, number in (name.rpartition("-") for name in names if name not in present)
        if group == known.group and number.isascii() and number.isdigit()
    ]
    return Slots(known.group, (*known.slots, *added)) if added else known
