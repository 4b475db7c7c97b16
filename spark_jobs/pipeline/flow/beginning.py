"""
Finds the state with which a flow begins, before its tasks do anything.

A flow does not go on with the planned batches of a job with batches: it deletes what they have
written, and reads those messages itself. Lost messages are skipped here, if the user wants that,
because only here nobody reads.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from mq_client.errors import UsageError
from mq_client.values import MessageQueue
from spark_jobs import journal as offsets
from spark_jobs import planning
from spark_jobs.options import Reading
from spark_jobs.pipeline import skipping
from spark_jobs.pipeline.checkpoint.begins import QueueBegins
from spark_jobs.pipeline.checkpoint.journal import CheckpointState, JobJournal
from spark_jobs.pipeline.checkpoint.opening import CheckpointOpener
from spark_jobs.pipeline.failures import HOW_TO_SKIP
from spark_jobs.pipeline.flow.sinks import folders
from spark_jobs.pipeline.flow.sinks.choosing import OpenSinks
from spark_jobs.pipeline.skipping import Skipped
from spark_jobs.planning import Range
from spark_jobs.source import require_all, require_masters

log = logging.getLogger("evenkeel.job")


@dataclass(frozen=True, slots=True)
class FlowBeginning:
    """With what a flow begins."""

    state: CheckpointState
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

    journal: JobJournal
    begins: QueueBegins
    reading: Reading
    open_sinks: OpenSinks
    skip: str
    is_scheduled: bool
    is_popping: bool = False
    """Whether the brokers divide the messages, so that the journal has no offsets."""

    def begin(self) -> FlowBeginning:
        """
        Bring journal and folders into a state with which tasks can begin.

        After an error, this may be called again.
        """
        group = self.reading.group
        state = CheckpointOpener(self.journal, self._find_begins, group, self._settle).open()
        if self.is_popping:
            return FlowBeginning(state)
        if skipping.is_open(self.skip, state.skip):
            beginning = self._skip_losses(state, is_request=True)
        elif not self.reading.fail_on_data_loss:
            beginning = self._skip_losses(state, is_request=False)
        else:
            beginning = FlowBeginning(state)
        return self._find_run(beginning) if self.is_scheduled else beginning

    def _find_begins(self) -> Mapping[MessageQueue, int]:
        return {} if self.is_popping else self.begins.find_all()

    def _settle(self, state: CheckpointState) -> CheckpointState:
        """Finish the last commit of a flow, or forget the planned batches of a job with batches."""
        known = self.open_sinks(state.query, 0).folders
        folders.finish_moves(state.pending, known)
        batch = state.batch
        for planned in state.planned:
            # The batch may have written its folder, and the flow reads those messages again. The
            # flow never uses that number: a driver that was frozen may delete the folder late.
            batch = max(batch, planned.number)
            for each in known:
                each.delete(planned.number)
        ends = offsets.read_offsets(state.aside) | offsets.read_offsets(state.offsets)
        if self.is_popping:
            ends = {}  # the positions at the brokers count
        return msgspec.structs.replace(
            state, offsets=offsets.write_offsets(ends), batch=batch, pending=[], aside={},
            planned=[],
        )  # fmt: skip

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
        begun = msgspec.structs.replace(state, offsets=offsets.write_offsets(known))
        if begun.offsets != state.offsets:
            self.journal.append(begun)
        return replace(beginning, state=begun, until=until)

    def _leave_read(self, ends: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Leave out the topics that the job does not read any more."""
        return {queue: at for queue, at in ends.items() if self.reading.reads(queue.topic)}

    def _skip_losses(self, state: CheckpointState, *, is_request: bool) -> FlowBeginning:
        """Move queues past their losses."""
        known = offsets.read_offsets(state.offsets)
        ends = self._leave_read(known)
        seen = self.begins.observe(ends)
        if is_request:  # a request counts once, so every queue must be asked, at its master
            seen = require_masters(require_all(seen))
        moved = planning.skip_losses(ends, seen)
        deleted = [Range(queue, ends[queue], at) for queue, at in moved.items() if at > ends[queue]]
        turned_back = list(map(str, planning.find_turned_back(ends, moved)))
        skipped = Skipped(self.skip, deleted, turned_back)
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
            skip=self.skip if is_request else state.skip,
        )
        self.journal.append(state)
        if not is_request:
            return FlowBeginning(state)
        lost_below = {queue: each.max for queue, each in seen.queues.items()}
        return FlowBeginning(state, skipped, lost_below)
