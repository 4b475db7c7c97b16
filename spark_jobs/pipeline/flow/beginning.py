"""
Finds the state with which a flow begins, before its tasks do anything.

It is the newest entry of the journal, or what a job with batches has left, or a new one. Lost
messages are skipped here, if the user wants that, because only here nobody reads.
"""

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from mq_client.errors import UsageError
from mq_client.values import MessageQueue
from spark_jobs import journal as offsets
from spark_jobs import planning
from spark_jobs.options import Reading
from spark_jobs.pipeline import skipping
from spark_jobs.pipeline.failures import HOW_TO_SKIP
from spark_jobs.pipeline.flow import takeover
from spark_jobs.pipeline.flow.begins import QueueBegins
from spark_jobs.pipeline.flow.journal import FlowJournal, FlowState
from spark_jobs.pipeline.flow.sinks import folders
from spark_jobs.pipeline.flow.sinks.choosing import OpenSinks
from spark_jobs.pipeline.skipping import Skipped
from spark_jobs.planning import Range
from spark_jobs.source import require_all, require_masters

log = logging.getLogger("evenkeel.job")


@dataclass(frozen=True, slots=True)
class FlowBeginning:
    """With what a flow begins."""

    state: FlowState
    skipped: Skipped | None = None
    """What was skipped, if `skip` has a new value."""
    lost_below: Mapping[MessageQueue, int] = field(default_factory=dict)
    """
    Where each queue ended when it was asked for losses. A task may skip lost messages below that
    too: the broker may delete more of them before the task reads.
    """
    until: Mapping[MessageQueue, int] | None = None
    """In a scheduled run: where each queue ended when the run began."""


@dataclass(frozen=True, slots=True)
class FlowBeginner:
    """Finds the beginning of one flow."""

    journal: FlowJournal
    begins: QueueBegins
    reading: Reading
    open_sinks: OpenSinks
    skip: str
    is_scheduled: bool

    def begin(self) -> FlowBeginning:
        """
        Bring journal and folders into a state with which tasks can begin.

        After an error, this may be called again.
        """
        state = self.journal.read_newest()
        if state is not None:
            self._check_group(state)
            folders.finish_moves(state.pending, self.open_sinks(state.query, 0).folders)
            state = msgspec.structs.replace(state, pending=[])
        else:
            state = self._take_over() or self._make_new()
        # With an entry of its own this driver takes the journal. A driver before it that was frozen
        # can commit nothing afterwards, so what is in no entry may be deleted.
        self.journal.append(state)
        takeover.put_aside(self.journal)
        if skipping.is_open(self.skip, state.skip):
            beginning = self._skip_losses(state, is_request=True)
        elif not self.reading.fail_on_data_loss:
            beginning = self._skip_losses(state, is_request=False)
        else:
            beginning = FlowBeginning(state)
        return self._find_run(beginning) if self.is_scheduled else beginning

    def _find_run(self, beginning: FlowBeginning) -> FlowBeginning:
        """Find where a scheduled run ends, and begin all its queues."""
        state = beginning.state
        known = offsets.read_offsets(state.offsets)
        known |= self.begins.find_others(known)
        seen = require_all(self.begins.observe(self._leave_read(known)))
        until = {queue: each.max for queue, each in seen.queues.items() if queue not in seen.barred}
        for queue, end in until.items():
            if known.get(queue, 0) > end:
                raise UsageError(
                    f"{queue} was read up to {known[queue]}, but ends at {end}: was the topic "
                    f"created again?{HOW_TO_SKIP}"
                )
        begun = msgspec.structs.replace(state, offsets=offsets.write_offsets(known), pending=[])
        if begun.offsets != state.offsets:
            self.journal.append(begun)
        return replace(beginning, state=begun, until=until)

    def _make_new(self) -> FlowState:
        ends = offsets.write_offsets(self.begins.find_all())
        return FlowState(str(uuid.uuid4()), self.reading.group, 0, -1, ends)

    def _take_over(self) -> FlowState | None:
        state = takeover.read_batches(self.journal)
        if state is None:
            return None
        self._check_group(state)
        for each in self.open_sinks(state.query, 0).folders:
            each.delete(state.batch)
        log.info("the flow takes over the checkpoint of batches, after batch %d", state.batch - 1)
        return state

    def _check_group(self, state: FlowState) -> None:
        if state.group != self.reading.group:
            raise UsageError(
                f"the checkpoint belongs to the group {state.group!r}, not to "
                f"{self.reading.group!r}: choose another checkpoint"
            )

    def _leave_read(self, ends: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Leave out the topics that the job does not read any more."""
        return {queue: at for queue, at in ends.items() if self.reading.reads(queue.topic)}

    def _skip_losses(self, state: FlowState, *, is_request: bool) -> FlowBeginning:
        """Move queues past their losses."""
        known = offsets.read_offsets(state.offsets)
        ends = self._leave_read(known)
        seen = self.begins.observe(ends)
        if is_request:  # a request counts once, so every queue must be asked, at its master
            seen = require_masters(require_all(seen))
        moved = planning.skip_losses(ends, seen)
        deleted = [Range(queue, ends[queue], at) for queue, at in moved.items() if at > ends[queue]]
        skipped = Skipped(self.skip, deleted, planning.find_turned_back(ends, moved))
        if not is_request and not skipped.lines:
            return FlowBeginning(state)
        reason = f"as requested by skip {self.skip!r}" if is_request else "failOnDataLoss is false"
        for line in skipped.lines or ["nothing"]:
            log.warning("skipped, %s: %s", reason, line)
        state = msgspec.structs.replace(
            state,
            offsets=offsets.write_offsets(
                {queue: at for queue, at in known.items() if queue not in ends} | moved
            ),
            pending=[],
            skip=self.skip if is_request else state.skip,
        )
        self.journal.append(state)
        if not is_request:
            return FlowBeginning(state)
        lost_below = {queue: each.max for queue, each in seen.queues.items()}
        return FlowBeginning(state, skipped, lost_below)
