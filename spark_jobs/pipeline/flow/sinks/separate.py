"""Two independent sinks: one for rows, and one for dead letters."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_jobs.pipeline.checkpoint.journal import Pending
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, FlowSink, SinkWriter, Written


@dataclass(frozen=True, slots=True)
class SeparateSinks:
    """The driver's side."""

    rows: FlowSink
    dead: FlowSink | None = None

    @property
    def takes_dead_letters(self) -> bool:
        """Whether the job has a sink for dead letters."""
        return self.dead is not None

    def open(self) -> "SeparateWriters":
        """Begin to write, in a task."""
        return SeparateWriters(self.rows.open(), self.dead.open() if self.dead else None)

    def plan_moves(self, written: Written, batch: int) -> list[Pending]:
        """Plan where a commit's folders become visible. Both folders get the same number."""
        sinks = ((self.rows, written.rows), (self.dead, written.dead))
        return [
            sink.folders.plan_move(folder, batch)
            for sink, folder in sinks
            if sink is not None and sink.folders is not None and folder
        ]

    @property
    def folders(self) -> list[SinkFolders]:
        """The folders of both sinks, if they write files."""
        sinks = [self.rows, self.dead]
        return [each.folders for each in sinks if each is not None and each.folders is not None]


class SeparateWriters:
    """A task's side."""

    def __init__(self, rows: SinkWriter, dead: SinkWriter | None) -> None:
        """Use these writers."""
        self._sent_dead: list[pa.RecordBatch] = []
        """Dead letters that are already written, although the rows of their commit are not."""
        self._rows = rows
        self._dead = dead
        self.positions = rows.positions

    def write(
        self, delivery: Delivery, rows: Sequence[pa.RecordBatch], dead: Sequence[pa.RecordBatch]
    ) -> Written:
        """Write dead letters first: after rows have moved positions, nothing is written again."""
        written = self._write_dead(delivery, dead) if self._dead is not None and dead else ""
        found = Written(self._rows.write(delivery, rows), written)
        self._sent_dead.clear()
        return found

    def _write_dead(self, delivery: Delivery, dead: Sequence[pa.RecordBatch]) -> str:
        """Write dead letters. If the sink of the rows is down, add each dead letter only once."""
        assert self._dead is not None
        new = [each for each in dead if not any(each is sent for sent in self._sent_dead)]
        folder = self._dead.write(delivery, new) if new else ""
        if not folder:  # a folder belongs to one commit, so the next commit writes another
            self._sent_dead += new
        return folder

    def close(self) -> None:
        """Close both writers."""
        for each in filter(None, (self._rows, self._dead)):
            each.close()
