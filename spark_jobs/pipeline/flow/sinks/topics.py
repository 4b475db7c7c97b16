"""A sink of RocketMQ topics: a task sends the rows as messages before it commits."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from mq_client.errors import UsageError
from spark_jobs import sink
from spark_jobs.options import Sending
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, JournaledSink, RowsRefusedError

FORMAT = "rocketmq"


@dataclass(frozen=True, slots=True)
class TopicSink(JournaledSink):
    """Both sides of the sink. The tasks of a process share a client, which stays open."""

    sending: Sending

    @property
    def folders(self) -> SinkFolders | None:
        """None: the sink writes no files."""
        return None

    def write(self, _: Delivery, rows: Sequence[pa.RecordBatch]) -> str:
        """Send each row, and wait until the brokers have stored it."""
        try:
            sink.send(rows, self.sending)
        except UsageError as error:
            raise RowsRefusedError(str(error)) from error
        return ""
