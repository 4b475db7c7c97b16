"""Measures how long each step of a driver's start takes."""

import enum
import logging
import time
from collections.abc import Callable

from spark_jobs.pipeline import BEGUN

log = logging.getLogger("evenkeel.job")


class StartStep(enum.StrEnum):
    """The steps of a start, in their order."""

    PYTHON = "python"
    """Python has loaded the driver. In a cluster, the driver also holds its Lease."""
    JAVA = "java"
    CONTEXT = "context"
    """Spark's context is open."""
    SQL = "sql"
    """Spark SQL is open. A flow does without it."""
    CHECKPOINT = "checkpoint"
    """The driver has taken the journal."""
    EXECUTOR = "executor"
    """The first executor is warm, and fills a slot."""
    COMMIT = "commit"
    """The first batch with messages, or the first commit of a flow, is in the journal."""


class StartTimes:
    """When the steps of one driver's start were done."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with no step done."""
        self._clock = clock
        self.seconds: dict[str, float] = {}
        """By step: the seconds since the process has begun to load the driver."""

    def note(self, step: StartStep) -> None:
        """Note that a step is done, unless it was done before. Log all steps after the last one."""
        if step in self.seconds:
            return
        self.seconds[step.value] = self._clock() - BEGUN
        if step is StartStep.COMMIT:
            steps = ", ".join(f"{name} {at:.1f} s" for name, at in self.seconds.items())
            log.info("started: %s", steps)
