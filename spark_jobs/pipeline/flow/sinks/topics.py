"""A sink of RocketMQ topics: a task sends the rows as messages before it commits."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from mq_client.errors import UsageError
from spark_jobs import sink
from spark_jobs.options import Sending
from spark_jobs.pipeline.flow.sinks.folders import SinkFolders
from spark_jobs.pipeline.flow.sinks.kinds import Delivery, ReadPosition, RowsRefusedError

FORMAT = "rocketmq"


@dataclass(frozen=True, slots=True)
class TopicSink:
    """Both sides of the sink: clients are shared within a process."""

    sending: Sending

    @property
    def folders(self) -> SinkFolders | None:
        """It writes no files."""
        return None

    @property
    def has_positions(self) -> bool:
        """The journal has them."""
        return False

    @property
    def positions(self) -> ReadPosition | None:
        """The journal has them."""
        return None

    def open(self) -> "TopicSink":
        """Begin to write, in a task."""
        return self

    def write(self, _: Delivery, rows: Sequence[pa.RecordBatch]) -> str:
        """Send each row, and wait until the brokers have stored it."""
        try:
            sink.send(rows, self.sending)
        except UsageError as error:
            raise RowsRefusedError(str(error)) from error
        return ""

    def close(self) -> None:
        """Keep the client: the next task of this process may need it."""
