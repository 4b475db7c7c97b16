"""Opens a checkpoint: finds the state with which a job begins, and takes the journal."""

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from contract.report import BareReport
from mq_client.errors import MqError, UsageError
from mq_client.values import MessageQueue
from spark_jobs import journal as offsets
from spark_jobs.pipeline.assignments import Assignments
from spark_jobs.pipeline.checkpoint import sparks_logs
from spark_jobs.pipeline.checkpoint.journal import CheckpointState, JobJournal, JournalTakenError
from spark_jobs.pipeline.checkpoint.stores import open_store
from spark_jobs.pipeline.failures import Cure, judge_error
from spark_jobs.pipeline.retries import PATIENCE

log = logging.getLogger("evenkeel.job")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class CheckpointOpener:
    """Opens the checkpoint of one job."""

    journal: JobJournal
    find_begins: Callable[[], Mapping[MessageQueue, int]]
    """Finds where the queues of a new job begin."""
    group: str
    settle: Callable[[CheckpointState], CheckpointState]
    """Makes the sinks' files agree with a state; returns the state to begin with."""

    def open(self) -> CheckpointState:
        """
        Find the state: the newest entry of the journal, or of Spark's logs, or a new one.

        After an error, this may be called again.
        """
        state = self.journal.read_newest() or sparks_logs.read(self.journal) or self._make_new()
        if state.group != self.group:
            raise UsageError(
                f"the checkpoint belongs to the group {state.group!r}, not to "
                f"{self.group!r}: choose another checkpoint"
            )
        # With an entry of its own this driver takes the journal. A driver before it that was frozen
        # can commit nothing afterwards, so what is not committed may be deleted.
        self.journal.append(state)
        sparks_logs.put_aside(self.journal)
        settled = self.settle(state)
        if settled != state:
            self.journal.append(settled)
        return settled

    def _make_new(self) -> CheckpointState:
        ends = offsets.write_offsets(self.find_begins())
        return CheckpointState(str(uuid.uuid4()), self.group, 0, -1, ends)


def open_journal(
    context: SparkContext, checkpoint: str, assignments: Assignments, stop: threading.Event
) -> JobJournal | None:
    """Open the journal at the checkpoint's location. Return None if `stop` is set first."""
    return begin_patiently(lambda: JobJournal(open_store(context, checkpoint)), assignments, stop)


def begin_patiently(
    begin: Callable[[], Found], assignments: Assignments, stop: threading.Event
) -> Found | None:
    """
    Find the beginning, and try again after failures. Return None if `stop` is set first.

    Raise a `UsageError` if the user must change something.
    """
    for pause in PATIENCE.make_pauses():
        try:
            return begin()
        except UsageError:
            raise
        except (MqError, Py4JError, PySparkException, OSError, JournalTakenError) as error:
            failure = judge_error(error)
            if failure.cure is Cure.USER:
                raise UsageError(failure.message) from error
            log.warning("the job begins again in %g s: %s", pause, failure.message)
            assignments.report(BareReport(failure.message))
            if stop.wait(pause):
                return None
    raise AssertionError("pauses have no end")
